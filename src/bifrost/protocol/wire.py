"""The primitive types of Kafka's messages, read from and written to plain buffers.

Every reader takes `(buffer, position)` and returns `(value, next position)`. The buffer must end where the frame ends:
its end is the only bound that is checked. A length is compared with the bytes that remain before anything is
allocated for it. Reading past the end may surface as one of `SHORT_BUFFER`; a decoder catches these once, around
its whole body, and raises `ProtocolError`, so that the readers themselves stay free of bounds checks that
CPython does anyway.

Nothing here knows a message. Never add a reader that allocates what a length promises before seeing the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from bifrost.errors import ProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview

SHORT_BUFFER: Final = (IndexError, struct.error, UnicodeDecodeError)
"""What a reader raises, besides `ProtocolError`, when the bytes end too early or a string is no UTF-8."""

UUID_BYTES: Final = 16
ZERO_UUID: Final = bytes(UUID_BYTES)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhi")


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, as lengths and tags of flexible versions use it (KIP-482)."""
    value = byte = buffer[position]
    position += 1
    if byte < 0x80:
        return value, position
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtocolError("a varint has more than five bytes")


def read_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """A string with an int16 length."""
    (length,) = _INT16.unpack_from(buffer, position)
    if length < 0:
        raise ProtocolError("null where a string is required")
    position += 2
    end = position + length
    if end > len(buffer):
        raise ProtocolError("a string runs past the end of the frame")
    return str(buffer[position:end], "utf-8"), end


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """As `read_string`, with a negative length meaning null."""
    (length,) = _INT16.unpack_from(buffer, position)
    if length < 0:
        return None, position + 2
    return read_string(buffer, position)


def read_compact_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """A string whose varint length is one too large, so that 0 can mean null; here null is refused."""
    length = buffer[position]
    if length >= 0x80:
        length, position = read_uvarint(buffer, position)
    else:
        position += 1
    if length == 0:
        raise ProtocolError("null where a string is required")
    end = position + length - 1
    if end > len(buffer):
        raise ProtocolError("a string runs past the end of the frame")
    return str(buffer[position:end], "utf-8"), end


def read_compact_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """As `read_compact_string`, with null allowed."""
    if not buffer[position]:
        return None, position + 1
    return read_compact_string(buffer, position)


def read_uuid(buffer: Buffer, position: int) -> tuple[bytes, int]:
    """Sixteen raw bytes: cheaper than `uuid.UUID` to make, to hash and to compare."""
    end = position + UUID_BYTES
    if end > len(buffer):
        raise ProtocolError("a uuid runs past the end of the frame")
    return bytes(buffer[position:end]), end


def read_count(buffer: Buffer, position: int, element_bytes: int) -> tuple[int, int]:
    """The int32 length of an array whose elements take at least `element_bytes` each.

    A count that the remaining bytes cannot hold is refused before anybody loops or allocates by it.
    """
    (count,) = _INT32.unpack_from(buffer, position)
    position += 4
    if not 0 <= count * element_bytes <= len(buffer) - position:
        raise ProtocolError(f"an array of {count} elements in {len(buffer) - position} bytes")
    return count, position


def read_compact_count(buffer: Buffer, position: int, element_bytes: int) -> tuple[int, int]:
    """As `read_count`, for the varint length of a compact array."""
    count = buffer[position] - 1
    if count >= 0x7F:
        count, position = read_uvarint(buffer, position)
        count -= 1
    else:
        position += 1
    if not 0 <= count * element_bytes <= len(buffer) - position:
        raise ProtocolError(f"an array of {count} elements in {len(buffer) - position} bytes")
    return count, position


def skip_tags(buffer: Buffer, position: int) -> int:
    """Passes over a section of tagged fields, known or not."""
    if not buffer[position]:
        return position + 1
    remaining, position = read_uvarint(buffer, position)
    while remaining:
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        remaining -= 1
    if position > len(buffer):
        raise ProtocolError("a tagged field runs past the end of the frame")
    return position


def read_tags(buffer: Buffer, position: int) -> tuple[dict[int, memoryview], int]:
    """A section of tagged fields as views by tag. The caller takes the tags it knows and ignores the rest."""
    view = memoryview(buffer)
    fields: dict[int, memoryview] = {}
    remaining, position = read_uvarint(buffer, position)
    while remaining:
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if size > len(buffer) - position:
            raise ProtocolError("a tagged field runs past the end of the frame")
        fields[tag] = view[position : position + size]
        position += size
        remaining -= 1
    return fields, position


def uvarint(value: int) -> bytes:
    """`value` as an unsigned varint."""
    if value < 0x80:
        return UVARINT[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class _Uvarints(dict[int, bytes]):
    """Unsigned varints by value. The short ones are kept ready: nearly every length and count is one of them."""

    def __missing__(self, value: int) -> bytes:
        return uvarint(value)


UVARINT: Final = _Uvarints((value, bytes((value,))) for value in range(0x80))


def string(value: str | None) -> bytes:
    """A string with its int16 length."""
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded


def compact_string(value: str | None) -> bytes:
    """A string with its varint length."""
    if value is None:
        return b"\x00"
    encoded = value.encode()
    return uvarint(len(encoded) + 1) + encoded


def array_length(count: int) -> bytes:
    """The int32 length of an array."""
    return _INT32.pack(count)


def compact_array_length(count: int) -> bytes:
    """The varint length of a compact array."""
    return uvarint(count + 1)


def tags(fields: Sequence[tuple[int, bytes]]) -> bytes:
    """A section of tagged fields. The protocol wants them by rising tag."""
    encoded = [uvarint(len(fields))]
    for tag, value in fields:
        encoded += (uvarint(tag), uvarint(len(value)), value)
    return b"".join(encoded)


def request_frame(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: Sequence[Buffer], *, flexible: bool
) -> bytes:
    """A whole request: its length, its header and the pieces of its body."""
    front = request_front(api_key, version, correlation_id, client_id, sum(map(len, body)), flexible=flexible)
    return b"".join((front, *body))


def request_front(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body_bytes: int, *, flexible: bool
) -> bytes:
    """What goes before a request's body: the frame's length and the header. The client id is never compact."""
    header = _REQUEST_HEADER.pack(api_key, version, correlation_id) + string(client_id) + (b"\0" if flexible else b"")
    return _INT32.pack(len(header) + body_bytes) + header
