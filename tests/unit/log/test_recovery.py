"""After a crash: what is damaged is cut, what is derived is rebuilt, what was safe stays."""

from __future__ import annotations

import logging
import struct
from random import Random

import pytest

from bifrost.errors import StorageError
from bifrost.log.config import LogConfig
from bifrost.log.index import OffsetIndex
from bifrost.log.memory_disk import MemoryDisk, MemoryFile
from bifrost.log.partition_log import PartitionLog
from bifrost.log.recovery import bytes_to_scan, recover
from bifrost.log.timestamps import find_timestamp
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import DIRECTORY, NOW, append, open_log, produced, read_records, replicated, values_of

SIZE = len(produced([b"v0"])[0])
CONFIG = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0)
"""Three batches of one record to a segment, an entry for every batch but the first."""


def crashed(count: int, disk: MemoryDisk | None = None, **options: int) -> MemoryDisk:
    """A log of `count` batches whose process ended without a word."""
    disk = disk or MemoryDisk()
    log = open_log(disk, CONFIG)
    for number in range(count):
        append(log, b"v%d" % number, timestamp=NOW + number, producer_id=7, sequence=number, **options)
    log.flush()
    return disk


def file(disk: MemoryDisk, name: str) -> MemoryFile:
    return disk.open(f"{DIRECTORY}/{name}")


def log_file(disk: MemoryDisk, base_offset: int) -> MemoryFile:
    return file(disk, f"{base_offset:020d}.log")


def values(count: int) -> list[bytes]:
    return [b"v%d" % number for number in range(count)]


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize("torn", [1, 20, 60, 61, SIZE - 1])
def test_a_torn_batch_at_the_end_is_cut(torn: int, caplog: pytest.LogCaptureFixture) -> None:
    disk = crashed(4)
    log_file(disk, 3).write_at(produced([b"torn"])[0][:torn], SIZE)
    log = open_log(disk, CONFIG)
    assert values_of(log) == values(4)
    assert log_file(disk, 3).size() == SIZE
    cuts = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(cuts) == 1
    assert f"bytes={torn}" in cuts[0].getMessage()


def test_a_whole_log_is_not_cut(caplog: pytest.LogCaptureFixture) -> None:
    disk = crashed(8)
    assert values_of(open_log(disk, CONFIG)) == values(8)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_log_ends_at_the_first_bad_batch_and_later_segments_go(caplog: pytest.LogCaptureFixture) -> None:
    disk = crashed(9)
    log_file(disk, 3).content[SIZE + 65] ^= 1
    log = open_log(disk, CONFIG)
    assert values_of(log) == values(4)
    assert bases(log) == [0, 3]
    assert "later_segments=1" in caplog.text
    assert [name for name in disk.listdir(DIRECTORY) if name >= "00000000000000000005"] == ["leader-epoch-checkpoint"]
    assert append(log, b"next", producer_id=7, sequence=4).base_offset == 4


def test_what_lies_before_the_recovery_point_is_not_read() -> None:
    disk = crashed(9)
    log_file(disk, 0).content[65] ^= 1
    assert bytes_to_scan(disk, DIRECTORY, 7) == 3 * SIZE
    log = open_log(disk, CONFIG, recovery_point=7)
    assert log.log_end_offset == 9
    assert values_of_from(log, 3) == values(9)[3:]


def values_of_from(log: PartitionLog, start: int) -> list[bytes | None]:
    return [record.value for record in read_records(log, start)]


def test_a_segment_that_was_just_rolled_is_read_again() -> None:
    """Its indexes are only safe once the recovery point has moved on."""
    disk = crashed(6)
    assert bytes_to_scan(disk, DIRECTORY, 3) == 6 * SIZE
    assert bytes_to_scan(disk, DIRECTORY, 4) == 3 * SIZE
    assert bytes_to_scan(disk, DIRECTORY, 0) == 6 * SIZE


def test_a_lost_tail_of_a_closed_segment_ends_the_log(caplog: pytest.LogCaptureFixture) -> None:
    disk = crashed(9)
    log_file(disk, 3).truncate(SIZE)
    log = open_log(disk, CONFIG, recovery_point=2)
    assert values_of(log) == values(4)
    assert bases(log) == [0, 3]
    assert "the next segment starts at offset 6" in caplog.text


def test_a_hole_before_the_recovery_point_is_what_compaction_left() -> None:
    disk = crashed(9)
    log_file(disk, 3).truncate(SIZE)
    log = open_log(disk, CONFIG, recovery_point=6)
    assert [record.offset for record in read_records(log)] == [0, 1, 2, 3, 6, 7, 8]


@pytest.mark.parametrize("recovery_point", [0, 2])
def test_gaps_of_a_log_that_somebody_closed_in_order_stay(recovery_point: int) -> None:
    """Kafka's cleaner leaves them: a crash of this node cannot have taken what a clean stop had synced."""
    disk = crashed(9)
    open_log(disk, CONFIG).close()
    log_file(disk, 3).truncate(SIZE)
    log = open_log(disk, CONFIG, clean=True, recovery_point=recovery_point)
    assert [record.offset for record in read_records(log)] == [0, 1, 2, 3, 6, 7, 8]


def test_a_compacted_log_may_have_holes_anywhere() -> None:
    disk = crashed(9)
    log_file(disk, 3).truncate(SIZE)
    config = LogConfig(segment_bytes=3 * SIZE, compacted=True)
    assert [record.offset for record in read_records(open_log(disk, config))] == [0, 1, 2, 3, 6, 7, 8]


def test_a_gap_wider_than_an_index_counts_is_no_lost_tail() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for offset in (0, 1 << 33):
        log.append_replicated(memoryview(replicated(offset, [b"v"])), NOW)
    assert [record.offset for record in read_records(open_log(disk))] == [0, 1 << 33]


def test_indexes_are_built_anew() -> None:
    disk = crashed(6)
    for base_offset in (0, 3):
        file(disk, f"{base_offset:020d}.log")
    for name in disk.listdir(DIRECTORY):
        if name.endswith("index"):
            file(disk, name).content[:] = b"garbage"
    recover(disk, DIRECTORY, CONFIG, recovery_point=0, log_start_offset=0, now_ms=NOW)
    offsets = bytes(file(disk, "00000000000000000003.index").content)
    times = bytes(file(disk, "00000000000000000003.timeindex").content)
    assert offsets == struct.pack(">iiii", 1, SIZE, 2, 2 * SIZE)
    assert times == struct.pack(">qi", NOW + 4, 1) + struct.pack(">qi", NOW + 5, 2)


def test_kafkas_preallocated_indexes_are_no_obstacle() -> None:
    """Kafka keeps 10 MiB of zeros behind the entries of its active segment until it is closed."""
    disk = crashed(4)
    for clean, size in ((False, 10 << 20), (True, 10 << 20), (True, 24 << 10)):
        for suffix in (".index", ".timeindex"):
            disk.open(f"{DIRECTORY}/{3:020d}{suffix}", create=True).truncate(size)
        log = open_log(disk, CONFIG, clean=clean, recovery_point=4)
        assert values_of(log) == values(4)
        found = find_timestamp(log, NOW + 3, 4)
        assert found is not None
        assert found.offset == 3


def test_snapshots_of_no_segment_are_no_obstacle() -> None:
    disk = crashed(7)
    open_log(disk, CONFIG).close()
    for offset in (4, 5, 9):
        disk.open(f"{DIRECTORY}/{offset:020d}.snapshot", create=True).write_at(b"junk", 0)
    log = open_log(disk, CONFIG, clean=True, recovery_point=7)
    assert append(log, b"v6", producer_id=7, sequence=6).duplicate
    assert [name[:20] for name in disk.listdir(DIRECTORY) if name.endswith(".snapshot")] == [
        f"{offset:020d}" for offset in (3, 6, 7)
    ]


def test_files_that_only_kafka_needs_stay() -> None:
    disk = crashed(4)
    disk.open(f"{DIRECTORY}/{0:020d}.txnindex", create=True).write_at(b"x" * 34, 0)
    open_log(disk, CONFIG).close()
    assert file(disk, f"{0:020d}.txnindex").size() == 34


def test_epochs_are_read_from_the_batches() -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    for number in range(9):
        append(log, b"v%d" % number, leader_epoch=number // 2)
    expected = [(epoch, epoch * 2) for epoch in range(5)]
    for content in (b"0\n1\n0 0\n", b"0\n2\n0 0\n99 5\n", b"garbage", None):
        path = f"{DIRECTORY}/leader-epoch-checkpoint"
        if content is None:
            disk.remove(path)
        else:
            disk.write_atomic(path, content)
        assert open_log(disk, CONFIG).epochs.entries() == expected
    log = open_log(disk, CONFIG)
    log.close()
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", b"garbage")
    assert open_log(disk, CONFIG, clean=True, recovery_point=9).epochs.entries() == expected


def test_an_epoch_without_batches_does_not_outlive_a_restart() -> None:
    disk = crashed(2)
    log = open_log(disk, CONFIG)
    log.assign_epoch(7)
    log.close()
    assert open_log(disk, CONFIG, clean=True, recovery_point=2).epochs.entries() == [(0, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_idempotence_survives_a_restart(clean: bool) -> None:
    disk = crashed(7)
    log = open_log(disk, CONFIG)
    if clean:
        log.close()
    log = open_log(disk, CONFIG, clean=clean, recovery_point=7)
    assert append(log, b"v6", producer_id=7, sequence=6).duplicate
    assert append(log, b"v7", producer_id=7, sequence=7).base_offset == 7


@pytest.mark.parametrize("clean", [True, False])
def test_a_client_may_repeat_all_five_batches_after_a_restart(clean: bool) -> None:
    """Snapshots hold one batch a producer; the headers at the end of the log tell of the others."""
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(8):
        append(log, b"v%d" % number, producer_id=7, sequence=number)
        append(log, b"other", producer_id=8, sequence=number)
    if clean:
        log.close()
    log = open_log(disk, clean=clean, recovery_point=16)
    for number in range(3, 8):
        result = append(log, b"v%d" % number, producer_id=7, sequence=number)
        assert (result.duplicate, result.base_offset) == (True, number * 2)
    log.truncate_to(12)
    assert [batch.base_offset for batch in log.producers.entries[7].batches] == [2, 4, 6, 8, 10]


def test_a_damaged_snapshot_costs_only_time() -> None:
    disk = crashed(7)
    open_log(disk, CONFIG).close()
    for name in disk.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            file(disk, name).content[8] ^= 1
    log = open_log(disk, CONFIG, clean=True, recovery_point=7)
    assert append(log, b"v6", producer_id=7, sequence=6).duplicate


def test_expired_producers_are_not_loaded() -> None:
    disk = crashed(2)
    open_log(disk, CONFIG).close()
    log = open_log(disk, CONFIG, clean=True, recovery_point=2, now_ms=NOW + 25 * 3_600_000)
    assert log.producers.entries == {}


@pytest.mark.parametrize("recovery_point", [0, 5, 9])
def test_a_clean_log_that_does_not_end_where_it_should_is_recovered(recovery_point: int) -> None:
    """A partition copied in from elsewhere, or cut: its recovery point is not its end."""
    disk = crashed(7)
    open_log(disk, CONFIG).close()
    log_file(disk, 6).write_at(b"torn", SIZE)
    log = open_log(disk, CONFIG, clean=True, recovery_point=recovery_point)
    assert values_of(log) == values(7)
    assert log_file(disk, 6).size() == SIZE


def test_a_clean_start_believes_only_indexes_that_agree_with_the_log() -> None:
    disk = crashed(3)
    open_log(disk, CONFIG).close()
    index = OffsetIndex(0)
    index.append(1, SIZE + 7)
    file(disk, f"{0:020d}.index").content[:] = index.encode()
    assert values_of(open_log(disk, CONFIG, clean=True, recovery_point=3)) == values(3)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [b"", b"123", b"\xff" * 24, bytes(24)])
def test_closed_segments_get_new_indexes_when_theirs_are_wrong(suffix: str, content: bytes) -> None:
    disk = crashed(7)
    open_log(disk, CONFIG).close()
    file(disk, f"{0:020d}{suffix}").content[:] = content
    log = open_log(disk, CONFIG, clean=True, recovery_point=7)
    assert values_of(log) == values(7)
    found = find_timestamp(log, NOW + 1, 7)
    assert found is not None
    assert found.offset == 1


def test_a_missing_index_of_a_closed_segment_is_built() -> None:
    disk = crashed(7)
    open_log(disk, CONFIG).close()
    disk.remove(f"{DIRECTORY}/{0:020d}.index")
    log = open_log(disk, CONFIG, clean=True, recovery_point=7)
    assert values_of(log) == values(7)
    assert disk.exists(f"{DIRECTORY}/{0:020d}.index")


def test_damage_in_a_closed_segment_is_left_for_a_human() -> None:
    """It may hold acknowledged data behind the damage: only reads fail, nothing is cut."""
    disk = crashed(9)
    open_log(disk, CONFIG).close()
    closed = log_file(disk, 0)
    closed.content[SIZE + 8 : SIZE + 12] = struct.pack(">i", 7)
    disk.remove(f"{DIRECTORY}/{0:020d}.index")
    log = open_log(disk, CONFIG, clean=True, recovery_point=9)
    assert log.read(0, SIZE, end_offset=9, min_one_batch=True) is not None
    with pytest.raises(Exception, match="CORRUPT_MESSAGE"):
        read_records(log, 1)
    assert values_of_from(log, 3) == values(9)[3:]
    assert closed.size() == 3 * SIZE


def test_a_log_start_beyond_the_end_empties_the_log() -> None:
    disk = crashed(4)
    log = PartitionLog.open(
        disk,
        DIRECTORY,
        open_log(disk, CONFIG).partition,
        CONFIG,
        clean=False,
        recovery_point=0,
        now_ms=NOW,
        log_start_offset=50,
    )
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (50, 50, [50])


def test_recovered_bytes_are_safe_before_they_count() -> None:
    """A process that ended leaves bytes that only memory holds: recovery syncs what it lets in."""
    for seed in range(20):
        disk = FaultyDisk(Random(seed))
        disk.makedirs("/data")
        disk.sync_directory("/")
        log = open_log(disk, CONFIG)
        log.flush()
        for number in range(4):
            append(log, b"v%d" % number)
        disk.crash(power=False)
        log = open_log(disk, CONFIG)
        assert log.durable_offset == 4
        disk.crash(power=True)
        assert values_of(open_log(disk, CONFIG)) == values(4)


def test_recovery_that_meets_a_failing_disk_says_so() -> None:
    disk = FaultyDisk(Random(1))
    crashed(4, disk)
    disk.fail_on = lambda operation, path: operation == "read" and path.endswith(".log")
    with pytest.raises(StorageError):
        open_log(disk, CONFIG)
