"""Walking the batches of a segment file, from one header to the next.

This file decides what is a batch and what is damage. Nothing found in a file is believed: a length that leaves
the file, an offset that goes back or a wrong CRC ends the walk with `DamagedBatchError`, and no length is ever used to
allocate memory before it was compared with what is there. It never looks at a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from bifrost.errors import StorageError
from bifrost.log.disk import Buffer, File
from bifrost.protocol.batch import HEADER_BYTES, MAGIC, BatchHeader, CorruptBatchError, check_crc, read_header

LENGTH_END: Final = 12
_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_END

_HEADER_CHUNK_BYTES: Final = 16 << 10
_DATA_CHUNK_BYTES: Final = 4 << 20

_PLACE = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_PEEK_BYTES: Final = 4096 + HEADER_BYTES
"""What one look-up reads at a time: the default distance of two index entries."""

REMEDY: Final = "while another replica is in sync, stop this node, remove the directory and start: it is rebuilt"


class DamagedBatchError(StorageError):
    """The bytes at `position` of `file` are not the batch that should be there."""

    def __init__(self, file: File, position: int, reason: str) -> None:
        super().__init__(file.path, f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


def scan_batches(
    file: File, start: int, end: int, *, next_offset: int, offset_end: int, crc: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch from `start`, a batch's first byte, to `end`.

    Offsets must lie between `next_offset` and `offset_end` and rise; they may leave gaps, as compaction does. With
    `crc` every byte is read and checked, otherwise only headers are.
    """
    chunk_bytes = _DATA_CHUNK_BYTES if crc else _HEADER_CHUNK_BYTES
    chunk: Buffer = b""
    chunk_start = position = start
    while position < end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk_start, chunk = position, file.read_at(min(chunk_bytes, end - position), position)
        try:
            header = read_header(chunk, position - chunk_start)
        except CorruptBatchError as error:
            raise DamagedBatchError(file, position, str(error)) from error
        following = position + header.length + LENGTH_END
        if following > end:
            raise DamagedBatchError(file, position, f"{following - position} bytes of batch, {end - position} of file")
        if not next_offset <= header.base_offset <= header.last_offset < offset_end:
            offsets = f"{header.base_offset} to {header.last_offset}"
            raise DamagedBatchError(file, position, f"offsets {offsets}, expected {next_offset} to {offset_end}")
        if crc:
            if following > chunk_start + len(chunk):
                chunk_start, chunk = position, file.read_at(max(chunk_bytes, following - position), position)
            if not check_crc(chunk, position - chunk_start, header):
                raise DamagedBatchError(file, position, "checksum does not match")
        yield position, header
        next_offset = header.next_offset
        position = following


def find_batch(file: File, position: int, end: int, offset: int, claimed: int | None) -> tuple[int, int] | None:
    """Position and size of the first batch that ends at `offset` or later, searching from the batch at `position`.

    `claimed` is what an index said of the batch at `position`: that its last offset is no higher. An index that lies
    about it would hide batches, so that is damage too.
    """
    if claimed is not None and not 0 <= position < end:
        raise DamagedBatchError(file, position, f"index points out of {end} bytes")
    chunk: Buffer = b""
    chunk_start = position
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk_start, at, chunk = position, 0, file.read_at(min(_PEEK_BYTES, end - position), position)
            if len(chunk) < HEADER_BYTES:
                raise DamagedBatchError(file, position, "the file ends inside a batch header")
        base_offset, length, magic, last_offset_delta = _PLACE.unpack_from(chunk, at)
        following = position + length + LENGTH_END
        if length < _LENGTH_MIN or magic != MAGIC or last_offset_delta < 0 or following > end:
            raise DamagedBatchError(file, position, f"no batch: length {length}, magic {magic}")
        last_offset = base_offset + last_offset_delta
        if claimed is not None and last_offset > claimed:
            raise DamagedBatchError(file, position, f"batch ends at offset {last_offset}, index says {claimed}")
        claimed = None
        if last_offset >= offset:
            return position, following - position
        position = following
    return None
