"""Which log is cleaned, and how far: Kafka's rules, with the time passed in."""

from __future__ import annotations

from dataclasses import replace

from bifrost.log.cleaning.choosing import Dirt, dirtiest
from bifrost.log.cleaning.grouping import group_sources
from bifrost.log.cleaning.offset_map import ENTRY_BYTES, OffsetMap, entries_that_fit
from bifrost.log.cleaning.task import Source
from bifrost.log.config import LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from tests.unit.log.batches import NOW, open_log
from tests.unit.log.cleaning import dirt, put

HOUR = 3_600_000


def log_of(*ages_ms: int, **config: float) -> PartitionLog:
    """One record in each segment, so old, and an empty active one."""
    log = open_log(MemoryDisk(), replace(LogConfig(compacted=True), **config))  # type: ignore[arg-type]
    for number, age_ms in enumerate(ages_ms):
        put(log, (b"%03d" % number, b"value"), timestamp=NOW - age_ms)
        log.roll(NOW)
    log.flush()
    return log


def found(log: PartitionLog, *, now_ms: int = NOW, stable_offset: int | None = None) -> Dirt:
    result = dirt(log, now_ms=now_ms, stable_offset=stable_offset)
    assert result is not None
    return result


def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    log = log_of(0, 0)
    log.config = LogConfig()
    assert dirt(log) is None


def test_all_closed_segments_are_cleaned() -> None:
    assert found(log_of(0, 0, 0))[1:] == (0, 3, 0, found(log_of(0, 0, 0)).dirty_bytes, False)


def test_the_active_segment_is_never_cleaned() -> None:
    log = open_log(MemoryDisk(), LogConfig(compacted=True))
    put(log, (b"a", b"1"))
    assert dirt(log) is None


def test_what_is_not_committed_is_not_cleaned() -> None:
    """Nor is a segment of which a part is committed."""
    assert found(log_of(0, 0, 0), stable_offset=2).end_offset == 2
    log = open_log(MemoryDisk(), LogConfig(compacted=True))
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll(NOW)
    assert dirt(log, stable_offset=1) is None


def test_what_is_not_synced_is_not_cleaned() -> None:
    log = log_of(0, 0, 0)
    log.recovery_point = 1
    assert found_without_flush(log).end_offset == 1


def found_without_flush(log: PartitionLog) -> Dirt:
    from bifrost.log.cleaning.choosing import assess

    result = assess(log, log.log_end_offset, NOW)
    assert result is not None
    return result


def test_what_is_younger_than_the_lag_is_not_cleaned_nor_what_follows() -> None:
    assert found(log_of(3 * HOUR, HOUR - 1, 3 * HOUR, min_compaction_lag_ms=HOUR)).end_offset == 1
    assert found(log_of(3 * HOUR, HOUR, 3 * HOUR, min_compaction_lag_ms=HOUR)).end_offset == 3


def test_the_share_of_dirty_bytes_counts() -> None:
    log = log_of(0, 0, 0, 0)
    log.first_dirty_offset = 3
    assert found(log).ratio == 0.25
    assert not found(log).is_worth_it
    log.config = replace(log.config, min_cleanable_dirty_ratio=0.25)
    assert not found(log).is_worth_it, "it has to be more"
    log.config = replace(log.config, min_cleanable_dirty_ratio=0.24)
    assert found(log).is_worth_it


def test_what_has_waited_for_too_long_is_cleaned_in_any_case() -> None:
    log = log_of(0, 0, 0, 2 * HOUR, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=2 * HOUR)
    log.first_dirty_offset = 3
    assert not found(log).is_worth_it
    assert found(log, now_ms=NOW + 1).is_worth_it


def test_a_clean_log_has_nothing_to_clean() -> None:
    log = log_of(0, 0)
    log.first_dirty_offset = 2
    assert dirt(log) is None


def test_a_checkpoint_that_is_out_of_the_log_is_not_believed() -> None:
    """Kafka: LogCleanerManager.cleanableOffsets resets it to the start."""
    log = log_of(0, 0, 0)
    log.first_dirty_offset = 9
    assert found(log).first_dirty_offset == 0
    log.first_dirty_offset = 0
    log.advance_log_start(2)
    assert found(log).first_dirty_offset == 2


def test_the_dirtiest_comes_first() -> None:
    one, other, clean = log_of(0, 0, 0, 0), log_of(0, 0, 0, 0), log_of(0)
    one.first_dirty_offset, other.first_dirty_offset = 2, 1
    clean.config = replace(clean.config, min_cleanable_dirty_ratio=1.0)
    candidates = [found(log) for log in (one, other, clean)]
    assert dirtiest(candidates) == candidates[1]
    assert dirtiest([candidates[2]]) is None
    assert dirtiest([]) is None


def test_segments_are_grouped_by_what_they_take() -> None:
    def bases(*sizes: int, index: int = 0, end_offset: int = 100) -> list[list[int]]:
        sources = [Source(number * 10, size) for number, size in enumerate(sizes)]
        files = {f"{each.base_offset:020d}.index": index for each in sources}
        groups = group_sources(sources, files, end_offset=end_offset, segment_bytes=100, segment_index_bytes=20)
        return [[each.base_offset for each in group] for group in groups]

    assert bases(50, 50, 1, 99, 100) == [[0, 10], [20, 30], [40]]
    assert bases(1, 1, 1, index=10) == [[0, 10], [20]]
    assert bases(1, 1, end_offset=1 << 31) == [[0, 10]]
    assert bases(1, 1, end_offset=(1 << 31) + 1) == [[0], [10]]
    assert bases() == []
    assert [len(group) for group in bases(*[0] * 120)] == [50, 50, 20], "each is swapped in one turn of the loop"


def test_a_map_takes_what_its_memory_holds() -> None:
    assert entries_that_fit(10 * ENTRY_BYTES, 0.5) == 5
    assert entries_that_fit(0, 0.9) == 1
    offsets = OffsetMap(2)
    long_key = b"x" * 400
    for number, key in enumerate((b"", b"a", long_key, long_key)):
        offsets.put(key, number)
    assert [offsets.get(key) for key in (b"", b"a", long_key, b"b", b"x" * 401)] == [0, 1, 3, -1, -1]
