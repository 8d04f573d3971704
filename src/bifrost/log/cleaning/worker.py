"""Cleaning, done: reads segments twice, writes new ones beside them. Runs outside the loop, in a process of its own.

It works on files alone, and only adds some whose names end in `.cleaned`: what it leaves behind half done is no part of
any log. Whoever started it is asked after every piece, so that a cleaning ends soon when its log is cut or deleted, or
the node stops; and how fast it goes is theirs to say.

Must never: write what it has not checked. A damaged batch would be given a checksum that is right, and then nobody
would ever know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bifrost.log.cleaning.filter import BatchFilter, note_keys
from bifrost.log.cleaning.grouping import group_sources
from bifrost.log.cleaning.offset_map import OffsetMap
from bifrost.log.cleaning.task import Cleaned, CleaningTask, OversizedBatchError, Source, Step
from bifrost.log.disk import Disk, File
from bifrost.log.index import RELATIVE_OFFSET_MAX, IndexBuilder
from bifrost.log.names import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, segment_path
from bifrost.log.scan import LENGTH_END, DamagedBatchError
from bifrost.protocol.batch import HEADER_BYTES, BatchHeader, CorruptBatchError, check_crc, read_header
from bifrost.protocol.compression import InflatedError

_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

_under_way: dict[int, Iterator[Step]] = {}
"""By number. They stay in this process between the pieces, since a map of millions of keys does not travel."""


def begin(number: int, task: CleaningTask) -> None:
    """Takes a task on under a number that no other has; `advance` does the work."""
    discard(task.disk, task.directory)
    _under_way[number] = _clean(task)


def advance(number: int) -> Step:
    """Does the next piece. `StorageError`: this cleaning is over."""
    return next(_under_way[number])


def end(number: int) -> None:
    """Forgets the task, done or not."""
    work = _under_way.pop(number, None)
    if work is not None:
        work.close()  # type: ignore[attr-defined]  # it is a generator


def discard(disk: Disk, directory: str) -> None:
    """Removes what a cleaning left behind that did not come to its end. A file among them, and a start would take the
    segments that a later one is about to replace for split ones, and go back to what is there no more."""
    if disk.exists(directory):
        for name in disk.listdir(directory):
            if name.endswith(CLEANED):
                disk.remove(f"{directory}/{name}")


def _clean(task: CleaningTask) -> Iterator[Step]:
    offsets = OffsetMap(task.map_entries_max)
    yield from _fill(offsets, task)
    batches = BatchFilter(offsets, task.last_offsets, now_ms=task.now_ms, delete_retention_ms=task.delete_retention_ms)
    for group in group_sources(
        [source for source in task.sources if source.base_offset < offsets.end_offset],
        task.disk.file_sizes(task.directory),
        end_offset=task.end_offset,
        segment_bytes=task.segment_bytes,
        segment_index_bytes=task.segment_index_bytes,
    ):
        if any(source.size for source in group):
            yield from _clean_group(task, group, batches)
    yield Step(0, clean_to=offsets.end_offset)


def _fill(offsets: OffsetMap, task: CleaningTask) -> Iterator[Step]:
    """Reads the dirty part, until the map is full: then that part ends sooner."""
    first = offsets.end_offset = task.first_dirty_offset
    ends = [*(source.base_offset for source in task.sources[1:]), task.end_offset]
    for source, segment_end in zip(task.sources, ends):
        if segment_end <= first:
            continue
        moved = 0
        for position, header, batch in _read_batches(task, source, segment_end):
            if header.last_offset < first:
                continue
            try:
                note_keys(offsets, batch, header, first)
            except CorruptBatchError as error:
                raise _damage(task, source, position, error) from error
            if offsets.end_offset < header.next_offset:
                return
            moved += len(batch)
            if moved >= task.step_bytes:
                yield Step(moved)
                moved = 0
        offsets.end_offset = segment_end
        yield Step(moved)


def _clean_group(task: CleaningTask, group: list[Source], batches: BatchFilter) -> Iterator[Step]:
    following = next((each.base_offset for each in task.sources if each.base_offset > group[-1].base_offset), None)
    ends = [*(source.base_offset for source in group[1:]), task.end_offset if following is None else following]
    last = max(source.base_offset for source in group if source.size)
    output = _Output(task, group[0].base_offset)
    try:
        is_changed = len(group) > 1
        for source, segment_end in zip(group, ends):
            read, written = 0, output.size
            for position, header, batch in _read_batches(task, source, segment_end):
                is_last = source.base_offset == last and position + len(batch) == source.size
                try:
                    retained = batches.retained(batch, header, is_last=is_last)
                except CorruptBatchError as error:
                    raise _damage(task, source, position, error) from error
                is_changed |= retained is not batch
                if retained is not None:
                    output.add(retained, header if retained is batch else read_header(retained))
                read += len(batch)
                if read >= task.step_bytes:
                    yield Step(read + output.size - written)
                    read, written = 0, output.size
            yield Step(read + output.size - written)
        if is_changed:
            output.finish([source.base_offset for source in group])
            yield Step(0, cleaned=Cleaned(tuple(source.base_offset for source in group), output.size))
    finally:
        output.discard()


class _Output:
    """A segment that grows beside those that it replaces."""

    def __init__(self, task: CleaningTask, base_offset: int) -> None:
        self._task = task
        self._base_offset = base_offset
        self._indexes = IndexBuilder(base_offset, task.index_interval_bytes)
        self._file = self._create(LOG)
        self._waiting = bytearray()
        self._written = 0

    @property
    def size(self) -> int:
        return self._written + len(self._waiting)

    def add(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        self._indexes.add(self.size, header.last_offset, header.max_timestamp)
        self._waiting += batch
        if len(self._waiting) >= self._task.read_bytes:
            self._write()

    def finish(self, base_offsets: list[int]) -> None:
        """All is on disk, the names among it. The disk takes the contents of all files first: then the first sync has a
        journal to wait for, and the others find it written."""
        self._write()
        self._indexes.finish()
        files = [
            self._file,
            self._store(OFFSET_INDEX, self._indexes.offsets.encode()),
            self._store(TIME_INDEX, self._indexes.times.encode()),
        ]
        # No batch of a transaction goes, so what is known of the aborted ones is what was known before.
        disk, directory = self._task.disk, self._task.directory
        paths = [segment_path(directory, base_offset, TXN_INDEX) for base_offset in base_offsets]
        aborted = b"".join([disk.read_bytes(path) for path in paths if disk.exists(path)])
        if aborted:
            files.append(self._store(TXN_INDEX, aborted))
        for file in files:
            file.sync()
        disk.sync_directory(directory)

    def discard(self) -> None:
        """Removes what nobody has renamed."""
        for suffix in _SUFFIXES:
            path = self._path(suffix)
            if self._task.disk.exists(path):
                self._task.disk.remove(path)

    def _write(self) -> None:
        if self._waiting:
            self._file.write_at(self._waiting, self._written)
            # The disk keeps up: one great sync at the end would hold up everybody's small ones.
            self._file.write_back(self._written, len(self._waiting))
            self._written += len(self._waiting)
            self._waiting = bytearray()

    def _store(self, suffix: str, data: bytes) -> File:
        file = self._create(suffix)
        file.write_at(data, 0)
        file.write_back(0, len(data))
        return file

    def _create(self, suffix: str) -> File:
        file = self._task.disk.open(self._path(suffix), create=True)
        if file.size():
            file.truncate(0)
        return file

    def _path(self, suffix: str) -> str:
        return segment_path(self._task.directory, self._base_offset, suffix) + CLEANED


def _read_batches(
    task: CleaningTask, source: Source, segment_end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of every batch of a segment, checked; `DamagedBatchError` where they are not sound."""
    file = task.disk.open(segment_path(task.directory, source.base_offset, LOG))
    offset_end = min(segment_end, source.base_offset + RELATIVE_OFFSET_MAX + 1)
    next_offset = source.base_offset
    chunk, start, position = memoryview(b""), 0, 0
    while position < source.size:
        at = position - start
        wanted = HEADER_BYTES
        if len(chunk) - at >= HEADER_BYTES:
            wanted = int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True) + LENGTH_END
        if len(chunk) - at < wanted:
            if not HEADER_BYTES <= wanted <= source.size - position:
                raise DamagedBatchError(file, position, f"{wanted} bytes of batch, {source.size - position} of file")
            size = min(max(task.read_bytes, wanted), source.size - position)
            chunk, start, at = memoryview(file.read_at(size, position)), position, 0
            if len(chunk) < size:
                raise DamagedBatchError(file, position, "the file became shorter")
            continue
        try:
            header = read_header(chunk, at)
        except CorruptBatchError as error:
            raise DamagedBatchError(file, position, str(error)) from error
        if not next_offset <= header.base_offset <= header.last_offset < offset_end:
            offsets = f"{header.base_offset} to {header.last_offset}"
            raise DamagedBatchError(file, position, f"offsets {offsets}, expected {next_offset} to {offset_end}")
        if not check_crc(chunk, at, header):
            raise DamagedBatchError(file, position, "checksum does not match")
        yield position, header, chunk[at : at + header.size_bytes]
        position += header.size_bytes
        next_offset = header.next_offset


def _damage(task: CleaningTask, source: Source, position: int, error: CorruptBatchError) -> DamagedBatchError:
    """Records that are not what their header says, behind a checksum that is right; or too many of them."""
    kind = OversizedBatchError if isinstance(error, InflatedError) else DamagedBatchError
    return kind(task.disk.open(segment_path(task.directory, source.base_offset, LOG)), position, str(error))
