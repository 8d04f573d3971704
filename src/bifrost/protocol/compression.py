"""The codecs a batch's records may be compressed with, each in the framing that Kafka clients use for it.

Decompression never produces more than the caller allows: output goes into a buffer of bounded size, so a small payload
that inflates to something huge is refused once the bound is reached, not after it was inflated. Whatever is wrong with
a payload, it is a `CorruptBatchError`. The hot path must never come here: brokers pass compressed records on unread,
unless a topic's settings say otherwise (`inspection`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Final

import cramjam

from bifrost.protocol.batch import CorruptBatchError
from bifrost.protocol.wire import Buffer


class InflatedError(CorruptBatchError):
    """The payload may be sound, but it holds more than the caller allows."""


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# snappy-java's stream, which the Java client writes: magic, version 1, compatible with 1, then blocks, each behind its
# size. librdkafka writes one bare block instead, and every reader is expected to tell the two apart.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_SNAPPY_EXPANSION_MAX: Final = 22  # a copy element of three bytes yields at most 64

_FIRST_OUTPUT_BYTES: Final = 64 * 1024
_OUTPUT_GROWTH: Final = 8
_INTO: Final[dict[Codec, Callable[[Buffer, bytearray], int]]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


_GZIP_DEFAULT: Final = -1
_LZ4_DEFAULT: Final = 9
_LZ4_HIGHEST: Final = 12


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` as a Java client would send it, at one of the levels that Kafka's settings know (KIP-390)."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=None if level == _GZIP_DEFAULT else level))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: Codec, data: Buffer, limit_bytes: int) -> Buffer:
    """The original bytes, at most `limit_bytes` of them."""
    match codec:
        case Codec.NONE:
            if len(data) > limit_bytes:
                raise InflatedError(f"{len(data)} bytes of records, {limit_bytes} are allowed")
            return data
        case Codec.SNAPPY:
            if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
                return _decompress_xerial(memoryview(data), limit_bytes)
            return _decompress_block(data, limit_bytes)
        case Codec.GZIP | Codec.LZ4 | Codec.ZSTD:
            return _inflate(codec, data, limit_bytes)


def _inflate(codec: Codec, data: Buffer, limit_bytes: int) -> bytearray:
    """Tries ever larger buffers up to the limit, as long as it is the buffer that is too small.

    These formats need not say how much they hold. A payload that is broken is refused at once: a few torn bytes must
    not cost the largest buffer there is.
    """
    decompress_into = _INTO[codec]
    size = min(limit_bytes, max(_FIRST_OUTPUT_BYTES, len(data) * _OUTPUT_GROWTH))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _too_small(codec):
                raise CorruptBatchError(f"records do not decompress: {error}") from error
            if size >= limit_bytes:
                raise InflatedError(f"records do not decompress into {limit_bytes} bytes: {error}") from error
            del output  # before the next one is there: the bound is for all that is held at a time
            size = min(limit_bytes, size * _OUTPUT_GROWTH)
        else:
            del output[written:]
            return output


@cache
def _too_small(codec: Codec) -> str:
    """The words in which the codec says that its output does not fit; they are its library's, so they are asked for."""
    try:
        _INTO[codec](compress(codec, b"too long"), bytearray(1))
    except cramjam.DecompressionError as error:
        return str(error)
    raise AssertionError(f"{codec.name} fits eight bytes into one")


def _compress_xerial(data: Buffer) -> bytes:
    stream = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        stream += len(block).to_bytes(4, "big")
        stream += block
    return bytes(stream)


def _decompress_xerial(data: memoryview, limit_bytes: int) -> bytearray:
    output = bytearray()
    position = len(_XERIAL_HEADER)
    if position > len(data):
        raise CorruptBatchError("snappy stream header is cut short")
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            raise CorruptBatchError("snappy block is cut short")
        output += _decompress_block(data[start:position], limit_bytes - len(output))
    return output


def _decompress_block(data: Buffer, limit_bytes: int) -> bytearray:
    """One bare snappy block; it starts with its own decompressed size."""
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > len(data) * _SNAPPY_EXPANSION_MAX:
            raise CorruptBatchError(f"snappy block claims {size} bytes in {len(data)}")
        if size > limit_bytes:
            raise InflatedError(f"snappy block of {size} bytes, {limit_bytes} are allowed")
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(data, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"snappy block does not decompress: {error}") from error
    return output


def _compress_lz4(data: Buffer, level: int | None = None) -> bytes:
    """A frame of blocks that stand alone: Java clients and Kafka itself refuse blocks that refer to earlier ones.

    Kafka's default level is the fast algorithm, and all others are the thorough one (Kafka: Lz4BlockOutputStream).
    """
    thorough = None if level is None or level == _LZ4_DEFAULT else min(level, _LZ4_HIGHEST)
    compressor = cramjam.lz4.Compressor(level=thorough, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())
