"""The few pieces that every encoder and decoder here is made of: varints, tag sections, runs of equal numbers.

Functions that read raise `ValueError` or `IndexError` on bytes that make no sense; who faces a peer turns both into
`ProtocolError`. Nothing here knows a message.
"""

from __future__ import annotations

from struct import Struct as Packer
from typing import Final

Buffer = bytes | bytearray | memoryview


class _Uvarints(dict[int, bytes]):
    """Unsigned varints by value. The short ones are kept ready: nearly every length and count is one of them."""

    def __missing__(self, value: int) -> bytes:
        encoded = bytearray()
        while value > 0x7F:
            encoded.append(value & 0x7F | 0x80)
            value >>= 7
        encoded.append(value)
        return bytes(encoded)


UVARINT: Final = _Uvarints((value, bytes((value,))) for value in range(0x80))


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The unsigned varint at `position`, and the position after it."""
    value = shift = 0
    while (byte := buffer[position]) > 0x7F:
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if shift > 28:
            raise ValueError("varint of more than five bytes")
    return value | byte << shift, position + 1


def skip_tags(buffer: Buffer, position: int) -> int:
    """The position after the tag section at `position`, whatever tags it holds (KIP-482)."""
    count, position = read_uvarint(buffer, position)
    end = len(buffer)
    if count * 2 > end - position:
        raise ValueError(f"{count} tagged fields in {end - position} bytes")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    if position > end:
        raise ValueError("tagged fields end after the message")
    return position


class Packers(dict[int, Packer]):
    """Packers of n numbers of one kind, by n. Short ones are kept; a peer's long arrays do not fill our memory."""

    _KEPT_MAX = 64

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, count: int) -> Packer:
        packer = Packer(f">{count}{self._code}")
        if count <= self._KEPT_MAX:
            self[count] = packer
        return packer
