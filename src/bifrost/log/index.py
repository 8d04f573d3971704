"""Sparse indexes of a segment: offset to file position, and timestamp to offset. Kafka: OffsetIndex, TimeIndex.

This file decides how an index is searched, grown and stored. The active segment's indexes grow in memory and are
written when it rolls, closes or is checkpointed, since recovery can always build them again; closed ones are searched
in their files. An index is a hint: whoever uses an answer checks it against the log, and a file whose shape is wrong
is refused with `CorruptIndexError` so that its owner builds it anew.

Entries, big endian: offset index i32 relative offset of a batch's last record, i32 position of that batch's first byte;
time index i64 greatest timestamp so far, i32 relative offset of the last record of the batch that holds it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from bifrost.log.disk import Buffer, File
from bifrost.log.open_files import OpenFiles

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
NO_TIMESTAMP: Final = -1

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12

_OFFSET_ENTRY = struct.Struct(">ii")
_RELATIVE_OFFSET = struct.Struct(">i")
_TIME_ENTRY = struct.Struct(">qi")
_BLOCK_BYTES: Final = 4096

_I32: Final = "i"
assert array(_I32).itemsize == 4


class CorruptIndexError(ValueError):
    """The file cannot be what an index of this segment looks like."""


class OffsetIndex:
    """Entries in memory, as two columns, so that a search is one call into `bisect`."""

    __slots__ = ("_offsets", "_positions", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array(_I32)
        self._positions = array(_I32)

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self.base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or below `offset`; the segment's start when there is none."""
        slot = bisect_right(self._offsets, offset - self.base_offset) - 1
        if slot < 0:
            return self.base_offset, 0
        return self.base_offset + self._offsets[slot], self._positions[slot]

    def last(self) -> tuple[int, int]:
        if not self._offsets:
            return self.base_offset, 0
        return self.base_offset + self._offsets[-1], self._positions[-1]

    def position_from_end(self, entries: int) -> int:
        """Where the batch of the entry so many before the end starts; 0 when there are not so many."""
        return self._positions[-entries] if entries <= len(self._positions) else 0

    def truncate(self, offset: int) -> None:
        """Drops every entry at or above `offset`."""
        slot = bisect_left(self._offsets, offset - self.base_offset)
        del self._offsets[slot:], self._positions[slot:]

    def is_full(self, max_bytes: int) -> bool:
        return len(self._offsets) >= max_bytes // OFFSET_ENTRY_BYTES

    def is_plausible(self, log_bytes: int) -> bool:
        """Whether the last entry can be one of a log of that size. The first batch of a segment never has an entry."""
        return not self._offsets or (self._offsets[-1] >= 0 and 0 < self._positions[-1] < log_bytes)

    def encode(self) -> bytes:
        columns = array(_I32, bytes(len(self._offsets) * OFFSET_ENTRY_BYTES))
        columns[0::2] = self._offsets
        columns[1::2] = self._positions
        if sys.byteorder == "little":
            columns.byteswap()
        return columns.tobytes()

    @classmethod
    def decode(cls, base_offset: int, data: Buffer) -> OffsetIndex:
        if len(data) % OFFSET_ENTRY_BYTES:
            raise CorruptIndexError(f"{len(data)} bytes are no multiple of {OFFSET_ENTRY_BYTES}")
        columns = array(_I32)
        columns.frombytes(data)
        if sys.byteorder == "little":
            columns.byteswap()
        index = cls(base_offset)
        index._offsets = columns[0::2]
        index._positions = columns[1::2]
        return index


class TimeIndex:
    """Entries in memory, encoded as they are stored: written often, searched seldom."""

    __slots__ = ("_data", "_last_timestamp", "base_offset")

    def __init__(self, base_offset: int, data: Buffer = b"") -> None:
        if len(data) % TIME_ENTRY_BYTES:
            raise CorruptIndexError(f"{len(data)} bytes are no multiple of {TIME_ENTRY_BYTES}")
        self.base_offset = base_offset
        self._data = bytearray(data)
        self._last_timestamp = self.last()[0]

    def __len__(self) -> int:
        return len(self._data) // TIME_ENTRY_BYTES

    def append(self, timestamp: int, offset: int) -> None:
        """Adds the entry if its timestamp is the highest yet; a repeated one would say nothing new."""
        if timestamp > self._last_timestamp:
            self._data += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)
            self._last_timestamp = timestamp

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or below `timestamp`; (-1, base offset) when there is none."""
        slot = bisect_right(range(len(self)), timestamp, key=self._timestamp_at) - 1
        return self._entry(slot)

    def last(self) -> tuple[int, int]:
        return self._entry(len(self) - 1)

    def truncate(self, offset: int) -> None:
        """Drops every entry whose offset is at or above `offset`."""
        slot = bisect_left(range(len(self)), offset, key=lambda at: self._entry(at)[1])
        del self._data[slot * TIME_ENTRY_BYTES :]
        self._last_timestamp = self.last()[0]

    def is_full(self, max_bytes: int) -> bool:
        """One entry is kept free for the one that a roll adds."""
        return len(self) >= max_bytes // TIME_ENTRY_BYTES - 1

    def is_plausible(self) -> bool:
        """Whether the last entry is later than the first, and in the segment."""
        timestamp, offset = self.last()
        rising = len(self) <= 1 or timestamp > self._entry(0)[0]
        return rising and (not self._data or (timestamp >= 0 and offset >= self.base_offset))

    def encode(self) -> bytes:
        return bytes(self._data)

    def _timestamp_at(self, slot: int) -> int:
        return self._entry(slot)[0]

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = _TIME_ENTRY.unpack_from(self._data, slot * TIME_ENTRY_BYTES)
        return timestamp, self.base_offset + relative


class StoredOffsetIndex:
    """A closed segment's index, searched in its file; the block that was used last stays in memory.

    A consumer that reads on finds its next entries in that block: 512 entries are about 2 MiB of log.
    """

    __slots__ = ("_block", "_block_end", "_block_start", "_files", "_path", "_size", "base_offset")

    def __init__(self, files: OpenFiles, path: str, base_offset: int, *, log_bytes: int) -> None:
        self.base_offset = base_offset
        self._files = files
        self._path = path
        file = files.get(path)
        self._size = file.size()
        self._check(file, log_bytes)
        self._block = OffsetIndex(base_offset)
        self._block_start = self._block_end = 0  # relative offsets that the block answers for: none yet

    def lookup(self, offset: int) -> tuple[int, int]:
        """As `OffsetIndex.lookup`."""
        relative = offset - self.base_offset
        if not self._block_start <= relative < self._block_end:
            self._load_block(relative)
        return self._block.lookup(offset)

    def _load_block(self, relative: int) -> None:
        file = self._files.get(self._path)
        blocks = -(-self._size // _BLOCK_BYTES)
        number = bisect_right(range(blocks), relative, key=lambda at: _first_offset(file, at)) - 1
        if number < 0:
            self._block, self._block_start = OffsetIndex(self.base_offset), 0
        else:
            data = file.read_at(min(_BLOCK_BYTES, self._size - number * _BLOCK_BYTES), number * _BLOCK_BYTES)
            self._block, self._block_start = OffsetIndex.decode(self.base_offset, data), _first_offset(file, number)
        self._block_end = _first_offset(file, number + 1) if number + 1 < blocks else RELATIVE_OFFSET_MAX + 1

    def _check(self, file: File, log_bytes: int) -> None:
        if self._size % OFFSET_ENTRY_BYTES:
            raise CorruptIndexError(f"{self._size} bytes are no multiple of {OFFSET_ENTRY_BYTES}")
        if self._size:
            first, _ = _OFFSET_ENTRY.unpack(file.read_at(OFFSET_ENTRY_BYTES, 0))
            last, position = _OFFSET_ENTRY.unpack(file.read_at(OFFSET_ENTRY_BYTES, self._size - OFFSET_ENTRY_BYTES))
            single = self._size == OFFSET_ENTRY_BYTES
            if first < 0 or (last <= first and not single) or not 0 < position < log_bytes:
                raise CorruptIndexError(f"first offset {first}, last {last} at position {position} of {log_bytes}")


class StoredTimeIndex:
    """A closed segment's time index, searched in its file."""

    __slots__ = ("_count", "_files", "_path", "base_offset")

    def __init__(self, files: OpenFiles, path: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self._files = files
        self._path = path
        size = files.get(path).size()
        if size % TIME_ENTRY_BYTES or size == 0:  # a segment that was closed has an entry, if it has timestamps at all
            raise CorruptIndexError(f"{size} bytes of time index, with {TIME_ENTRY_BYTES} per entry")
        self._count = size // TIME_ENTRY_BYTES
        if self._count > 1 and self._entry(0)[0] >= self.last()[0]:
            raise CorruptIndexError(f"timestamps fall from {self._entry(0)[0]} to {self.last()[0]}")

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """As `TimeIndex.lookup`."""
        return self._entry(bisect_right(range(self._count), timestamp, key=lambda at: self._entry(at)[0]) - 1)

    def last(self) -> tuple[int, int]:
        return self._entry(self._count - 1)

    def _entry(self, slot: int) -> tuple[int, int]:
        data = self._files.get(self._path).read_at(TIME_ENTRY_BYTES, slot * TIME_ENTRY_BYTES) if slot >= 0 else b""
        if len(data) < TIME_ENTRY_BYTES:  # before the first entry; or the file became shorter, and knows nothing
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = _TIME_ENTRY.unpack(data)
        return timestamp, self.base_offset + relative


def _first_offset(file: File, block: int) -> int:
    """The relative offset that starts a block of an offset index; one past any offset if the file became shorter."""
    data = file.read_at(_RELATIVE_OFFSET.size, block * _BLOCK_BYTES)
    return _RELATIVE_OFFSET.unpack(data)[0] if len(data) == _RELATIVE_OFFSET.size else RELATIVE_OFFSET_MAX + 1


class IndexBuilder:
    """Both indexes of a segment as they grow with its batches, by Kafka's rules (LogSegment.append, .recover)."""

    __slots__ = ("_entry_position", "interval_bytes", "max_timestamp", "max_timestamp_offset", "offsets", "times")

    def __init__(
        self,
        base_offset: int,
        interval_bytes: int,
        offsets: OffsetIndex | None = None,
        times: TimeIndex | None = None,
    ) -> None:
        """Goes on from given indexes, stored or cut back: then the batches after their last entry are to be added."""
        self.offsets = OffsetIndex(base_offset) if offsets is None else offsets
        self.times = TimeIndex(base_offset) if times is None else times
        self.interval_bytes = interval_bytes
        self.max_timestamp, self.max_timestamp_offset = self.times.last()
        self._entry_position = self.offsets.last()[1]

    def add(self, position: int, last_offset: int, max_timestamp: int) -> bool:
        """A batch was stored at `position`; whether it got an entry."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self._entry_position <= self.interval_bytes:
            return False
        self._entry_position = position
        self.offsets.append(last_offset, position)
        self.times.append(self.max_timestamp, self.max_timestamp_offset)
        return True

    def finish(self) -> None:
        """The segment takes no more batches: its greatest timestamp is recorded whatever the interval."""
        self.times.append(self.max_timestamp, self.max_timestamp_offset)

    def is_full(self, max_bytes: int) -> bool:
        return self.offsets.is_full(max_bytes) or self.times.is_full(max_bytes)
