"""One segment: a file of batches and its two indexes. Hot path 6/9.

This file decides where in a file a batch is, and it writes. `Segment` is closed: it only answers, through files
that are open while somebody needs them. `ActiveSegment` is the last of a log: it grows, its indexes live in memory, and
it remembers where its latest batches are, so that whoever reads at the end of a log touches no index and no disk.

It must never look at a record, and never believe an index: what one says is checked against the batch it points to.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from bifrost.errors import StorageError
from bifrost.log.config import LogConfig
from bifrost.log.disk import Buffer, Disk, File
from bifrost.log.index import (
    RELATIVE_OFFSET_MAX,
    CorruptIndexError,
    IndexBuilder,
    OffsetIndex,
    StoredOffsetIndex,
    StoredTimeIndex,
    TimeIndex,
)
from bifrost.log.names import DELETED, LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TXN_INDEX, segment_path
from bifrost.log.open_files import OpenFiles
from bifrost.log.scan import DamagedBatchError, find_batch, scan_batches
from bifrost.protocol.batch import BatchHeader

_log = logging.getLogger(__name__)

_RECENT_MAX: Final = 2048
"""Batches whose place the active segment remembers; half are dropped when there are more."""


class Segment:
    """A segment that takes no more batches."""

    __slots__ = (
        "_files",
        "_interval_bytes",
        "_newest_ms",
        "_offsets",
        "_path",
        "_rebuilt",
        "_times",
        "base_offset",
        "directory",
        "replaced",
        "size",
    )

    def __init__(self, files: OpenFiles, directory: str, base_offset: int, size: int, interval_bytes: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self._files = files
        self._path = segment_path(directory, base_offset, LOG)
        self._interval_bytes = interval_bytes
        self._offsets: StoredOffsetIndex | OffsetIndex | None = None
        self._times: StoredTimeIndex | TimeIndex | None = None
        self._rebuilt = False
        self.replaced = False
        """Another segment has its names now. A thread may still look, but its indexes are not of that one."""
        self._newest_ms: int | None = None

    @property
    def file(self) -> File:
        return self._files.get(self._path)

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the first batch that ends at `offset` or later; None if all end before it."""
        entry_offset, position = self._offset_index().lookup(offset)
        try:
            return find_batch(self.file, position, self.size, offset, entry_offset if position else None)
        except DamagedBatchError as damage:
            if self._rebuilt or position == 0:
                raise
            self._rebuild(str(damage))
        entry_offset, position = self._offset_index().lookup(offset)
        return find_batch(self.file, position, self.size, offset, entry_offset if position else None)

    def position_of(self, offset: int) -> int:
        """Where the batch with `offset` starts, the end of the file if all batches end before it."""
        place = self.locate(offset)
        return self.size if place is None else place[0]

    def cut(self, position: int, max_bytes: int, end: int, *, whole: bool) -> int:  # noqa: ARG002  # see below
        """How much of what lies between `position` and `end` is sent. Readers drop a batch that is not whole."""
        return min(max_bytes, end - position)

    def scan(self, position: int = 0, *, crc: bool = False) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch from `position` on; `DamagedBatchError` where they end too early."""
        base_offset = self.base_offset
        offset_end = base_offset + RELATIVE_OFFSET_MAX + 1
        return scan_batches(self.file, position, self.size, next_offset=base_offset, offset_end=offset_end, crc=crc)

    def lookup_timestamp(self, timestamp_ms: int) -> tuple[int, int]:
        """The last time index entry at or below the timestamp: (its timestamp, the last offset of its batch)."""
        return self._time_index().lookup(timestamp_ms)

    def greatest_timestamp(self) -> tuple[int, int]:
        """The greatest timestamp and the last offset of the first batch that has it; -1 without any."""
        return self._time_index().last()

    def newest_ms(self) -> int:
        """The greatest timestamp, or when the file was last written to if its batches have none; -1 if nobody knows."""
        if self._newest_ms is None:
            greatest = self.greatest_timestamp()[0]
            self._newest_ms = greatest if greatest >= 0 else self._files.disk.modified_ms(self._path)
        return self._newest_ms

    def distrust_indexes(self, reason: str) -> bool:
        """Builds the indexes anew if that was not done before; whether it was worth another try."""
        if self._rebuilt:
            return False
        self._rebuild(reason)
        return True

    def remove(self, disk: Disk) -> None:
        """Deletes the files; the log goes last, so that what is left after a crash is a segment or nothing."""
        self.forget_files()
        for suffix in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX, LOG):
            path = segment_path(self.directory, self.base_offset, suffix)
            if disk.exists(path):
                disk.remove(path)

    def rename_deleted(self, disk: Disk) -> list[str]:
        """From here on no start finds the segment; the new names, for somebody to remove. The log goes last."""
        self.forget_files()
        renamed = []
        for suffix in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT, LOG):
            path = segment_path(self.directory, self.base_offset, suffix)
            if disk.exists(path):
                disk.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        return renamed

    def forget_files(self) -> None:
        """No name of this segment is to be used again; whoever reads one of its files can finish."""
        for suffix in (OFFSET_INDEX, TIME_INDEX, LOG):
            self._files.forget(segment_path(self.directory, self.base_offset, suffix))

    def rehome(self, files: OpenFiles, directory: str) -> None:
        """Its directory has another name from now on."""
        self.forget_files()
        self._files, self.directory = files, directory
        self._path = segment_path(directory, self.base_offset, LOG)
        self._offsets = self._times = None

    def _offset_index(self) -> StoredOffsetIndex | OffsetIndex:
        if self._offsets is None:
            self._load_indexes()
        assert self._offsets is not None
        return self._offsets

    def _time_index(self) -> StoredTimeIndex | TimeIndex:
        if self._times is None:
            self._load_indexes()
        assert self._times is not None
        return self._times

    def _load_indexes(self) -> None:
        offsets_path = segment_path(self.directory, self.base_offset, OFFSET_INDEX)
        times_path = segment_path(self.directory, self.base_offset, TIME_INDEX)
        if not (self._files.disk.exists(offsets_path) and self._files.disk.exists(times_path)):
            self._rebuild("an index file is missing")
            return
        try:
            self._offsets = StoredOffsetIndex(self._files, offsets_path, self.base_offset, log_bytes=self.size)
            self._times = StoredTimeIndex(self._files, times_path, self.base_offset)
        except CorruptIndexError as error:
            self._rebuild(str(error))

    def _rebuild(self, reason: str) -> None:
        """Walks the headers and replaces both indexes, in memory and on disk. The log itself is left as it is."""
        _log.warning("indexes rebuilt segment=%s/%020d reason=%r", self.directory, self.base_offset, reason)
        self._rebuilt = True
        builder = IndexBuilder(self.base_offset, self._interval_bytes)
        try:
            for position, header in self.scan():
                builder.add(position, header.last_offset, header.max_timestamp)
        except DamagedBatchError as damage:
            _log.warning("segment is damaged %s", damage)
        builder.finish()
        self._offsets, self._times = builder.offsets, builder.times
        if not self.replaced:
            write_indexes(self._files, self.directory, builder)


class ActiveSegment(Segment):
    """The segment at the end of a log."""

    __slots__ = (
        "_builder",
        "_file",
        "_recent_ends",
        "_recent_positions",
        "created_ms",
        "first_timestamp",
        "index_full",
        "jitter_share",
    )

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        file: File,
        size: int,
        builder: IndexBuilder,
        *,
        next_offset: int,
        first_timestamp: int,
        now_ms: int,
    ) -> None:
        super().__init__(files, directory, builder.offsets.base_offset, size, builder.interval_bytes)
        self._file = file
        self._builder = builder
        self.first_timestamp = first_timestamp
        self.created_ms = now_ms
        self.index_full = False
        self.jitter_share = _jitter_share(directory, self.base_offset)
        # Last offsets of recent batches and where they start. Slot 0 is a sentinel: the last offset before them.
        self._recent_ends = [next_offset - 1]
        self._recent_positions = [size]

    @classmethod
    def create(
        cls, files: OpenFiles, directory: str, base_offset: int, interval_bytes: int, now_ms: int
    ) -> ActiveSegment:
        """An empty segment; its name is safe on disk only once the directory was synced."""
        file = files.disk.open(segment_path(directory, base_offset, LOG), create=True)
        if file.size():
            file.truncate(0)
        builder = IndexBuilder(base_offset, interval_bytes)
        return cls(files, directory, file, 0, builder, next_offset=base_offset, first_timestamp=-1, now_ms=now_ms)

    @property
    def file(self) -> File:
        return self._file

    def rehome(self, files: OpenFiles, directory: str) -> None:
        super().rehome(files, directory)
        self._file.path = self._path
        self.jitter_share = _jitter_share(directory, self.base_offset)

    def must_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int, config: LogConfig) -> bool:
        """Whether a batch belongs into the next segment. Kafka: LogSegment.shouldRoll, .timeWaitedForRoll."""
        if self.size == 0:
            return last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        age_ms = max_timestamp - self.first_timestamp if self.first_timestamp >= 0 else now_ms - self.created_ms
        return (
            self.size + size > config.segment_bytes
            or age_ms > config.segment_ms - self.jitter_share * config.segment_jitter_ms
            or self.index_full
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int, config: LogConfig) -> None:
        """Stores one stamped batch at the end, or leaves the segment as it was and raises `StorageError`."""
        position = self.size
        try:
            self._file.write_at(batch, position)
        except StorageError:
            self._cut_back(position)
            raise
        self.note(position, size, last_offset, max_timestamp, config)

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int, config: LogConfig) -> None:
        """Takes in a batch whose bytes are in the file."""
        if position == 0:
            self.first_timestamp = max_timestamp
        self.size = position + size
        if self._builder.add(position, last_offset, max_timestamp):
            self.index_full = self._builder.is_full(config.segment_index_bytes)
        ends = self._recent_ends
        ends.append(last_offset)
        self._recent_positions.append(position)
        if len(ends) > _RECENT_MAX:
            del ends[: _RECENT_MAX // 2], self._recent_positions[: _RECENT_MAX // 2]

    def write_at_end(self, batches: Buffer) -> int:
        """Puts the bytes of several batches into the file, for `note` to take in one by one; where they start."""
        position = self.size
        try:
            self._file.write_at(batches, position)
        except StorageError:
            self._cut_back(position)
            raise
        return position

    def locate(self, offset: int) -> tuple[int, int] | None:
        ends = self._recent_ends
        slot = bisect_left(ends, offset)
        if slot == 0:
            return super().locate(offset)
        if slot == len(ends):
            return None
        position = self._recent_positions[slot]
        following = self._recent_positions[slot + 1] if slot + 1 < len(ends) else self.size
        return position, following - position

    def cut(self, position: int, max_bytes: int, end: int, *, whole: bool) -> int:
        """Whole batches, if asked for and where it is known where they begin: large ones would be sent twice, else."""
        starts = self._recent_positions
        slot = bisect_right(starts, position + max_bytes) if whole and max_bytes < end - position else 0
        if slot and starts[slot - 1] > position:
            return starts[slot - 1] - position
        return super().cut(position, max_bytes, end, whole=whole)

    def tail_position(self, entries: int) -> int:
        """Where the batch is that the index entry so many before the end tells of; 0 if there are fewer."""
        return self._builder.offsets.position_from_end(entries)

    def greatest_timestamp(self) -> tuple[int, int]:
        return self._builder.max_timestamp, self._builder.max_timestamp_offset

    def newest_ms(self) -> int:
        greatest = self._builder.max_timestamp
        return greatest if greatest >= 0 else self._files.disk.modified_ms(self._path)

    def truncate(self, offset: int) -> int:
        """Cuts the file before the batch that holds `offset`; the offset after what is left. Durable when it returns.

        Were it not, a crash could bring the cut batches back behind others that were appended in their place.
        """
        position = self.position_of(offset)
        self._file.truncate(position)
        self._file.sync()
        self.size = position
        builder = self._builder
        builder.offsets.truncate(offset)
        builder.times.truncate(offset)
        resumed = IndexBuilder(self.base_offset, builder.interval_bytes, builder.offsets, builder.times)
        next_offset = self.base_offset
        for at, header in self.scan(resumed.offsets.last()[1]):
            resumed.add(at, header.last_offset, header.max_timestamp)
            next_offset = header.next_offset
        self._builder = resumed
        if position == 0:
            self.first_timestamp = -1
        self.index_full = False
        self._recent_ends, self._recent_positions = [next_offset - 1], [position]
        return next_offset

    def seal(self) -> list[File]:
        """Stores the indexes, greatest timestamp included; the files to sync before the segment counts as stored."""
        self._builder.finish()
        return [self._file, *write_indexes(self._files, self.directory, self._builder)]

    def closed(self) -> Segment:
        """The same segment, after `seal`, for reading only."""
        self._files.put(self._file)
        return Segment(self._files, self.directory, self.base_offset, self.size, self._interval_bytes)

    def _offset_index(self) -> OffsetIndex:
        return self._builder.offsets

    def _time_index(self) -> TimeIndex:
        return self._builder.times

    def _rebuild(self, reason: str) -> None:
        super()._rebuild(reason)
        assert isinstance(self._offsets, OffsetIndex)
        assert isinstance(self._times, TimeIndex)
        self._builder = IndexBuilder(self.base_offset, self._interval_bytes, self._offsets, self._times)

    def _cut_back(self, position: int) -> None:
        """Undoes a write that may have left a part behind. If not even that works, the directory is not usable."""
        try:
            self._file.truncate(position)
        except StorageError as error:
            raise StorageError(error.path, f"a failed write could not be undone: {error.detail}") from error


def _jitter_share(directory: str, base_offset: int) -> float:
    """How much of `segment.jitter.ms` is taken off its age. By its name and not by chance: replicas roll alike."""
    return crc32(f"{directory.rpartition('/')[2]}/{base_offset}".encode()) / (1 << 32)


def write_indexes(files: OpenFiles, directory: str, builder: IndexBuilder) -> list[File]:
    """Stores both indexes; the files that were written, not yet synced."""
    written: list[File] = []
    base_offset = builder.offsets.base_offset
    for suffix, data in ((OFFSET_INDEX, builder.offsets.encode()), (TIME_INDEX, builder.times.encode())):
        path = segment_path(directory, base_offset, suffix)
        files.forget(path)
        file = files.disk.open(path, create=True)
        if file.size():
            file.truncate(0)
        file.write_at(data, 0)
        written.append(file)
    return written
