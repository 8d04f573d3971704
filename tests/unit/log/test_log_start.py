"""A log that begins later than it did: what is looked up in it, and followers that begin inside a batch."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.errors import ApiError, DiskFullError, ErrorCode
from bifrost.log.config import LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.log.timestamps import find_timestamp, max_timestamp
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import NOW, append, open_log, read_records, replicated, values_of
from tests.unit.log.test_timestamps import store


@given(
    batches=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=6),
    rolls=st.sets(st.integers(0, 5)),
    start=st.integers(0, 18),
    wanted=st.integers(0, 6),
)
def test_look_ups_by_time_see_what_readers_see(
    batches: list[list[int]], rolls: set[int], start: int, wanted: int
) -> None:
    log = open_log(MemoryDisk(), LogConfig(index_interval_bytes=0))
    for number, timestamps in enumerate(batches):
        store(log, *timestamps)
        if number in rolls:
            log.roll(NOW)
    log.advance_log_start(min(start, log.log_end_offset))
    shown = [(record.timestamp, record.offset) for record in read_records(log)]
    end = log.log_end_offset
    first = next(((stamp, offset) for stamp, offset in shown if stamp >= wanted), None)
    greatest = max((stamp for stamp, _ in shown), default=-1)
    found, latest = find_timestamp(log, wanted, end), max_timestamp(log, end)
    assert (found and (found.timestamp_ms, found.offset)) == first
    assert (latest and (latest.timestamp_ms, latest.offset)) == next((one for one in shown if one[0] == greatest), None)


def test_epochs_that_ended_before_the_start_are_forgotten() -> None:
    """KIP-320: whoever asks for one of them may go on where the first known one starts."""
    log = open_log(MemoryDisk())
    for epoch in range(4):
        append(log, b"a", b"b", leader_epoch=epoch)
    log.advance_log_start(5)
    assert log.epochs.entries() == [(2, 5), (3, 6)]
    assert (log.epoch_end(0), log.epoch_end(2), log.epoch_end(3)) == ((0, 5), (2, 6), (3, 8))


def follower_at(start: int, disk: MemoryDisk | None = None) -> PartitionLog:
    log = open_log(disk or MemoryDisk())
    log.truncate_fully_and_start_at(start, NOW)
    return log


def test_an_empty_log_may_begin_inside_a_batch_of_its_leaders() -> None:
    """Kafka: Partition.appendRecordsToFollowerOrFutureReplica."""
    log = follower_at(7)
    assert log.append_replicated(memoryview(replicated(5, [b"5", b"6", b"7"]) + replicated(8, [b"8"])), NOW) == 9
    assert (log.log_start_offset, log.first_offset) == (7, 5)
    assert values_of(log) == [b"7", b"8"]
    with pytest.raises(ApiError) as refused:
        log.read(6, 100, end_offset=9, min_one_batch=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_ends_before_an_empty_log_begins_is_refused() -> None:
    log = follower_at(7)
    with pytest.raises(ApiError):
        log.append_replicated(memoryview(replicated(5, [b"5", b"6"])), NOW)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)


def test_a_log_that_holds_something_goes_on_at_its_end() -> None:
    log = follower_at(7)
    log.append_replicated(memoryview(replicated(7, [b"7"])), NOW)
    with pytest.raises(ApiError):
        log.append_replicated(memoryview(replicated(6, [b"6", b"7", b"8"])), NOW)
    assert values_of(log) == [b"7"]


def test_damage_is_noticed_before_anything_is_changed() -> None:
    log = follower_at(7)
    batch = bytearray(replicated(5, [b"5", b"6", b"7"]))
    batch[-1] ^= 1
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        log.append_replicated(memoryview(batch), NOW)
    assert (log.log_start_offset, log.log_end_offset, log.first_offset) == (7, 7, 7)


def test_without_room_it_is_as_empty_as_before() -> None:
    disk = FaultyDisk(Random(1))
    log = follower_at(7, disk)
    disk.space_left = 10
    with pytest.raises(DiskFullError):
        log.append_replicated(memoryview(replicated(5, [b"5", b"6", b"7"])), NOW)
    assert (log.log_start_offset, log.log_end_offset, log.first_offset) == (7, 7, 7)
    disk.space_left = None
    log.append_replicated(memoryview(replicated(5, [b"5", b"6", b"7"])), NOW)
    assert values_of(log) == [b"7"]


def test_a_producer_goes_on_after_all_that_it_wrote_was_deleted() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        append(log, b"v", producer_id=7, sequence=sequence)
    log.advance_log_start(3)
    assert append(log, b"v", producer_id=7, sequence=2).duplicate
    log.close()
    again = PartitionLog.open(
        disk, log.directory, log.partition, LogConfig(), clean=True, recovery_point=3, now_ms=NOW, log_start_offset=3
    )
    assert (again.log_start_offset, again.log_end_offset) == (3, 3)
    assert append(again, b"v", producer_id=7, sequence=2).duplicate
    assert append(again, b"w", producer_id=7, sequence=3).base_offset == 3


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5), cut=st.integers(0, 20), extra=st.integers(0, 3))
def test_a_follower_that_begins_anew_ends_with_what_its_leader_shows(sizes: list[int], cut: int, extra: int) -> None:
    leader = open_log(MemoryDisk())
    for size in sizes:
        append(leader, *[b"v"] * size)
    leader.advance_log_start(min(cut, leader.log_end_offset))
    follower = follower_at(leader.log_start_offset)
    for _ in range(len(sizes) + extra):
        piece = leader.read(follower.log_end_offset, 100, end_offset=leader.log_end_offset, min_one_batch=True)
        if piece is not None:
            follower.append_replicated(memoryview(piece.file.read_at(piece.size, piece.position)), NOW)
    assert follower.log_start_offset == leader.log_start_offset
    assert read_records(follower) == read_records(leader)
