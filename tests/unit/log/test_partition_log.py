"""One partition's log: what is appended where, what a reader gets, and when it is safe."""

from __future__ import annotations

import struct
from random import Random

import pytest

from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.log.config import LOG_APPEND_TIME, FlushPolicy, LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.log.slices import AppendResult
from bifrost.protocol.batch import check_crc, iter_headers, read_header
from bifrost.protocol.records import Record, encode_batch
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import (
    DIRECTORY,
    NOW,
    PARTITION,
    append,
    open_log,
    produced,
    read_records,
    replicated,
    values_of,
)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def code_of(attempt: object) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        attempt()  # type: ignore[operator]
    return caught.value.code


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# -- append -----------------------------------------------------------------------------------------------------------


def test_batches_get_consecutive_offsets_and_the_leaders_epoch(disk: MemoryDisk) -> None:
    log = open_log(disk)
    assert append(log, b"a", b"b", leader_epoch=4) == AppendResult(0, 1, -1, False)
    assert append(log, b"c", leader_epoch=5) == AppendResult(2, 2, -1, False)
    content = disk.read_bytes(f"{DIRECTORY}/00000000000000000000.log")
    headers = [header for _, header in iter_headers(content)]
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 4), (2, 5)]
    assert log.log_end_offset == 3
    assert log.epochs.entries() == [(4, 0), (5, 2)]


def test_the_batch_is_stamped_in_place_and_its_checksum_still_holds(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, b"first")
    batch, header = produced([b"second"])
    log.append(batch, header, leader_epoch=9, now_ms=NOW)
    stamped = read_header(batch)
    assert (stamped.base_offset, stamped.leader_epoch) == (1, 9)
    assert check_crc(batch, 0, stamped)


def test_the_brokers_time_replaces_the_producers_on_topics_that_ask_for_it(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    batch, header = produced([b"a", b"b"], timestamp=5, producer_id=7)
    assert log.append(batch, header, leader_epoch=0, now_ms=NOW).append_time_ms == NOW
    assert [record.timestamp for record in read_records(log)] == [NOW, NOW]
    batch, header = produced([b"a", b"b"], timestamp=5, producer_id=7)
    assert log.append(batch, header, leader_epoch=0, now_ms=NOW + 99) == AppendResult(0, 1, NOW, True)


def test_a_batch_larger_than_a_segment_is_refused(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(segment_bytes=100))
    assert code_of(lambda: append(log, b"v" * 100)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_repeated_batch_is_not_written_again(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, b"a", b"b", producer_id=7)
    assert append(log, b"a", b"b", producer_id=7) == AppendResult(0, 1, NOW, True)
    assert values_of(log) == [b"a", b"b"]
    assert code_of(lambda: append(log, b"z", producer_id=7, sequence=9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_no_producer_id_means_no_sequence_whatever_the_other_fields_say(disk: MemoryDisk) -> None:
    """kafkajs sends epoch 0 and sequence 0 without a producer id."""
    log = open_log(disk)
    for _ in range(2):
        batch, header = produced([b"a"])
        header = header._replace(producer_epoch=0, base_sequence=0)
        assert not log.append(batch, header, leader_epoch=0, now_ms=NOW).duplicate
    assert log.log_end_offset == 2


def test_a_write_that_does_not_fit_leaves_the_log_as_it_was() -> None:
    disk = FaultyDisk(Random(1))
    log = open_log(disk)
    append(log, b"kept", producer_id=7)
    disk.space_left = 20
    with pytest.raises(DiskFullError):
        append(log, b"too much", producer_id=7, sequence=1)
    assert values_of(log) == [b"kept"]
    disk.space_left = None
    assert append(log, b"now it fits", producer_id=7, sequence=1).base_offset == 1
    assert values_of(log) == [b"kept", b"now it fits"]


def test_a_failed_write_that_cannot_be_undone_is_the_directorys_end() -> None:
    disk = FaultyDisk(Random(1))
    log = open_log(disk)
    append(log, b"kept")
    disk.fail_on = lambda operation, _: operation in ("write", "truncate")
    with pytest.raises(StorageError, match="could not be undone") as caught:
        append(log, b"lost")
    assert not isinstance(caught.value, DiskFullError)


def test_no_room_for_a_roll_refuses_the_batch_and_no_more() -> None:
    disk = FaultyDisk(Random(1))
    log = open_log(disk, LogConfig(segment_bytes=150, index_interval_bytes=0))
    append(log, b"first", producer_id=7)
    disk.space_left = 0
    with pytest.raises(DiskFullError):
        append(log, b"second" * 5, producer_id=7, sequence=1)
    assert values_of(log) == [b"first"]
    disk.space_left = None
    append(log, b"second" * 5, producer_id=7, sequence=1)
    assert values_of(log) == [b"first", b"second" * 5]
    assert bases(log) == [0, 1]


# -- rolling ----------------------------------------------------------------------------------------------------------


def test_a_segment_rolls_when_the_next_batch_does_not_fit(disk: MemoryDisk) -> None:
    size = len(produced([b"v"])[0])
    log = open_log(disk, LogConfig(segment_bytes=2 * size))
    for _ in range(5):
        append(log, b"v")
    assert bases(log) == [0, 2, 4]
    assert values_of(log) == [b"v"] * 5


def test_a_segment_rolls_by_the_age_of_its_batches(disk: MemoryDisk) -> None:
    """Kafka: the new batch's timestamp against that of the segment's first batch, not the clock."""
    log = open_log(disk, LogConfig(segment_ms=1000))
    append(log, b"a", timestamp=NOW - 5000)
    append(log, b"b", timestamp=NOW - 4000)
    append(log, b"c", timestamp=NOW - 3999)
    append(log, b"d", timestamp=NOW - 9000)
    assert bases(log) == [0, 2]


def test_without_timestamps_the_clock_rolls(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(segment_ms=1000))
    for now_ms in (NOW, NOW + 1000, NOW + 1001):
        batch, header = produced([b"a"], timestamp=-1)
        log.append(batch, header, leader_epoch=0, now_ms=now_ms)
    assert bases(log) == [0, 2]


def test_a_full_index_rolls(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(index_interval_bytes=0, segment_index_bytes=24))
    for number in range(5):
        append(log, b"v", timestamp=NOW + number)
    assert bases(log) == [0, 2, 4], "two entries fill a time index of 24 bytes, less the one of the roll"


def test_offsets_that_an_index_cannot_count_roll(disk: MemoryDisk) -> None:
    log = open_log(disk)
    log.append_replicated(memoryview(replicated(0, [b"a"])), NOW)
    log.append_replicated(memoryview(replicated((1 << 31) - 1, [b"b"])), NOW)
    log.append_replicated(memoryview(replicated(1 << 31, [b"c"])), NOW)
    log.append_replicated(memoryview(replicated(1 << 40, [b"d"])), NOW)
    assert bases(log) == [0, 1 << 31, 1 << 40]
    assert [record.offset for record in read_records(log)] == [0, (1 << 31) - 1, 1 << 31, 1 << 40]


def test_a_roll_stores_indexes_and_producers(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(index_interval_bytes=0))
    for number in range(3):
        append(log, b"v", timestamp=NOW + number % 2, producer_id=7, sequence=number)
    log.roll(NOW)
    log.roll(NOW)
    size = len(produced([b"v"])[0])
    names = disk.listdir(DIRECTORY)
    assert names == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000003.log",
        "00000000000000000003.snapshot",
    ]
    assert disk.read_bytes(f"{DIRECTORY}/{names[0]}") == struct.pack(">iiii", 1, size, 2, 2 * size)
    assert disk.read_bytes(f"{DIRECTORY}/{names[2]}") == struct.pack(">qi", NOW + 1, 1)


def test_the_configuration_can_change_at_run_time(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, b"a")
    log.config = LogConfig(segment_bytes=100)
    append(log, b"b")
    assert bases(log) == [0, 1]


# -- replication ------------------------------------------------------------------------------------------------------


def test_replicated_batches_keep_their_offsets_and_epochs(disk: MemoryDisk) -> None:
    log = open_log(disk)
    data = replicated(0, [b"a", b"b"], leader_epoch=1) + replicated(5, [b"c"], leader_epoch=3)
    assert log.append_replicated(memoryview(data), NOW) == 6
    assert disk.read_bytes(f"{DIRECTORY}/00000000000000000000.log") == data
    assert log.epochs.entries() == [(1, 0), (3, 5)]
    assert [(record.offset, record.value) for record in read_records(log)] == [(0, b"a"), (1, b"b"), (5, b"c")]


def test_a_partial_batch_at_the_end_of_a_fetch_is_left_out(disk: MemoryDisk) -> None:
    log = open_log(disk)
    data = replicated(0, [b"a"]) + replicated(1, [b"b"])
    assert log.append_replicated(memoryview(data[:-1]), NOW) == 1
    assert log.append_replicated(memoryview(b""), NOW) == 1


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (replicated(2, [b"ok"]) + replicated(1, [b"back"]), ErrorCode.OFFSET_OUT_OF_RANGE),
        (replicated(0, [b"known"]), ErrorCode.OFFSET_OUT_OF_RANGE),
        (replicated(2, [b"ok"]) + replicated(3, [b"flip"])[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (replicated(2, [b"ok"]) + bytes(100), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_one_wrong_batch_refuses_them_all(disk: MemoryDisk, data: bytes, code: ErrorCode) -> None:
    log = open_log(disk)
    append(log, b"a", b"b")
    assert code_of(lambda: log.append_replicated(memoryview(data), NOW)) is code
    assert values_of(log) == [b"a", b"b"]


def test_a_big_fetch_is_spread_over_segments(disk: MemoryDisk) -> None:
    size = len(replicated(0, [b"v"]))
    log = open_log(disk, LogConfig(segment_bytes=3 * size, segment_ms=1000))
    data = b"".join(replicated(number, [b"v"], timestamp=NOW + 400 * number) for number in range(8))
    log.append_replicated(memoryview(data), NOW)
    assert bases(log) == [0, 3, 6]
    assert [record.offset for record in read_records(log)] == list(range(8))


def test_a_followers_producers_are_those_of_its_leader(disk: MemoryDisk) -> None:
    log = open_log(disk)
    data = encode_batch(
        [(NOW, None, b"v", ())], base_offset=3, producer_id=7, producer_epoch=2, base_sequence=40, leader_epoch=0
    )
    log.append_replicated(memoryview(data), NOW)
    assert append(log, b"v", producer_id=7, producer_epoch=2, sequence=40) == AppendResult(3, 3, NOW, True)


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(disk: MemoryDisk) -> PartitionLog:
    """Batches of two records: offsets 0-1, 2-3 | 4-5, 6-7 | 8-9."""
    size = len(produced([b"v0", b"v1"])[0])
    log = open_log(disk, LogConfig(segment_bytes=2 * size, index_interval_bytes=0))
    for number in range(0, 10, 2):
        append(log, b"v%d" % number, b"v%d" % (number + 1))
    return log


SIZE = len(produced([b"v0", b"v1"])[0])


def read(
    log: PartitionLog, offset: int, max_bytes: int, end_offset: int = 10, *, one: bool = True
) -> tuple[int, int] | None:
    found = log.read(offset, max_bytes, end_offset=end_offset, min_one_batch=one, whole_batches=True)
    return found and (read_header(found.file.read_at(found.size, found.position)).base_offset, found.size)


def test_a_read_starts_with_the_batch_that_holds_the_offset(filled: PartitionLog) -> None:
    assert [read(filled, offset, SIZE) for offset in range(10)] == [(each // 2 * 2, SIZE) for each in range(10)]


def test_a_read_ends_with_its_segment(filled: PartitionLog) -> None:
    assert read(filled, 0, 1 << 20) == (0, 2 * SIZE)
    assert read(filled, 2, 1 << 20) == (2, SIZE)
    assert read(filled, 8, 1 << 20) == (8, SIZE)


def test_a_read_of_a_closed_segment_may_end_inside_a_batch(filled: PartitionLog) -> None:
    assert read(filled, 0, SIZE + 10) == (0, SIZE + 10)


def test_a_read_of_what_was_appended_lately_ends_with_a_batch(disk: MemoryDisk) -> None:
    log = open_log(disk)
    for _ in range(5):
        append(log, b"v0", b"v1")
    assert read(log, 2, 1) == (2, SIZE)
    assert read(log, 2, SIZE) == (2, SIZE)
    assert read(log, 2, 2 * SIZE - 1) == (2, SIZE)
    assert read(log, 2, 2 * SIZE) == (2, 2 * SIZE)
    assert read(log, 2, 3 * SIZE + 1) == (2, 3 * SIZE)
    assert read(log, 2, 1 << 20) == (2, 4 * SIZE)
    assert read(log, 2, 1 << 20, end_offset=6) == (2, 2 * SIZE)
    cut = log.read(2, SIZE + 1, end_offset=10, min_one_batch=True)
    assert cut is not None
    assert cut.size == SIZE + 1, "as Kafka answers consumers"


def test_a_read_is_never_larger_than_asked_for(disk: MemoryDisk) -> None:
    """Also where it is long ago, or where the file was taken over from a start before."""
    log = open_log(disk)
    for _ in range(2500):
        append(log, b"v0", b"v1")
    for lately in (log, open_log(disk, clean=True)):
        for offset in (0, 1000, 4000, 4900):
            assert read(lately, offset, 10 * SIZE + 1, end_offset=5000) in (
                (offset, 10 * SIZE),
                (offset, 10 * SIZE + 1),
            )


def test_at_least_one_batch_only_if_asked_for(filled: PartitionLog) -> None:
    assert read(filled, 0, 1, one=True) == (0, SIZE)
    assert read(filled, 0, 1, one=False) is None


def test_nothing_at_or_beyond_the_end_is_given(filled: PartitionLog) -> None:
    assert read(filled, 0, 1 << 20, end_offset=2) == (0, SIZE)
    assert read(filled, 0, 1 << 20, end_offset=3) == (0, SIZE), "the batch 2-3 reaches it"
    assert read(filled, 0, 1 << 20, end_offset=4) == (0, 2 * SIZE)
    assert read(filled, 4, 1 << 20, end_offset=6) == (4, SIZE)
    assert read(filled, 2, 1 << 20, end_offset=2) is None
    assert read(filled, 8, 1 << 20, end_offset=9) is None
    assert read(filled, 9, 1 << 20, end_offset=5) is None


def test_bounds(filled: PartitionLog) -> None:
    assert read(filled, 10, 100) is None
    assert code_of(lambda: read(filled, 11, 100)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(lambda: read(filled, -1, 100)) is ErrorCode.OFFSET_OUT_OF_RANGE
    filled.advance_log_start(3)
    assert code_of(lambda: read(filled, 2, 100)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(filled, 3, SIZE) == (2, SIZE)


def test_a_gap_is_read_over(disk: MemoryDisk) -> None:
    log = open_log(disk)
    log.append_replicated(memoryview(replicated(0, [b"a"])), NOW)
    log.roll(NOW)
    log.append_replicated(memoryview(replicated(7, [b"b"])), NOW)
    for offset in (1, 5, 7):
        assert read(log, offset, 1000) == (7, len(replicated(7, [b"b"])))
    assert log.segments[1].base_offset == 1, "a segment starts where the log ended, before the gap"


def test_reads_find_old_batches_of_a_long_active_segment(disk: MemoryDisk) -> None:
    log = open_log(disk)
    for number in range(5000):
        append(log, b"%d" % number)
    for offset in (0, 1, 1500, 2951, 2952, 2953, 4999):
        assert read_records(log, offset, offset + 1)[0].value == b"%d" % offset


def test_framing_damage_is_a_clear_error(disk: MemoryDisk, filled: PartitionLog) -> None:
    file = disk.open(f"{DIRECTORY}/00000000000000000000.log")
    file.content[8:12] = struct.pack(">i", -1)
    assert code_of(lambda: read(filled, 0, 1000)) is ErrorCode.CORRUPT_MESSAGE
    assert read(filled, 4, SIZE) == (4, SIZE)


# -- truncation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "end", "segments"),
    [(9, 8, [0, 4, 8]), (8, 8, [0, 4, 8]), (7, 6, [0, 4]), (4, 4, [0, 4]), (1, 0, [0]), (0, 0, [0])],
)
def test_truncation_cuts_whole_batches(filled: PartitionLog, offset: int, end: int, segments: list[int]) -> None:
    filled.truncate_to(offset)
    assert filled.log_end_offset == end
    assert bases(filled) == segments
    assert values_of(filled) == [b"v%d" % number for number in range(end)]
    assert append(filled, b"n0", b"n1").base_offset == end
    assert values_of(filled)[-2:] == [b"n0", b"n1"]


def test_truncation_beyond_the_end_only_forgets_an_epoch_without_batches(filled: PartitionLog) -> None:
    filled.assign_epoch(5)
    filled.truncate_to(12)
    assert filled.epochs.entries() == [(0, 0)]
    assert filled.log_end_offset == 10


def test_epochs_and_producers_follow_a_truncation(disk: MemoryDisk) -> None:
    log = open_log(disk, LogConfig(segment_bytes=250))
    for number in range(8):
        append(log, b"v", producer_id=7, sequence=number, leader_epoch=number // 2)
    log.truncate_to(5)
    assert log.epochs.entries() == [(0, 0), (1, 2), (2, 4)]
    assert append(log, b"v", producer_id=7, sequence=4, leader_epoch=9).duplicate
    assert not append(log, b"v", producer_id=7, sequence=5, leader_epoch=9).duplicate
    assert all(int(name[:20]) <= 6 for name in disk.listdir(DIRECTORY) if name.endswith(".snapshot"))


def test_truncation_to_before_the_first_segment_starts_anew(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, b"a", producer_id=7)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, values_of(log)) == (100, 100, [])
    assert log.producers.entries == {}
    append(log, b"b")
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert append(log, b"c").base_offset == 50


def test_the_start_never_passes_the_end(filled: PartitionLog) -> None:
    filled.advance_log_start(9)
    filled.advance_log_start(3)
    assert filled.log_start_offset == 9
    assert filled.epochs.entries() == [(0, 9)]
    filled.truncate_to(4)
    assert filled.log_start_offset == filled.log_end_offset == 4


# -- durability -------------------------------------------------------------------------------------------------------


def test_what_is_appended_is_durable_after_a_flush() -> None:
    log = open_log(FaultyDisk(Random(1)))
    heard: list[int] = []
    log.on_durable = heard.append
    append(log, b"a", b"b")
    assert log.durable_offset == 0
    log.flush()
    assert (log.durable_offset, heard) == (2, [2])
    log.flush()
    assert heard == [2], "only an advance is worth a call"


def test_a_log_calls_once_for_each_flush(disk: MemoryDisk) -> None:
    log = open_log(disk)
    calls: list[PartitionLog] = []
    log.on_dirty = calls.append
    append(log, b"a")
    append(log, b"b")
    assert calls == [log]
    job = log.begin_flush()
    append(log, b"c")
    assert calls == [log, log]
    job.run()
    log.finish_flush(job)
    assert log.durable_offset == 2, "what came after the flush began is not part of it"


def test_a_roll_between_append_and_flush_syncs_both_files() -> None:
    for seed in range(30):
        disk = FaultyDisk(Random(seed))
        disk.makedirs("/data")
        disk.sync_directory("/")
        log = open_log(disk)
        append(log, b"old")
        log.roll(NOW)
        append(log, b"new")
        log.flush()
        assert log.durable_offset == 2
        disk.crash()
        assert values_of(open_log(disk)) == [b"old", b"new"]


def test_a_flush_that_began_before_a_truncation_proves_nothing() -> None:
    disk = FaultyDisk(Random(1))
    log = open_log(disk)
    append(log, b"a")
    log.flush()
    append(log, b"b", b"c")
    job = log.begin_flush()
    job.run()
    log.truncate_to(1)
    append(log, b"x", b"y")
    log.finish_flush(job)
    assert log.durable_offset == 1
    log.flush()
    assert log.durable_offset == 3


def test_epochs_of_an_older_flush_do_not_replace_newer_ones(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, b"a", leader_epoch=1)
    older = log.begin_flush()
    append(log, b"b", leader_epoch=2)
    newer = log.begin_flush()
    newer.run()
    older.run()
    assert disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n1 0\n2 1\n"


@pytest.mark.parametrize("policy", [FlushPolicy.OS, FlushPolicy.MEMORY])
def test_other_policies_count_a_write_as_safe_at_once(policy: FlushPolicy) -> None:
    disk = FaultyDisk(Random(1))
    log = PartitionLog.open(
        disk, DIRECTORY, PARTITION, LogConfig(), clean=False, recovery_point=0, now_ms=NOW, policy=policy
    )
    disk.fail_on = lambda operation, _: operation == "sync"
    calls: list[PartitionLog] = []
    log.on_dirty = calls.append
    append(log, b"a")
    log.append_replicated(memoryview(replicated(1, [b"b"])), NOW)
    assert (log.durable_offset, log.recovery_point, calls) == (2, 0, [])
    log.roll(NOW)
    assert calls == [log], "a full segment is synced, in the background"


def test_a_failed_sync_is_reported() -> None:
    disk = FaultyDisk(Random(1))
    log = open_log(disk)
    append(log, b"a")
    disk.fail_on = lambda operation, _: operation == "sync"
    with pytest.raises(StorageError):
        log.flush()
    assert log.durable_offset == 0


def test_an_old_epoch_is_our_own_bug(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, b"a", leader_epoch=3)
    with pytest.raises(AssertionError):
        append(log, b"b", leader_epoch=2)


def test_idle_producers_expire(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, b"a", producer_id=7)
    log.producers.expire(NOW + 24 * 3_600_000, log.config.producer_id_expiration_ms)
    assert not append(log, b"b", producer_id=7, sequence=55).duplicate


def test_records_come_back_as_they_were(disk: MemoryDisk) -> None:
    log = open_log(disk)
    records = [(NOW, b"key", None, [("h", b"1"), ("n", None)]), (NOW + 5, None, b"", ())]
    data = encode_batch(records)
    log.append(memoryview(data), read_header(data), leader_epoch=0, now_ms=NOW)
    assert read_records(log) == [
        Record(0, NOW, b"key", None, (("h", b"1"), ("n", None))),
        Record(1, NOW + 5, None, b"", ()),
    ]
