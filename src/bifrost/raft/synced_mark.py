"""`synced-offset`: how far the metadata log was synced, so that a start can tell a torn end from damage.

Several batches may be written before a sync, and a loss of power may spoil any of them: the first one, with sound ones
behind it. Only what was synced once may have been promised to anybody. The mark is written after each sync and not
synced itself, so it never says too much; what it says too little is what was synced in the last seconds before the
power failed. Before the log is cut, the mark is lowered for good.
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from bifrost.errors import StorageError
from bifrost.log.disk import Disk

SYNCED_FILE: Final = "synced-offset"
_OFFSET: Final = struct.Struct(">q")
_MARK: Final = struct.Struct(">qI")


class SyncedMark:
    """The mark in one directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._path = f"{directory}/{SYNCED_FILE}"
        self._disk = disk
        self.offset: int | None = None
        """None: the log is of a program that wrote none."""
        if disk.exists(self._path):
            self.offset = _decode(disk.read_bytes(self._path))

    def begin(self, end_offset: int) -> None:
        """The log was opened, and ends there; from now on there is a mark for certain."""
        if self.offset is None:
            self.offset = end_offset
            self._disk.write_atomic(self._path, _encode(end_offset))
        self.lower(end_offset)

    def advance(self, offset: int) -> None:
        """So far the log is synced."""
        self.offset = offset
        try:
            self._disk.open(self._path).write_at(_encode(offset), 0)
        except StorageError:
            pass  # it is a hint, and a disk that fails will say so where it matters

    def lower(self, offset: int) -> None:
        """The log is about to end there; durable when it returns."""
        if self.offset is not None and offset < self.offset:
            self.offset = offset
            file = self._disk.open(self._path)
            file.write_at(_encode(offset), 0)
            file.sync()


def _encode(offset: int) -> bytes:
    return _MARK.pack(offset, crc32(_OFFSET.pack(offset)))


def _decode(data: bytes) -> int:
    """Nothing is promised by a mark that was torn."""
    if len(data) != _MARK.size:
        return 0
    offset, checksum = _MARK.unpack(data)
    return int(offset) if crc32(_OFFSET.pack(offset)) == checksum else 0
