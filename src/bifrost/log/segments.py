"""The segments of a log in a row: closed ones, and the active one at the end.

This file decides which segment holds an offset, and changes the row: it grows by a roll and shrinks by truncation,
retention and cleaning. What
was cut off is durably gone when a truncation returns. Were it not, a crash could bring a segment back that then
follows, without a seam, on batches that took its place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from bifrost.log import producer_snapshots
from bifrost.log.cleaning.swap import swap_in
from bifrost.log.cleaning.task import Cleaned
from bifrost.log.config import LogConfig
from bifrost.log.disk import File
from bifrost.log.loading import open_active
from bifrost.log.names import LOG, segment_path
from bifrost.log.open_files import OpenFiles
from bifrost.log.segment import ActiveSegment, Segment


class Segments:
    """Never empty: there is always an active segment."""

    __slots__ = ("_bases", "_directory", "_files", "active", "closed")

    def __init__(self, files: OpenFiles, directory: str, closed: list[Segment], active: ActiveSegment) -> None:
        self._files = files
        self._directory = directory
        self._bases = [segment.base_offset for segment in closed]
        self.closed = closed
        self.active = active

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.closed) + self.active.size

    @property
    def first(self) -> Segment:
        return self.closed[0] if self.closed else self.active

    def all(self) -> list[Segment]:
        return [*self.closed, self.active]

    def locate(self, offset: int) -> tuple[Segment, tuple[int, int] | None]:
        """The batch for `offset` in its segment, or in a later one where compaction left a gap."""
        if offset < self.active.base_offset:
            for segment in self.closed[max(bisect_right(self._bases, offset) - 1, 0) :]:
                place = segment.locate(offset)
                if place is not None:
                    return segment, place
        return self.active, self.active.locate(offset)

    def readable_end(self, segment: Segment, end_offset: int) -> int:
        """The position in the segment where batches that reach `end_offset` begin."""
        slot = bisect_right(self._bases, segment.base_offset)
        following = self._bases[slot] if slot < len(self._bases) else self.active.base_offset
        if segment is not self.active and end_offset >= following:
            return segment.size
        return segment.position_of(end_offset)

    def roll(self, base_offset: int, config: LogConfig, now_ms: int) -> list[File]:
        """Closes the active segment and starts one at `base_offset`; the files that are now owed to the disk."""
        written = self.active.seal()
        active = ActiveSegment.create(self._files, self._directory, base_offset, config.index_interval_bytes, now_ms)
        if self.active.size:
            closed = self.active.closed()
            self.closed.append(closed)
            self._bases.append(closed.base_offset)
        else:
            self.active.remove(self._files.disk)
            written = []
        self.active = active
        return [*written, active.file]

    def truncate(self, offset: int, config: LogConfig, now_ms: int) -> int:
        """Drops every batch that reaches `offset`; where the log then ends."""
        disk = self._files.disk
        kept = max(bisect_right([*self._bases, self.active.base_offset], offset), 1)
        doomed = self.all()[kept:]
        for segment in reversed(doomed):
            segment.remove(disk)
        producer_snapshots.remove_beyond(disk, self._directory, offset)
        disk.sync_directory(self._directory)
        if doomed:
            last = self.closed[kept - 1]
            self._files.forget(segment_path(self._directory, last.base_offset, LOG))
            self.active = _reopen(self._files, self._directory, last.base_offset, config, now_ms)
            del self.closed[kept - 1 :], self._bases[kept - 1 :]
        return self.active.truncate(offset)

    def drop_before(self, offset: int) -> None:
        """Removes every closed segment that another follows at or before `offset`, oldest first."""
        while self.closed and [*self._bases, self.active.base_offset][1] <= offset:
            self.closed.pop(0).remove(self._files.disk)
            del self._bases[0]

    def take_out(self, before: int, limit: int) -> list[str]:
        """Closed segments that end at or before this offset are of the log no more, the oldest first; their files have
        the names that this returns."""
        disk, renamed = self._files.disk, []
        ends = [*self._bases[1 : limit + 1], self.active.base_offset][:limit]
        count = bisect_right(ends[: len(self.closed)], before)
        for segment in self.closed[:count]:
            renamed += segment.rename_deleted(disk)
        del self.closed[:count], self._bases[:count]
        return renamed

    def replace(self, cleaned: Cleaned, config: LogConfig) -> list[str] | None:
        """Closed segments leave for the one that was cleaned out of them; what their files are called now. None if they
        are not there any more."""
        first = bisect_left(self._bases, cleaned.base_offsets[0])
        end = first + len(cleaned.base_offsets)
        if tuple(self._bases[first:end]) != cleaned.base_offsets:
            return None
        for segment in self.closed[first:end]:
            segment.replaced = True
            segment.forget_files()
        renamed = swap_in(self._files.disk, self._directory, cleaned.base_offsets)
        base_offset = cleaned.base_offsets[0]
        taking_over = Segment(self._files, self._directory, base_offset, cleaned.size, config.index_interval_bytes)
        self.closed[first:end], self._bases[first:end] = [taking_over], [base_offset]
        return renamed

    def rehome(self, files: OpenFiles, directory: str) -> None:
        """The directory has another name from now on."""
        self._files, self._directory = files, directory
        for segment in self.all():
            segment.rehome(files, directory)

    def restart_at(self, offset: int, config: LogConfig, now_ms: int) -> list[File]:
        """Drops everything; the log is empty and goes on at `offset`. The files that are now owed to the disk."""
        disk = self._files.disk
        for segment in reversed(self.all()):
            segment.remove(disk)
        producer_snapshots.remove_beyond(disk, self._directory, -1)
        disk.sync_directory(self._directory)
        self.closed, self._bases = [], []
        self.active = ActiveSegment.create(self._files, self._directory, offset, config.index_interval_bytes, now_ms)
        return [self.active.file]


def _reopen(files: OpenFiles, directory: str, base_offset: int, config: LogConfig, now_ms: int) -> ActiveSegment:
    """A closed segment as the active one."""
    sizes = files.disk.file_sizes(directory)
    return open_active(files, directory, base_offset, sizes, config, now_ms=now_ms)[0]
