"""What a cleaning leaves of a log: one sentence of Kafka's rules, one test."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from bifrost.log.cleaning import worker
from bifrost.log.cleaning.choosing import task_for
from bifrost.log.cleaning.filter import BatchFilter, note_keys
from bifrost.log.cleaning.offset_map import OffsetMap
from bifrost.log.config import INT64_MAX, LogConfig
from bifrost.log.memory_disk import MemoryDisk, MemoryFile
from bifrost.log.partition_log import PartitionLog
from bifrost.log.scan import DamagedBatchError
from bifrost.log.timestamps import find_timestamp, max_timestamp
from bifrost.protocol.batch import BatchHeader, read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.record_spans import has_delete_horizon, records_of
from bifrost.protocol.records import Record, encode_batch
from tests.unit.log.batches import DIRECTORY, NOW, open_log, read_batches, read_records
from tests.unit.log.cleaning import clean, dirt, fill, put, put_nonsense

DAY = 24 * 3_600_000
COMPACTED = LogConfig(compacted=True, deletes=False, segment_bytes=10_000, index_interval_bytes=100)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def log(disk: MemoryDisk) -> PartitionLog:
    return open_log(disk, COMPACTED)


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [read_header(batch) for batch in read_batches(log, log.log_start_offset, log.log_end_offset)]


def pairs(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_records(log)]


def test_the_last_record_of_each_key_stays_where_it_was(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")], [(b"c", b"1")]])
    before = {record.offset: record for record in read_records(log)}
    clean(log, disk)
    assert read_records(log) == [before[1], before[2], before[3]]


def test_segments_become_one(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")]])
    (cleaned,) = clean(log, disk)
    assert cleaned.base_offsets == (0, 1, 2)
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert log.size_bytes == cleaned.size
    assert [name for name in disk.listdir(DIRECTORY) if name.endswith(".log")] == [f"{0:020d}.log", f"{3:020d}.log"]


def test_no_segment_grows_above_segment_bytes(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(compacted=True, segment_bytes=250))
    fill(log, [[(b"%d" % number, b"x" * 20)] for number in range(5)])
    clean(log, disk)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 5]


def test_a_segment_that_stays_as_it_is_is_not_replaced(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1"), (b"b", b"1")]])
    assert clean(log, disk) == []
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


def test_the_active_segment_is_not_cleaned(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1")], [(b"b", b"1")]])
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"))
    clean(log, disk)
    assert pairs(log) == [(0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"), (3, b"a", b"3")]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_keeps_its_codec_offsets_and_times(log: PartitionLog, disk: MemoryDisk, codec: Codec) -> None:
    put(log, *[(b"%d" % number, b"old" * 9) for number in range(5)], codec=codec)
    log.roll(NOW)
    fill(log, [[(b"0", b"new"), (b"4", b"new")]])
    before = read_records(log)
    clean(log, disk)
    assert read_records(log) == [*before[1:4], *before[5:]]
    first = headers(log)[0]
    assert (first.codec, first.base_offset, first.last_offset, first.record_count) == (codec, 0, 4, 3)
    assert first.max_timestamp == NOW + 3, "of those that stay"


def test_a_tombstone_stays_until_its_horizon(log: PartitionLog, disk: MemoryDisk) -> None:
    """KIP-534: the clock starts with the first cleaning."""
    fill(log, [[(b"a", b"1"), (b"b", b"1")], [(b"a", None), (b"c", b"1")]])
    before = read_records(log)
    clean(log, disk)
    assert read_records(log) == before[1:]
    marked = headers(log)[1]
    assert has_delete_horizon(marked)
    assert marked.base_timestamp == NOW + DAY
    assert marked.max_timestamp == NOW + 1

    fill(log, [[(b"d", b"1")]])
    clean(log, disk, now_ms=NOW + DAY - 1)
    assert (2, b"a", None) in pairs(log)
    assert headers(log)[1].base_timestamp == NOW + DAY, "the horizon is set once"

    fill(log, [[(b"e", b"1")]])
    clean(log, disk, now_ms=NOW + DAY)
    assert pairs(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1"), (5, b"e", b"1")]
    assert read_records(log)[1] == before[3], "its time is still its own"


def test_the_last_batch_of_a_producer_stays_if_only_its_header(log: PartitionLog, disk: MemoryDisk) -> None:
    for sequence in range(3):
        put(log, (b"a", b"1"), producer_id=7, sequence=sequence)
    put(log, (b"b", b"1"), producer_id=8)
    log.roll(NOW)
    fill(log, [[(b"a", b"2"), (b"b", b"2")], [(b"c", b"1")]])
    clean(log, disk)
    kept = [(each.base_offset, each.producer_id, each.base_sequence, each.record_count) for each in headers(log)]
    assert kept == [(2, 7, 2, 0), (3, 8, 0, 0), (4, -1, -1, 2), (6, -1, -1, 1)]
    assert pairs(log) == [(4, b"a", b"2"), (5, b"b", b"2"), (6, b"c", b"1")]

    again = open_log(disk, COMPACTED)
    assert again.producers.entries[7].batches[-1].last_sequence == 2
    assert put(again, (b"a", b"1"), producer_id=7, sequence=2) == 2, "a repetition is recognised"


def test_a_segment_always_reaches_up_to_the_next(disk: MemoryDisk) -> None:
    """So that recovery never takes a gap for a lost tail, not even when the topic is not compacted any more."""
    log = open_log(disk, LogConfig(compacted=True, segment_bytes=100))
    fill(log, [[(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")]])
    clean(log, disk)
    assert [(each.base_offset, each.record_count) for each in headers(log)] == [(0, 0), (1, 0), (2, 1)]
    plain = open_log(disk, LogConfig(segment_bytes=100), recovery_point=0)
    assert (plain.log_end_offset, pairs(plain)) == (3, [(2, b"a", b"3")])


def test_records_without_a_key_go(log: PartitionLog, disk: MemoryDisk) -> None:
    """As in Kafka: they date from before the topic was compacted."""
    fill(log, [[(None, b"1"), (b"a", b"1")], [(b"b", b"1")]])
    clean(log, disk)
    assert pairs(log) == [(1, b"a", b"1"), (2, b"b", b"1")]


def test_transactions_are_left_alone(log: PartitionLog, disk: MemoryDisk) -> None:
    """They neither lose records nor make others lose theirs, for nobody knows yet which ones were aborted."""
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer_id=7, transactional=True)
    log.roll(NOW)
    fill(log, [[(b"b", b"1")]])
    put(log, (b"x", b"1"), producer_id=7, sequence=1, transactional=True)
    clean(log, disk)
    assert pairs(log)[:3] == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"b", b"1")]


def test_a_full_map_takes_several_rounds(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"%d" % number, b"%d" % version)] for version in range(3) for number in range(4)])
    rounds = 0
    while dirt(log) is not None:
        clean(log, disk, map_entries_max=3)
        rounds += 1
    assert rounds == 4
    assert pairs(log) == [(8 + number, b"%d" % number, b"2") for number in range(4)]


def test_a_batch_with_more_keys_than_the_map_takes_gets_on(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"%d" % number, b"1") for number in range(9)], [(b"0", b"2")]])
    while dirt(log) is not None:
        clean(log, disk, map_entries_max=1)
    assert [key for _, key, _ in pairs(log)] == [b"%d" % number for number in (*range(1, 9), 0)]


def test_a_map_is_never_overfilled_and_ends_inside_a_batch() -> None:
    batch = encode_batch([(NOW, b"%d" % (number % 5), b"1", ()) for number in range(9)])
    offsets = OffsetMap(3)
    note_keys(offsets, memoryview(batch), read_header(batch), 1)
    assert (offsets.offsets, offsets.end_offset) == ({b"1": 1, b"2": 2, b"3": 3}, 4)


def test_what_lies_behind_the_end_of_the_map_stays_for_another_round(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1"), (b"b", b"1"), (None, b"1"), (b"c", None)]])
    clean(log, disk, map_entries_max=1)
    assert log.first_dirty_offset == 1
    assert pairs(log) == [(0, b"a", b"1"), (1, b"b", b"1"), (2, None, b"1"), (3, b"c", None)]
    assert not has_delete_horizon(headers(log)[0]), "its tombstone has not been met"
    clean(log, disk)
    assert pairs(log) == [(0, b"a", b"1"), (1, b"b", b"1"), (3, b"c", None)]
    assert has_delete_horizon(headers(log)[0])


def test_a_batch_of_very_many_records_takes_no_more_than_its_bytes() -> None:
    count = 60_000
    batch = memoryview(encode_batch([(NOW, b"k" if n % 2 else b"", b"", ()) for n in range(count)]))
    header, offsets = read_header(batch), OffsetMap(1 << 20)
    inflated = len(records_of(batch, header, 1 << 30))
    batches = BatchFilter(offsets, {}, now_ms=NOW, delete_retention_ms=0)

    def peak(work: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(lambda: note_keys(offsets, batch, header, 0)) < 5 * inflated
    offsets.offsets[b""] = 1 << 40
    assert peak(lambda: batches.retained(batch, header, is_last=True)) < 5 * inflated
    assert batches.records_dropped == count - 1


def test_tombstones_that_are_kept_for_ever_are_kept(log: PartitionLog, disk: MemoryDisk) -> None:
    log.config = replace(COMPACTED, delete_retention_ms=INT64_MAX)
    fill(log, [[(b"a", b"1")], [(b"a", None)], [(b"b", b"1")]])
    clean(log, disk)
    assert pairs(log) == [(1, b"a", None), (2, b"b", b"1")]
    assert headers(log)[0].base_timestamp == INT64_MAX


def test_a_batch_that_lies_about_its_records_is_damage(log: PartitionLog, disk: MemoryDisk) -> None:
    """With a checksum that is right it could be written while the topic was not compacted, and nobody looked inside."""
    put_nonsense(log)
    log.roll(NOW)
    fill(log, [[(b"a", b"2")]])
    with pytest.raises(DamagedBatchError, match="64 bits"):
        clean(log, disk)


def test_times_are_found_in_what_is_left(log: PartitionLog, disk: MemoryDisk) -> None:
    put(log, (b"a", b"1"), timestamp=NOW + 9_000, producer_id=7)
    log.roll(NOW)
    for number in range(4):
        put(log, (b"%d" % number, b"1"), timestamp=NOW + number * 1000)
        log.roll(NOW)
    put(log, (b"a", b"2"), timestamp=NOW + 500)
    log.roll(NOW)
    clean(log, disk)
    found = find_timestamp(log, NOW + 1500, log.log_end_offset)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (3, NOW + 2000)
    greatest = max_timestamp(log, log.log_end_offset)
    assert greatest is not None
    assert (greatest.offset, greatest.timestamp_ms) == (4, NOW + 3000)


def test_a_reader_of_a_replaced_segment_can_finish(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1")], [(b"a", b"2")]])
    held = log.read(0, 1 << 20, end_offset=2, min_one_batch=True)
    assert held is not None
    before = held.file.read_at(held.size, held.position)
    clean(log, disk)
    assert held.file.read_at(held.size, held.position) == before
    assert pairs(log) == [(1, b"a", b"2")]


def test_a_segment_that_was_replaced_leaves_the_indexes_of_the_next_alone(log: PartitionLog, disk: MemoryDisk) -> None:
    for number in range(2):
        put(log, (b"%d" % number, b"x"), timestamp=NOW + 1000 * number)
        log.roll(NOW)
    held, path = log.segments[0], f"{DIRECTORY}/{0:020d}.timeindex"
    clean(log, disk)
    before = disk.read_bytes(path)
    assert held.distrust_indexes("a thread finds another file than it knew")
    assert disk.read_bytes(path) == before
    assert log.segments[0].greatest_timestamp() == (NOW + 1000, 1)


def test_snapshots_of_producers_stay_where_segments_begin(log: PartitionLog, disk: MemoryDisk) -> None:
    for number in range(3):
        put(log, (b"a", b"%d" % number), producer_id=7, sequence=number)
        log.roll(NOW)
    clean(log, disk)
    assert [name for name in disk.listdir(DIRECTORY) if name.endswith(".snapshot")] == [f"{3:020d}.snapshot"]


def test_a_truncation_meanwhile_is_noticed(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")]])
    found = dirt(log)
    assert found is not None
    worker.begin(1, task_for(found, disk, now_ms=NOW, map_entries_max=9, read_bytes=0))
    steps = []
    while not steps or steps[-1].cleaned is None:
        steps.append(worker.advance(1))
    log.truncate_to(1)
    assert steps[-1].cleaned is not None
    assert log.replace_segments(steps[-1].cleaned) is None
    worker.end(1)
    assert pairs(log) == [(0, b"a", b"1")]
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


def test_a_truncation_makes_dirty_again(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1")], [(b"a", b"2")], [(b"b", b"3")]])
    clean(log, disk)
    assert log.first_dirty_offset == 3
    log.truncate_to(2)
    assert log.first_dirty_offset == 2


def test_damage_is_told_and_not_hidden_behind_a_new_checksum(log: PartitionLog, disk: MemoryDisk) -> None:
    fill(log, [[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")]])
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.write_at(b"!", file.size() - 2)
    with pytest.raises(DamagedBatchError, match="checksum"):
        clean(log, disk)
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


def test_one_sync_is_enough_for_what_the_disk_has_taken_by_then(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(disk, LogConfig(compacted=True, segment_bytes=1 << 22))
    for number in range(30):
        put(log, (b"a", b"x"), (b"%d" % number, b"x" * 70_000))
    log.roll(NOW)
    told: list[tuple[int, int] | None] = []
    taken, synced_files = set(), set()

    def write_back(file: MemoryFile, position: int, size: int) -> None:
        assert not synced_files, "who syncs first writes the journal for all"
        taken.add(file.path)
        if file.path.endswith(".log.cleaned"):
            told.append((position, size))

    def sync(file: MemoryFile) -> None:
        if file.path.endswith(".cleaned"):
            synced_files.add(file.path)
        if file.path.endswith(".log.cleaned"):
            told.append(None)

    monkeypatch.setattr(MemoryFile, "write_back", write_back)
    monkeypatch.setattr(MemoryFile, "sync", sync)
    (cleaned,) = clean(log, disk)
    *ranges, synced = told
    assert synced is None
    at = 0
    for each in ranges:
        assert each is not None, "a sync makes others wait"
        assert each[0] == at
        at += each[1]
    assert (at, len(ranges)) == (cleaned.size, 30)
    assert synced_files == taken
    assert len(taken) == 3


def test_index_entries_lead_to_their_batches(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(compacted=True, segment_bytes=100_000, index_interval_bytes=0))
    for number in range(50):
        put(log, (b"%d" % (number % 20), b"x" * 50), (b"other", b"y"))
    log.roll(NOW)
    put(log, (b"end", b""))
    clean(log, disk)
    for record in read_records(log):
        first = next(read_batches(log, record.offset, log.log_end_offset))
        assert read_header(first).last_offset >= record.offset >= read_header(first).base_offset
    assert isinstance(read_records(log)[0], Record)
