"""Which log is cleaned next, and how far. Kafka: LogCleanerManager.grabFilthiestCompactedLog, .cleanableOffsets.

This file decides: the log with the greatest share of bytes that no cleaning has seen, if that share is above
`min.cleanable.dirty.ratio`, or if something in there has waited for longer than `max.compaction.lag.ms`. It takes the
time as an argument, and changes nothing.

Must never: let the active segment be cleaned, nor one that holds anything which is not committed and synced. It might
still be cut, and what made room for it would be gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bifrost.log.cleaning.task import CleaningTask, Source
from bifrost.log.config import INT64_MAX
from bifrost.log.disk import Disk
from bifrost.log.partition_log import PartitionLog
from bifrost.log.scan import DamagedBatchError
from bifrost.log.segment import Segment

_READ_BYTES_MIN: Final = 64 << 10


class Dirt(NamedTuple):
    """What a cleaning of a log would go through."""

    log: PartitionLog
    first_dirty_offset: int
    end_offset: int
    """Where the first segment begins that has to be left alone."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    @property
    def is_worth_it(self) -> bool:
        return self.is_overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio


def assess(log: PartitionLog, stable_offset: int, now_ms: int) -> Dirt | None:
    """None if there is nothing to clean. `stable_offset`: all before it is committed, and in no open transaction."""
    config = log.config
    if not config.compacted:
        return None
    segments = log.segments
    bases = [segment.base_offset for segment in segments]
    first_dirty = log.first_dirty_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset  # the checkpoint is of another time, or of another log
    limit = min(stable_offset, log.recovery_point, bases[-1])
    clean_bytes = dirty_bytes = 0
    end_offset, is_overdue = bases[0], False
    for segment, end in zip(segments, bases[1:]):
        if end > limit:
            break
        if end <= first_dirty:
            clean_bytes += segment.size
        else:
            if config.min_compaction_lag_ms > 0 and segment.newest_ms() > now_ms - config.min_compaction_lag_ms:
                break
            is_overdue = is_overdue or _has_waited(segment, now_ms - config.max_compaction_lag_ms)
            dirty_bytes += segment.size
        end_offset = end
    return Dirt(log, first_dirty, end_offset, clean_bytes, dirty_bytes, is_overdue) if dirty_bytes else None


def _has_waited(segment: Segment, since_ms: int) -> bool:
    """Whether the first batch is older than that."""
    if since_ms <= 0:  # most of all where `max.compaction.lag.ms` is not set: then no file is touched
        return False
    try:
        first = next((header.max_timestamp for _, header in segment.scan()), INT64_MAX)
    except DamagedBatchError:
        return False  # whoever reads it will tell
    return 0 < first < since_ms


def dirtiest(found: Iterable[Dirt]) -> Dirt | None:
    """The one to clean next."""
    return max((dirt for dirt in found if dirt.is_worth_it), key=lambda dirt: dirt.ratio, default=None)


def task_for(dirt: Dirt, disk: Disk, *, now_ms: int, map_entries_max: int, read_bytes: int) -> CleaningTask:
    """What a worker has to know."""
    log, config = dirt.log, dirt.log.config
    segments = [segment for segment in log.segments if segment.base_offset < dirt.end_offset]
    producers = log.producers.entries.items()
    return CleaningTask(
        disk=disk,
        directory=log.directory,
        sources=tuple(Source(segment.base_offset, segment.size) for segment in segments),
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.end_offset,
        last_offsets={number: entry.batches[-1].last_offset for number, entry in producers if entry.batches},
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_entries_max=map_entries_max,
        read_bytes=max(read_bytes, _READ_BYTES_MIN),
    )
