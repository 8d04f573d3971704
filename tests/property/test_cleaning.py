"""Compaction against a dictionary, and cut off before every single thing that it does to the disk.

Promises: what is left is what was written, unchanged and in order; of everything before the point up to which a log is
clean, each key has its last record and no other, save for a tombstone that has had its time; the rest is all there; and
whoever opens the files anew finds the same, whenever the power went.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bifrost.log.config import LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import Record
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import NOW, open_log, read_records
from tests.unit.log.cleaning import KeyValue, clean, dirt, put

RETENTION_MS = 1000
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"a key that is longer than its digest"])
VALUES = st.one_of(st.none(), st.binary(max_size=40))


class Write(NamedTuple):
    """A batch, and whether its segment ends with it."""

    pairs: list[KeyValue]
    codec: Codec
    producer_id: int
    rolls: bool


class Clean(NamedTuple):
    """A round of cleaning, so long after the one before."""

    later_ms: int
    map_entries_max: int


WRITES = st.builds(
    Write,
    st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5),
    st.sampled_from(list(Codec)),
    st.sampled_from([-1, -1, 7, 8]),
    st.booleans(),
)
CLEANINGS = st.builds(Clean, st.sampled_from([0, 1, RETENTION_MS]), st.sampled_from([1, 2, 3, 100]))


class Model:
    """What was written, and what each of it has to be after the cleanings so far."""

    def __init__(self) -> None:
        self.written: list[Record] = []
        self.sequences: dict[int, int] = {}

    def check(self, log: PartitionLog, first_dirty: int) -> None:
        left = read_records(log)
        by_offset = {record.offset: record for record in self.written}
        assert left == sorted(left), "in order"
        assert all(by_offset[record.offset] == record for record in left), "unchanged"
        last_clean: dict[bytes | None, int] = {}
        for record in self.written:
            if record.offset < first_dirty:
                last_clean[record.key] = record.offset
        kept = {record.offset for record in left}
        for record in self.written:
            must_stay = record.offset >= first_dirty or last_clean[record.key] == record.offset
            if record.value is None and record.offset < first_dirty:
                assert must_stay or record.offset not in kept
            else:
                assert (record.offset in kept) == must_stay, record
        latest = {record.key: record for record in self.written}
        found = {record.key: record for record in left}
        for key, record in latest.items():
            assert found.get(key) == record or (record.value is None and key not in found), key


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(st.one_of(WRITES, WRITES, CLEANINGS), max_size=25), segment_bytes=st.sampled_from([600, 1200, 9000])
)
def test_a_log_against_a_dictionary(steps: list[Write | Clean], segment_bytes: int) -> None:
    disk = MemoryDisk()
    config = LogConfig(
        compacted=True, segment_bytes=segment_bytes, index_interval_bytes=50, delete_retention_ms=RETENTION_MS
    )
    log, model, now_ms = open_log(disk, config), Model(), NOW
    for step in steps:
        if isinstance(step, Write):
            write(log, model, step)
        elif dirt(log) is not None:
            now_ms += step.later_ms
            clean(log, disk, now_ms=now_ms, map_entries_max=step.map_entries_max, read_bytes=100)
        model.check(log, log.first_dirty_offset)
    entries = last_batches(log)
    for recovery_point, clean_stop in ((0, False), (log.log_end_offset, True)):
        if clean_stop:
            log.close()
        again = open_log(disk, config, recovery_point=recovery_point, clean=clean_stop)
        model.check(again, log.first_dirty_offset)
        assert again.log_end_offset == log.log_end_offset
        assert last_batches(again) == entries


def last_batches(log: PartitionLog) -> dict[int, tuple[int, ...]]:
    """What each producer wrote last, and where; the time is that of what is left of it."""
    return {number: entry.batches[-1][:4] for number, entry in log.producers.entries.items()}


def write(log: PartitionLog, model: Model, step: Write) -> None:
    sequence = model.sequences.get(step.producer_id, 0)
    start = log.log_end_offset
    put(log, *step.pairs, codec=step.codec, producer_id=step.producer_id, sequence=sequence)
    model.sequences[step.producer_id] = sequence + len(step.pairs)
    model.written += [Record(start + index, NOW + index, *pair) for index, pair in enumerate(step.pairs)]
    if step.rolls:
        log.roll(NOW)


class PowerCutError(Exception):
    """The machine is off."""


def cut_before(number: int) -> Callable[[str, str], bool]:
    seen = 0

    def fail_on(operation: str, path: str) -> bool:
        nonlocal seen
        seen += 1
        if seen > number:
            raise PowerCutError(operation, path)
        return False

    return fail_on


def filled(seed: int, config: LogConfig) -> tuple[FaultyDisk, PartitionLog]:
    disk = FaultyDisk(Random(seed))
    disk.makedirs("/data")
    disk.sync_directory("/")
    log = open_log(disk, config)
    for number in range(12):
        put(log, (b"%d" % (number % 3), b"value %d" % number), (b"%d" % number, None if number % 4 else b"x"))
        if number % 2:
            log.roll(NOW)
    put(log, (b"end", b"1"))
    log.flush()
    return disk, log


def states(config: LogConfig) -> list[list[Record]]:
    """What the log holds before the cleaning, and after each group of segments that is replaced."""
    disk, log = filled(0, config)
    seen = [read_records(log)]
    replace = log.replace_segments

    class Watched(PartitionLog):
        __slots__ = ()

        def replace_segments(self, cleaned):  # type: ignore[no-untyped-def]
            paths = replace(cleaned)
            seen.append(read_records(log))
            return paths

    log.__class__ = Watched  # type: ignore[assignment]
    clean(log, disk, read_bytes=100)
    return seen


@pytest.mark.parametrize("compacted_at_start", [True, False])
@pytest.mark.parametrize("segment_bytes", [220, 420, 100_000])
def test_a_loss_of_power_before_every_operation(segment_bytes: int, compacted_at_start: bool) -> None:
    """The log then holds the old segments or the new, and never less; also if its policy has changed meanwhile."""
    config = LogConfig(compacted=True, segment_bytes=segment_bytes, index_interval_bytes=0)
    allowed = states(config)
    assert len(allowed) > 1
    later = LogConfig(compacted=compacted_at_start, segment_bytes=segment_bytes, index_interval_bytes=0)
    outcomes = set()
    for number in range(10_000):
        disk, log = filled(number, config)
        disk.fail_on = cut_before(number)
        try:
            clean(log, disk, read_bytes=100)
            log.flush()
            is_over = True
        except PowerCutError:
            is_over = False
        disk.fail_on = None
        disk.crash(power=number % 5 != 0)
        for recovery_point in (log.recovery_point, 0):
            again = open_log(disk, later, recovery_point=recovery_point)
            left = read_records(again)
            assert left in allowed, f"cut before operation {number}"
            assert again.log_end_offset == log.log_end_offset
            outcomes.add(allowed.index(left))
        if is_over:
            break
    assert outcomes == {allowed.index(state) for state in allowed}, "every state was seen"
