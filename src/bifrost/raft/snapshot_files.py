"""Snapshots of the metadata on disk: `<end offset>-<epoch>.checkpoint`, as Kafka names them (KIP-630).

A file is a row of batches: a control record that begins it, the changes, and a control record that ends it. It gets its
name when it is whole and synced, so that a name that is there can be relied on. Reading checks every batch.

This file decides which files are snapshots, and which of them are kept. What is in the changes is the controller's
business.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Final

from bifrost.errors import StorageError
from bifrost.log.disk import Disk, File
from bifrost.protocol.batch import CorruptBatchError, iter_headers
from bifrost.protocol.control_records import SnapshotFooter, SnapshotHeader, control_batch, read_control_batch
from bifrost.protocol.records import decode_batch, encode_batch
from bifrost.raft.core.messages import SnapshotId
from bifrost.raft.rebuilding import set_aside

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_UNFINISHED: Final = ".part"  # Kafka's
_READ_BYTES: Final = 4 << 20

_log = logging.getLogger(__name__)


class SnapshotFiles:
    """The snapshots in one directory, oldest first."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._ids: list[SnapshotId] = []
        for name in disk.listdir(directory):
            found = _NAME.fullmatch(name)
            if found is not None:
                self._ids.append(SnapshotId(int(found[1]), int(found[2])))
            elif name.endswith(_UNFINISHED):
                disk.remove(f"{directory}/{name}")

    @property
    def oldest(self) -> SnapshotId | None:
        return self._ids[0] if self._ids else None

    @property
    def newest(self) -> SnapshotId | None:
        return self._ids[-1] if self._ids else None

    def __contains__(self, snapshot: object) -> bool:
        return snapshot in self._ids

    def path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"

    def write(self, snapshot: SnapshotId, changes: Iterable[list[bytes]], timestamp_ms: int) -> None:
        """Store a snapshot, one batch for each list of changes. Takes long: for a thread or a worker process.

        Whoever owns this object calls `add` when that is done.
        """
        unfinished = Unfinished(self._disk, self.path(snapshot))
        try:
            self._fill(unfinished, snapshot.epoch, changes, timestamp_ms)
            unfinished.finish()
        except StorageError:
            unfinished.abandon()
            raise

    def _fill(self, unfinished: Unfinished, epoch: int, changes: Iterable[list[bytes]], timestamp_ms: int) -> None:
        offset = 0

        def put(batch: bytearray, records: int) -> None:
            nonlocal offset
            unfinished.write(batch)
            offset += records

        def control(record: SnapshotHeader | SnapshotFooter) -> bytearray:
            return control_batch(record, base_offset=offset, leader_epoch=epoch, timestamp=timestamp_ms)

        put(control(SnapshotHeader(last_contained_log_timestamp=timestamp_ms)), 1)
        for values in changes:
            records = [(timestamp_ms, None, value, ()) for value in values]
            put(encode_batch(records, base_offset=offset, leader_epoch=epoch), len(records))
        put(control(SnapshotFooter()), 1)

    def receive(self, snapshot: SnapshotId) -> Unfinished:
        """A snapshot that is about to arrive in pieces; `add` it when it is finished and was checked."""
        return Unfinished(self._disk, self.path(snapshot))

    def add(self, snapshot: SnapshotId) -> None:
        """Its file is whole."""
        if snapshot not in self._ids:
            self._ids = sorted([*self._ids, snapshot])

    def changes(self, snapshot: SnapshotId) -> Iterator[bytes]:
        """What is in it; StorageError if anything of it cannot be read."""
        return read_changes(self._disk.open(self.path(snapshot)))

    def piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[memoryview, int]:
        """Bytes of the file, and how many it has in all."""
        file = self._disk.open(self.path(snapshot))
        try:
            size = file.size()
            return memoryview(bytes(file.read_at(min(max_bytes, max(size - position, 0)), position))), size
        finally:
            file.close()

    def is_sound(self, snapshot: SnapshotId) -> bool:
        """Whether all of it can be read. Takes long: for a thread."""
        file = self._disk.open(self.path(snapshot))
        try:
            for _ in read_changes(file):
                pass
        except StorageError:
            return False
        finally:
            file.close()
        return True

    def set_damaged_aside(self) -> None:
        """What cannot be read is kept under another name, and is no snapshot any more."""
        for snapshot in [one for one in self._ids if not self.is_sound(one)]:
            self.set_aside(snapshot)

    def set_aside(self, snapshot: SnapshotId) -> None:
        path = self.path(snapshot)
        aside = set_aside(self._disk, path)
        self._disk.sync_directory(self._directory)
        self._ids.remove(snapshot)
        _log.critical("metadata snapshot damaged path=%s as=%s", path, aside)

    def keep_from(self, offset: int) -> None:
        """Remove those that end before `offset`: a log that begins there does not continue them."""
        self._remove([one for one in self._ids if one.end_offset < offset])

    def discard(self, snapshot: SnapshotId) -> None:
        """It was written, and is of no use: there is a better one by now. Nobody has added it."""
        self._disk.remove(self.path(snapshot))

    def keep_newest(self, count: int) -> None:
        self._remove(self._ids[:-count])

    def keep_only(self, snapshot: SnapshotId) -> None:
        self._remove([one for one in self._ids if one != snapshot])

    def _remove(self, doomed: list[SnapshotId]) -> None:
        for snapshot in doomed:
            self._disk.remove(self.path(snapshot))
            self._ids.remove(snapshot)


class Unfinished:
    """A snapshot that is being written, under a name that no start takes for one."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file = disk.open(path + _UNFINISHED, create=True)
        self._file.truncate(0)
        self.size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._file.write_at(data, self.size)
        self.size += len(data)

    def check(self) -> None:
        """StorageError unless it is a whole snapshot."""
        for _ in read_changes(self._file):
            pass

    def changes(self) -> Iterator[bytes]:
        """What is in it."""
        return read_changes(self._file)

    def finish(self) -> None:
        """It has its name, and keeps it, when this returns."""
        self._file.sync()
        self._file.close()
        self._disk.rename(self._path + _UNFINISHED, self._path)
        self._disk.sync_directory(self._path.rpartition("/")[0])

    def abandon(self) -> None:
        self._file.close()
        if self._disk.exists(self._path + _UNFINISHED):
            self._disk.remove(self._path + _UNFINISHED)


def read_changes(file: File) -> Iterator[bytes]:
    """The changes in a snapshot's file, in order; StorageError where it is not what a snapshot should be."""
    begun = ended = False
    try:
        for batch, is_control in _batches(file):
            if ended:
                raise CorruptBatchError("there is more behind its end")
            if is_control:
                for record in read_control_batch(batch):
                    begun |= isinstance(record, SnapshotHeader)
                    ended |= isinstance(record, SnapshotFooter)
            elif not begun:
                raise CorruptBatchError("it does not begin as a snapshot does")
            else:
                for change in decode_batch(batch):
                    if change.value is None:
                        raise CorruptBatchError(f"change {change.offset} is empty")
                    yield change.value
    except CorruptBatchError as error:
        raise StorageError(file.path, f"the snapshot cannot be read: {error}") from error
    if not ended:
        raise StorageError(file.path, "the snapshot is not whole")


def _batches(file: File) -> Iterator[tuple[memoryview, bool]]:
    """Every batch, read a few megabytes at a time."""
    position, size, want = 0, file.size(), _READ_BYTES
    while position < size:
        data = memoryview(bytes(file.read_at(min(want, size - position), position)))
        end = 0
        for start, header in iter_headers(data):
            end = start + header.size_bytes
            yield data[start:end], header.is_control
        position += end
        if end == 0 and len(data) < want:
            raise CorruptBatchError(f"its last batch, at byte {position}, is cut short")
        want = want if end else 2 * want
