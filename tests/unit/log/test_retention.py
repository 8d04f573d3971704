"""Which segments go, by age and size: one sentence of Kafka's rules, one test; and all of it against a plain model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.errors import ApiError, ErrorCode
from bifrost.log.config import LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.log.retention import Sweep
from tests.unit.log.batches import DIRECTORY, NOW, append, open_log, values_of
from tests.unit.log.cleaning import clean, put

HOUR = 3_600_000
FOREVER = LogConfig(segment_bytes=150, retention_ms=-1)


def log_of(*ages_ms: int, config: LogConfig = FOREVER) -> PartitionLog:
    """A log with one record in each segment, as old as that."""
    log = open_log(MemoryDisk(), config)
    for number, age_ms in enumerate(ages_ms):
        append(log, b"%03d" % number, timestamp=NOW - age_ms)
        log.roll(NOW)
    return log


def sweep(log: PartitionLog, *, high_watermark: int | None = None, limit: int = 100) -> int:
    """Where the log begins after a whole look at it."""
    look = Sweep(log, NOW)
    while True:
        start = look.step(log.log_end_offset if high_watermark is None else high_watermark, limit)
        if start is None:
            return log.log_start_offset
        log.advance_log_start(start)


def keep(log: PartitionLog, **wanted: int | bool) -> PartitionLog:
    log.config = replace(log.config, **wanted)  # type: ignore[arg-type]
    return log


def test_what_is_older_than_retention_ms_goes() -> None:
    assert sweep(keep(log_of(3 * HOUR, 2 * HOUR, HOUR, 0), retention_ms=HOUR)) == 2


def test_exactly_as_old_as_retention_ms_stays() -> None:
    assert sweep(keep(log_of(HOUR), retention_ms=HOUR)) == 0
    assert sweep(keep(log_of(HOUR), retention_ms=HOUR - 1)) == 1


def test_nothing_goes_by_age_behind_a_segment_that_stays() -> None:
    assert sweep(keep(log_of(0, 9 * HOUR, 9 * HOUR), retention_ms=HOUR)) == 0


def test_a_record_from_the_future_keeps_its_segment_and_all_behind_it() -> None:
    assert sweep(keep(log_of(-HOUR, 9 * HOUR), retention_ms=HOUR)) == 0


def test_a_log_keeps_at_least_retention_bytes() -> None:
    log = log_of(*[0] * 5)
    size = log.segments[0].size
    assert sweep(keep(log, retention_bytes=2 * size + 1)) == 2, "with one segment less it would be too small"
    assert sweep(keep(log, retention_bytes=2 * size)) == 3
    assert sweep(keep(log, retention_bytes=0)) == 5


def test_without_limits_nothing_goes() -> None:
    assert sweep(log_of(99 * HOUR, 98 * HOUR)) == 0


def test_what_is_not_committed_stays() -> None:
    log = keep(log_of(*[9 * HOUR] * 4), retention_ms=HOUR)
    assert sweep(log, high_watermark=2) == 2
    assert sweep(log, high_watermark=4) == 4


def test_a_topic_that_is_only_compacted_loses_nothing() -> None:
    assert sweep(keep(log_of(9 * HOUR, 9 * HOUR), retention_ms=HOUR, retention_bytes=0, deletes=False)) == 0


def test_an_active_segment_that_has_had_its_time_makes_room_for_an_empty_one() -> None:
    log = open_log(MemoryDisk(), LogConfig(retention_ms=HOUR))
    append(log, b"old", timestamp=NOW - 2 * HOUR)
    assert sweep(log) == 1
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    log.take_out_segments(1, 10)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (1, 1, 0)
    assert sweep(log) == 1, "an empty log stays as it is"


def test_an_active_segment_that_was_written_to_meanwhile_is_left_for_the_next_look() -> None:
    log = keep(log_of(9 * HOUR), retention_ms=HOUR)
    append(log, b"old too", timestamp=NOW - 9 * HOUR)
    look = Sweep(log, NOW)
    assert look.step(log.log_end_offset, 1) == 1
    log.roll(NOW)
    append(log, b"new")
    assert look.step(log.log_end_offset, 1) is None


def test_a_log_that_was_cut_meanwhile_is_left_for_the_next_look() -> None:
    log = keep(log_of(*[9 * HOUR] * 4), retention_ms=HOUR)
    look = Sweep(log, NOW)
    log.truncate_to(1, NOW)
    assert look.step(log.log_end_offset, 9) is None


def test_batches_without_timestamps_are_as_old_as_their_file() -> None:
    class OldFiles(MemoryDisk):
        def modified_ms(self, path: str) -> int:
            return NOW - 2 * HOUR if path.endswith("0.log") else NOW

    log = open_log(OldFiles(), LogConfig(retention_ms=HOUR))
    for _ in range(2):
        append(log, b"timeless", timestamp=-1)
        log.roll(NOW)
    assert sweep(log) == 1


def test_segments_that_were_taken_out_are_renamed_with_their_companions() -> None:
    log = log_of(0, 0, 0)
    disk = log._files.disk
    log.advance_log_start(2)
    renamed = log.take_out_segments(2, 10)
    assert sorted(renamed) == sorted(
        f"{DIRECTORY}/{base:020d}{suffix}.deleted"
        for base, suffixes in (
            (0, (".index", ".log", ".timeindex")),
            (1, (".index", ".log", ".snapshot", ".timeindex")),
        )
        for suffix in suffixes
    )
    assert all(disk.exists(path) for path in renamed)
    assert values_of(log) == [b"002"]


def test_a_segment_that_holds_the_start_stays() -> None:
    log = open_log(MemoryDisk(), FOREVER)
    append(log, b"a", b"b", b"c")
    log.roll(NOW)
    append(log, b"d")
    log.advance_log_start(2)
    assert log.take_out_segments(9, 10) == []
    assert values_of(log) == [b"c", b"d"]


def test_a_cleaning_in_the_midst_of_a_look_lets_it_begin_anew() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(compacted=True, deletes=True, retention_ms=HOUR))
    for number in range(6):
        put(log, (b"%d" % (number % 4), b"x"), timestamp=NOW - 9 * HOUR)
        log.roll(NOW)
    look = Sweep(log, NOW)
    assert look.step(log.log_end_offset, 2) == 2
    clean(log, disk)
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert look.step(log.log_end_offset, 2) == 6
    assert look.step(log.log_end_offset, 2) is None


def test_only_so_many_are_taken_out_at_once() -> None:
    log = log_of(*[0] * 5)
    log.advance_log_start(5)
    counts = []
    while log.take_out_segments(4, 3):
        counts.append(log.first_offset)
    assert counts == [3, 4]


def test_a_reader_in_a_segment_that_goes_can_finish_and_the_next_one_is_told() -> None:
    log = log_of(0, 0)
    piece = log.read(0, 1000, end_offset=2, min_one_batch=True)
    assert piece is not None
    before = bytes(piece.file.read_at(piece.size, piece.position))
    log.advance_log_start(1)
    for path in log.take_out_segments(1, 10):
        log._files.disk.remove(path)
    assert bytes(piece.file.read_at(piece.size, piece.position)) == before
    with pytest.raises(ApiError) as refused:
        log.read(0, 1000, end_offset=2, min_one_batch=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_producers_are_remembered_when_all_that_they_wrote_is_gone() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(retention_ms=HOUR))
    append(log, b"old", timestamp=NOW - 2 * HOUR, producer_id=7, sequence=0)
    sweep(log)
    for path in log.take_out_segments(1, 10):
        disk.remove(path)
    log.flush()
    assert append(log, b"old", producer_id=7, sequence=0).duplicate
    again = open_log(disk, recovery_point=1)
    assert (again.log_start_offset, again.log_end_offset) == (1, 1)
    assert append(again, b"old", producer_id=7, sequence=0).duplicate


@pytest.mark.parametrize("jitter_ms", [0, HOUR // 2, HOUR])
def test_jitter_lets_segments_roll_earlier_but_never_later(jitter_ms: int) -> None:
    ages = set()
    for base in range(20):
        log = open_log(MemoryDisk(), LogConfig(segment_ms=HOUR, segment_jitter_ms=jitter_ms))
        log.truncate_fully_and_start_at(base)
        append(log, b"first", timestamp=NOW - 2 * HOUR)
        active, config = log.segments[-1], log.config
        age = next(
            age
            for age in range(0, 2 * HOUR, HOUR // 60)
            if active.must_roll(1, base + 1, NOW - 2 * HOUR + age, NOW, config)  # type: ignore[attr-defined]
        )
        ages.add(age)
    assert HOUR - jitter_ms < min(ages) <= max(ages) <= HOUR + HOUR // 60
    assert (len(ages) > 5) == (jitter_ms > 0)


@given(
    ages=st.lists(st.sampled_from((0, HOUR, 2 * HOUR, 3 * HOUR)), min_size=1, max_size=8),
    limits=st.tuples(st.sampled_from((-1, 0, HOUR, 2 * HOUR)), st.integers(-1, 6), st.integers(1, 4)),
    high_watermark=st.integers(0, 8),
    start=st.integers(0, 8),
)
def test_as_a_plain_model_has_it(
    ages: list[int], limits: tuple[int, int, int], high_watermark: int, start: int
) -> None:
    retention_ms, segments_kept, limit = limits
    log = log_of(*ages)
    size = log.segments[0].size
    retention_bytes = segments_kept * size if segments_kept >= 0 else -1
    high_watermark = min(high_watermark, len(ages))
    log.advance_log_start(min(start, high_watermark))
    expected = 0
    for number, age in enumerate(ages):
        too_old = retention_ms >= 0 and age > retention_ms
        too_many = segments_kept >= 0 and len(ages) - number > segments_kept
        if number >= high_watermark or not (too_old or too_many or number < log.log_start_offset):
            break
        expected = number + 1
    expected = max(expected, log.log_start_offset)
    keep(log, retention_ms=retention_ms, retention_bytes=retention_bytes)
    assert sweep(log, high_watermark=high_watermark, limit=limit) == expected
    assert values_of(log) == [b"%03d" % number for number in range(expected, len(ages))]
