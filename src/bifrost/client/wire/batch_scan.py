"""What a fetched slice of a log holds, from batch headers alone: which bytes are whole batches, and what comes next."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from bifrost.protocol.batch import HEADER_BYTES, MAGIC, CorruptBatchError

_FRONT: Final = Struct(">qi4xb")  # base offset, length, magic
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LENGTH_END: Final = 12
_LAST_OFFSET_DELTA_AT: Final = 23
_LENGTH_MIN: Final = HEADER_BYTES - _LENGTH_END


class Scan(NamedTuple):
    """Bytes up to `size` are whole batches that begin below the end that was asked for."""

    size: int
    next_offset: int
    """The first offset after them; -1 if there are none."""
    reached_end: bool
    """A batch at or behind the end was seen: there is nothing more to come."""
    cut_batch_bytes: int
    """The size of the batch that starts the bytes, if they end inside it; otherwise 0."""


def scan_batches(data: memoryview, end: int | None) -> Scan:
    """Walks the headers. Raises CorruptBatchError rather than trust a length that cannot be one."""
    unpack, size = _FRONT.unpack_from, len(data)
    position, last = 0, -1
    reached_end = False
    while size - position >= HEADER_BYTES:
        base_offset, length, magic = unpack(data, position)
        if magic != MAGIC or length < _LENGTH_MIN:
            raise CorruptBatchError(f"a batch of format {magic} and length {length}")
        following = position + length + _LENGTH_END
        if following > size:
            break
        if end is not None and base_offset >= end:
            reached_end = True
            break
        last = position
        position = following
    if last < 0:
        cut = size > 0 and not reached_end
        return Scan(0, -1, reached_end, _claimed_bytes(data) if cut else 0)
    (base_offset, *_) = unpack(data, last)
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, last + _LAST_OFFSET_DELTA_AT)
    if delta < 0:
        raise CorruptBatchError(f"a batch whose last offset is {delta} away from its first")
    next_offset = base_offset + delta + 1
    return Scan(position, next_offset, reached_end or (end is not None and next_offset >= end), 0)


def _claimed_bytes(data: memoryview) -> int:
    if len(data) < _LENGTH_END:
        return HEADER_BYTES
    return int.from_bytes(data[8:_LENGTH_END], "big") + _LENGTH_END
