"""ListOffsets by time: the first record that is late enough, by its own timestamp."""

from __future__ import annotations

import pytest

from bifrost.errors import ApiError
from bifrost.log.config import LOG_APPEND_TIME, LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.log.timestamps import TimestampAndOffset, find_timestamp, max_timestamp
from bifrost.protocol.batch import read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import encode_batch
from tests.unit.log.batches import DIRECTORY, NOW, append, open_log


def store(log: PartitionLog, *timestamps: int, codec: Codec = Codec.NONE, leader_epoch: int = 0) -> None:
    data = encode_batch([(timestamp, None, b"v", ()) for timestamp in timestamps], codec=codec)
    log.append(memoryview(data), read_header(data), leader_epoch=leader_epoch, now_ms=NOW)


@pytest.fixture
def log() -> PartitionLog:
    """Timestamps by offset: 10 30 20 | 40 | 15 | 50 25 | 50, in two segments."""
    log = open_log(MemoryDisk(), LogConfig(index_interval_bytes=0))
    store(log, 10, 30, 20)
    store(log, 40, leader_epoch=1)
    log.roll(NOW)
    store(log, 15, leader_epoch=2)
    store(log, 50, 25, codec=Codec.GZIP, leader_epoch=2)
    store(log, 50, leader_epoch=3)
    return log


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (10, 0, 0)),
        (10, (10, 0, 0)),
        (11, (30, 1, 0)),
        (20, (30, 1, 0)),
        (31, (40, 3, 1)),
        (41, (50, 5, 2)),
        (50, (50, 5, 2)),
        (51, None),
    ],
)
def test_the_first_record_that_is_late_enough(log: PartitionLog, timestamp: int, found: tuple[int, int, int]) -> None:
    assert find_timestamp(log, timestamp, 8) == (found and TimestampAndOffset(*found))


def test_a_record_that_may_not_be_read_yet_is_no_answer(log: PartitionLog) -> None:
    assert find_timestamp(log, 41, 6) is not None
    assert find_timestamp(log, 41, 5) is None
    assert max_timestamp(log, 6) is not None
    assert max_timestamp(log, 5) is None


def test_records_before_the_start_do_not_count(log: PartitionLog) -> None:
    log.advance_log_start(2)
    assert find_timestamp(log, 0, 8) == TimestampAndOffset(20, 2, 0)
    log.advance_log_start(4)
    assert find_timestamp(log, 0, 8) == TimestampAndOffset(15, 4, 2), "Kafka looks in one segment, and finds nothing"


def test_the_greatest_timestamp_is_found_at_its_first_record(log: PartitionLog) -> None:
    assert max_timestamp(log, 8) == TimestampAndOffset(50, 5, 2)


def test_an_empty_log_has_no_timestamps() -> None:
    log = open_log(MemoryDisk())
    assert find_timestamp(log, 0, 0) is None
    assert max_timestamp(log, 0) is None
    append(log, b"v", timestamp=-1)
    assert max_timestamp(log, 1) is None


def test_with_append_time_a_batch_has_one_timestamp() -> None:
    log = open_log(MemoryDisk(), LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    store(log, 10, 30, 20)
    assert find_timestamp(log, NOW, 3) == TimestampAndOffset(NOW, 0, 0)
    assert max_timestamp(log, 3) == TimestampAndOffset(NOW, 0, 0)


def test_a_time_index_that_lies_is_found_out() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(index_interval_bytes=0))
    for timestamp in (10, 20, 30, 40, 50):
        store(log, timestamp)
    log.roll(NOW)
    index = disk.open(f"{DIRECTORY}/00000000000000000000.timeindex").content
    index[12 * 2 + 7] = 21
    assert find_timestamp(log, 22, 5) == TimestampAndOffset(30, 2, 0)


def test_a_damaged_batch_is_an_error_and_not_an_answer() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    store(log, 10, 20)
    disk.open(f"{DIRECTORY}/00000000000000000000.log").content[70] ^= 1
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        find_timestamp(log, 5, 2)
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        max_timestamp(log, 2)
