"""A record batch (message format v2) as an opaque blob behind a 61-byte header. Hot path 4/9.

This file decides whether a produced batch may enter a log, and stamps what a log adds to it. It works on the header
and on one native CRC over the rest, so it costs the same for one record and for ten thousand. It must never
look at a record: what only a look inside can show is the business of `inspection`.

Layout, with byte positions: base offset 0, length of what follows 8, leader epoch 12, magic 16, CRC-32C 17,
attributes 21, last offset delta 23, base timestamp 27, max timestamp 35, producer id 43, producer epoch 51,
base sequence 53, record count 57, records 61. The CRC covers everything from the attributes on, so offset and
leader epoch can be written without touching it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.wire import Buffer

HEADER_BYTES: Final = 61
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
_MEANINGFUL_BITS: Final = APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
SEQUENCE_MASK: Final = (1 << 31) - 1  # the sequence after 2^31 - 1 is 0

_LENGTH_END = 12  # the length field counts the bytes after itself
_LENGTH_MIN = HEADER_BYTES - _LENGTH_END
_LENGTH_MIN_ANY_MAGIC = 14  # the smallest message of format v0
_MAGIC_END = 17
_CRC_START = 21
_PRODUCER_START = 43
_HALF = 1 << 30
_ZSTD = 4
_ZSTD_SINCE_PRODUCE = 7  # KIP-110

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_TO_MAGIC = struct.Struct(">8xi4xb")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC_ATTRIBUTES = struct.Struct(">Ih")
_PRODUCER = struct.Struct(">qhi")
_MAX_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")

_new_header = (
    tuple.__new__
)  # `BatchHeader._make` without its second count of the fields, which takes as long as the rest


class CorruptBatchError(ValueError):
    """The bytes are not a batch of format v2, or not the batch that was once written."""


class ProducerMark(NamedTuple):
    """Which batch of an idempotent producer it is."""

    producer_id: int
    epoch: int
    sequence: int

    def follows(self, earlier: ProducerMark) -> bool:
        """Whether it stands behind another of the same producer; an epoch begins anew, and numbers wrap around."""
        return self.epoch == earlier.epoch and 0 < (self.sequence - earlier.sequence) & SEQUENCE_MASK < _HALF


class BatchHeader(NamedTuple):
    """The fixed part of a batch, in wire order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.length + _LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """A value of `compression.Codec`, or a number above its last for bytes that no broker accepts."""
        return self.attributes & CODEC_MASK

    @property
    def is_append_time(self) -> bool:
        """Whether every record reads as `max_timestamp`, whatever it carries itself."""
        return self.attributes & APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def mark(self) -> ProducerMark:
        return ProducerMark(self.producer_id, self.producer_epoch, self.base_sequence)


def read_producer(batch: Buffer) -> ProducerMark | None:
    """None if the batch has no such mark, or is none; nothing else about it is looked at."""
    if len(batch) < HEADER_BYTES:
        return None
    mark = ProducerMark(*_PRODUCER.unpack_from(batch, _PRODUCER_START))
    return None if mark.producer_id < 0 else mark


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. The batch itself may still be cut short; its CRC is not looked at."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatchError(f"{len(buffer) - position} bytes are no batch header")
    header = _new_header(BatchHeader, _HEADER.unpack_from(buffer, position))
    if header.length < _LENGTH_MIN:
        raise CorruptBatchError(f"batch length {header.length} is less than the rest of its header")
    if header.magic != MAGIC:
        raise CorruptBatchError(f"magic {header.magic} instead of {MAGIC}")
    return header


def iter_headers(buffer: Buffer, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch from `start` on.

    A partial batch at the end is left out: a read that ends inside a batch is normal in Kafka.
    """
    end = len(buffer)
    position = start
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        following = position + header.length + _LENGTH_END
        if following > end:
            return
        yield position, header
        position = following


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is whole and its checksum right."""
    end = position + header.length + _LENGTH_END
    return end <= len(buffer) and crc32c(memoryview(buffer)[position + _CRC_START : end]) == header.crc


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes what the leader decides into the batch, in place. The CRC does not cover it."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + 12, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Makes every record of the batch read as `now_ms` without touching a record, in place.

    Kafka: DefaultRecordBatch.setMaxTimestamp. The fields lie behind the CRC, so it is computed again.
    """
    _MAX_TIMESTAMP.pack_into(buffer, position + 35, now_ms)
    changed = header._replace(attributes=header.attributes | APPEND_TIME_BIT, max_timestamp=now_ms)
    return seal(buffer, position, changed)


def stamp_max_timestamp(buffer: bytearray, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    """Says the greatest timestamp of the batch that starts the buffer, in place."""
    _MAX_TIMESTAMP.pack_into(buffer, 35, max_timestamp)
    return seal(buffer, 0, header._replace(max_timestamp=max_timestamp))


def with_payload(batch: bytearray, header: BatchHeader, codec: int, payload: bytes) -> bytearray:
    """The batch with its records in another form. Everything else about it stays, the producer's numbers included."""
    changed = batch[:HEADER_BYTES] + payload
    attributes = header.attributes & _MEANINGFUL_BITS | codec  # Kafka: DefaultRecordBatch.computeAttributes
    length = len(changed) - _LENGTH_END
    _LENGTH.pack_into(changed, 8, length)
    seal(changed, 0, header._replace(length=length, attributes=attributes))
    return changed


def stamp_producer(
    buffer: bytearray | memoryview, header: BatchHeader, *, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Makes the batch that starts the buffer one of an idempotent producer, in place, with the CRC that this needs."""
    _PRODUCER.pack_into(buffer, _PRODUCER_START, producer_id, producer_epoch, base_sequence)
    seal(buffer, 0, header)


def accept_produced(
    buffer: memoryview,
    *,
    max_bytes: int,
    api_version: int,
    append_time: bool = False,
) -> BatchHeader:
    """The header of the one batch that a producer sent for a partition, if that batch may be appended.

    A rest that is no whole batch may follow it, so the caller appends `size_bytes` and not the buffer.

    `append_time` describes the topic: a batch that claims to have such a time already is let through with its mark,
    for `inspection` to refuse. Checks come in Kafka's order (ProduceRequest.validateRecords,
    UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch), so that of two faults the same one is reported.
    Raises `ApiError`.
    """
    size = len(buffer)
    if size < HEADER_BYTES:
        raise _framing_error(buffer)
    fields = _HEADER.unpack_from(buffer)
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        _,
        base_sequence,
        record_count,
    ) = fields
    if length + _LENGTH_END != size or magic != MAGIC:
        size = _size_before_partial(buffer)
        buffer = buffer[:size]
    codec = attributes & CODEC_MASK
    if codec >= _ZSTD and (codec > _ZSTD or api_version < _ZSTD_SINCE_PRODUCE):
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} in Produce {api_version}")
    if base_offset != 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"a producer's base offset is 0, not {base_offset}")
    if size > max_bytes:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, {max_bytes} are allowed")
    if crc32c(buffer[_CRC_START:]) != crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum is wrong")
    if record_count <= 0 or last_offset_delta != record_count - 1:
        raise ApiError(ErrorCode.INVALID_RECORD, f"{record_count} records up to offset delta {last_offset_delta}")
    if attributes & CONTROL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "control records come from brokers only")
    if producer_id >= 0 and base_sequence < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"producer {producer_id} with base sequence {base_sequence}")
    header = _new_header(BatchHeader, fields)
    if attributes & APPEND_TIME_BIT and not append_time:
        # What a producer says of the clock is never the append time: Kafka clears the bit where it does not refuse it.
        header = seal(buffer, 0, header._replace(attributes=attributes & ~APPEND_TIME_BIT))
    return header


def seal(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> BatchHeader:
    """Writes the header's attributes and the CRC that now is right."""
    _CRC_ATTRIBUTES.pack_into(buffer, position + 17, 0, header.attributes)
    crc = crc32c(memoryview(buffer)[position + _CRC_START : position + header.length + _LENGTH_END])
    _CRC_ATTRIBUTES.pack_into(buffer, position + 17, crc, header.attributes)
    return header._replace(crc=crc)


def _size_before_partial(buffer: memoryview) -> int:
    """The size of a whole batch that is followed by less than another; Kafka drops such a rest without a word."""
    size = _framed_size(buffer)
    if size is None or size < HEADER_BYTES or buffer[16] != MAGIC or _framed_size(buffer[size:]) is not None:
        raise _framing_error(buffer)
    return size


def _framing_error(buffer: memoryview) -> ApiError:
    """Why these bytes are not exactly one batch of format v2 (Kafka: ByteBufferLogInputStream).

    Bytes that end before their batch does hold no batch at all to Kafka, which is INVALID_RECORD.
    """
    size = _framed_size(buffer)
    if size is None:
        return ApiError(ErrorCode.INVALID_RECORD, "not one whole record batch")
    if size < _MAGIC_END:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, "the bytes are no record batch")
    if buffer[16] != MAGIC:
        return ApiError(ErrorCode.INVALID_RECORD, "message formats before v2 are not accepted")
    if size < len(buffer) and (_framed_size(buffer[size:]) or 0) >= _MAGIC_END:
        return ApiError(ErrorCode.INVALID_RECORD, "more than one record batch for a partition")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch that claims {size} of {len(buffer)} bytes")


def _framed_size(buffer: memoryview) -> int | None:
    """The size of the message or batch that starts the buffer: None if it is cut short, 0 if it cannot be one."""
    if len(buffer) < _MAGIC_END:
        return None
    length, magic = _LENGTH_TO_MAGIC.unpack_from(buffer)
    if length < _LENGTH_MIN_ANY_MAGIC or not 0 <= magic <= MAGIC:
        return 0
    size: int = length + _LENGTH_END
    return size if size <= len(buffer) else None
