"""Which segments a log has had for long enough, by their age and by its size. Kafka: UnifiedLog.deleteOldSegments.

This file decides where a log should begin. It goes from the front and stops at the first segment that stays, so that
what is left is always a log without a hole. A log whose last segment has had its time gets another one first.

Must never: let go of what is not committed, for a follower would have to fetch it from somebody who has it no more.
"""

from __future__ import annotations

from typing import Final

from bifrost.log.partition_log import PartitionLog
from bifrost.log.segment import Segment

UNLIMITED: Final = -1


class Sweep:
    """One look at one log, in steps: a log may have thousands of segments, and others want to be served meanwhile."""

    __slots__ = ("_generation", "_log", "_next", "_now_ms", "_replacements", "_segments", "_size")

    def __init__(self, log: PartitionLog, now_ms: int) -> None:
        self._log = log
        self._now_ms = now_ms
        self._generation = log.owed.generation
        self._begin(log.segments if log.config.deletes else [])

    def _begin(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._size = sum(segment.size for segment in segments)
        self._next = 0
        self._replacements = self._log.replacements

    def step(self, high_watermark: int, limit: int) -> int | None:
        """Where the log should begin, after a look at up to `limit` more segments; None once the next one stays."""
        log = self._log
        if log.owed.generation != self._generation:
            return None  # it was cut meanwhile, and has other segments now
        if log.replacements != self._replacements and self._segments:
            self._begin(log.segments)  # a cleaning has merged some, and their files are gone
        start, first = None, self._next
        while self._next < min(first + limit, len(self._segments)):
            segment = self._segments[self._next]
            end = self._end()
            if end is None or end > high_watermark or not self._goes(segment, end):
                self._segments = []
                break
            self._next += 1
            self._size -= segment.size
            start = end
        if start is not None and start == log.log_end_offset:
            log.roll(self._now_ms)
        return start

    def _end(self) -> int | None:
        """Where the next segment ends; None where that is not to be told any more, or not worth it."""
        if self._next + 1 < len(self._segments):
            return self._segments[self._next + 1].base_offset
        last = self._segments[self._next]
        return self._log.log_end_offset if self._log.is_active(last) and last.size else None

    def _goes(self, segment: Segment, end: int) -> bool:
        config = self._log.config
        if end <= self._log.log_start_offset and not self._log.is_active(segment):
            return True
        if 0 <= config.retention_bytes <= self._size - segment.size:
            return True
        newest_ms = segment.newest_ms() if config.retention_ms != UNLIMITED else UNLIMITED
        return newest_ms >= 0 and self._now_ms - newest_ms > config.retention_ms
