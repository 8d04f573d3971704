"""The records inside a batch: the plain, thorough codec for everything that is not the hot path.

Tools, the metadata log, internal topics and tests come here. Broker, replication and the log's append and read
files must never import this module: they handle batches, and one record at a time is a thousand times slower.

A record is: its length, a byte of attributes (unused), timestamp delta, offset delta, key, value, headers. All
numbers are zig-zag varints, unlike the unsigned ones of flexible messages; a length of -1 is null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from bifrost.protocol.batch import (
    APPEND_TIME_BIT,
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatchError,
    check_crc,
    read_header,
)
from bifrost.protocol.compression import Codec, compress, decompress
from bifrost.protocol.wire import Buffer

RecordHeader: TypeAlias = tuple[str, bytes | None]

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""What one batch may grow to unless the caller says otherwise; far above any sane `max.message.bytes`."""

_RECORD_BYTES_MIN: Final = 7  # six varints and the attributes, a byte each
_SCALAR_BYTES_MAX: Final = 10  # a varint that holds 64 bits

_BEFORE_CRC = struct.Struct(">qiib")
_AFTER_CRC = struct.Struct(">hiqqqhii")


class Record(NamedTuple):
    """One record, read from a log or a fetch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[RecordHeader] = ()


NewRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[RecordHeader]]
"""Timestamp, key, value and headers of a record that has no offset yet."""


def encode_batch(
    records: Iterable[NewRecord | Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    timestamp_type: int = 0,
    control: bool = False,
    transactional: bool = False,
) -> bytearray:
    """One batch of at least one record.

    New records take consecutive offsets from `base_offset`; a `Record` keeps its own, so gaps survive.
    """
    body = bytearray()
    base_timestamp = max_timestamp = delta = count = 0
    for record in records:
        if isinstance(record, Record):
            offset, timestamp, key, value, headers = record
            delta = offset - base_offset
        else:
            timestamp, key, value, headers = record
            delta = count
        if not count:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        count += 1
        body += _encode_record(timestamp - base_timestamp, delta, key, value, headers)
    assert count, "a batch has at least one record"
    attributes = int(codec)
    attributes |= APPEND_TIME_BIT if timestamp_type else 0
    attributes |= TRANSACTIONAL_BIT if transactional else 0
    attributes |= CONTROL_BIT if control else 0
    covered = _AFTER_CRC.pack(
        attributes, delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count
    ) + compress(codec, body)
    batch = bytearray(_BEFORE_CRC.pack(base_offset, len(covered) + 9, leader_epoch, MAGIC))
    batch += crc32c(covered).to_bytes(4, "big")
    batch += covered
    return batch


def decode_batch(buffer: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Every record of the batch that starts the buffer, or `CorruptBatchError`."""
    header = read_header(buffer)
    if not check_crc(buffer, 0, header):
        raise CorruptBatchError("the batch is cut short or its checksum is wrong")
    append_time = header.max_timestamp if header.is_append_time else None
    records = []
    for timestamp_delta, offset_delta, body, key_position in _iter_records(buffer, header, limit_bytes):
        try:
            key, position = _read_bytes(body, key_position)
            value, position = _read_bytes(body, position)
            headers, position = _read_headers(body, position)
        except IndexError as error:
            raise CorruptBatchError(f"a record is malformed: {error}") from error
        if position != len(body):
            raise CorruptBatchError(f"{len(body) - position} stray bytes in a record")
        timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
        records.append(Record(header.base_offset + offset_delta, timestamp, key, value, headers))
    return records


def keys_and_values(
    buffer: Buffer, header: BatchHeader, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of every record, in a quarter of the time: for logs of millions of records that somebody loads.

    The caller has checked the CRC. Timestamps, offsets and headers are stepped over.
    """
    if header.codec > Codec.ZSTD:
        raise CorruptBatchError(f"unknown codec {header.codec}")
    payload = memoryview(buffer)[HEADER_BYTES : header.size_bytes]
    data = bytes(decompress(Codec(header.codec), payload, limit_bytes) if header.codec else payload)
    found: list[tuple[bytes | None, bytes | None]] = []
    position = 0
    try:
        for _ in range(header.record_count):
            coded, position = (data[position], position + 1) if data[position] < 0x80 else _read_coded(data, position)
            end = position + (coded >> 1)
            position += 1  # attributes
            while data[position] >= 0x80:  # timestamp delta
                position += 1
            position += 1
            while data[position] >= 0x80:  # offset delta
                position += 1
            position += 1
            key = value = None
            coded, position = (data[position], position + 1) if data[position] < 0x80 else _read_coded(data, position)
            if not coded & 1:
                start, position = position, position + (coded >> 1)
                key = data[start:position]
            coded, position = (data[position], position + 1) if data[position] < 0x80 else _read_coded(data, position)
            if not coded & 1:
                start, position = position, position + (coded >> 1)
                value = data[start:position]
            if not position < end <= len(data):
                raise CorruptBatchError("a record is longer than it says")
            position = end
            found.append((key, value))
    except IndexError as error:
        raise CorruptBatchError("a record is cut short") from error
    return found


def _read_coded(buffer: bytes, position: int) -> tuple[int, int]:
    """A varint before its sign is moved to where Python has it: twice the number, or an odd one if it is negative."""
    value, position = _read_varint(buffer, position)
    return (value << 1 if value >= 0 else -(value << 1) - 1), position


def _iter_records(buffer: Buffer, header: BatchHeader, limit_bytes: int) -> Iterator[tuple[int, int, memoryview, int]]:
    """Timestamp delta, offset delta, the record's bytes and the position of its key in them, for each record."""
    if header.codec > Codec.ZSTD:
        raise CorruptBatchError(f"unknown codec {header.codec}")
    payload = memoryview(buffer)[HEADER_BYTES : header.size_bytes]
    data = memoryview(decompress(Codec(header.codec), payload, limit_bytes))
    if not 0 <= header.record_count <= len(data) // _RECORD_BYTES_MIN:
        raise CorruptBatchError(f"{header.record_count} records in {len(data)} bytes")
    position = 0
    for _ in range(header.record_count):
        try:
            length, position = _read_varint(data, position)
            if not 0 <= length <= len(data) - position:
                raise CorruptBatchError(f"a record of {length} bytes in {len(data) - position}")
            record = data[position : position + length]
            timestamp_delta, key_position = _read_varint(record, 1)
            offset_delta, key_position = _read_varint(record, key_position)
        except IndexError as error:
            raise CorruptBatchError("a record is cut short") from error
        yield timestamp_delta, offset_delta, record, key_position
        position += length
    if position != len(data):
        raise CorruptBatchError(f"{len(data) - position} stray bytes after {header.record_count} records")


def _read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A zig-zag varint of up to 64 bits."""
    value = 0
    for index in range(_SCALAR_BYTES_MAX):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + index + 1
    raise CorruptBatchError("a varint of more than ten bytes")


def _read_bytes(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(buffer, position)
    if length < 0:
        return None, position
    if length > len(buffer) - position:
        raise CorruptBatchError(f"a field of {length} bytes in {len(buffer) - position}")
    return bytes(buffer[position : position + length]), position + length


def _read_headers(buffer: Buffer, position: int) -> tuple[tuple[RecordHeader, ...], int]:
    count, position = _read_varint(buffer, position)
    if not 0 <= count <= len(buffer) - position:
        raise CorruptBatchError(f"{count} record headers in {len(buffer) - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(buffer, position)
        value, position = _read_bytes(buffer, position)
        if name is None:
            raise CorruptBatchError("a record header without a name")
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position


def _encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader]
) -> bytes:
    parts = [
        _NO_ATTRIBUTES,
        _varint(timestamp_delta),
        _varint(offset_delta),
        *((_NULL,) if key is None else (_varint(len(key)), key)),
        *((_NULL,) if value is None else (_varint(len(value)), value)),
        _varint(len(headers)),
    ]
    for name, content in headers:
        encoded = name.encode()
        parts += (_varint(len(encoded)), encoded)
        parts += (_NULL,) if content is None else (_varint(len(content)), content)
    record = b"".join(parts)
    return _varint(len(record)) + record


_NO_ATTRIBUTES: Final = b"\x00"
_NULL: Final = b"\x01"  # the length -1
_SHORT = [bytes([number]) for number in range(0x80)]


def _varint(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    if value < 0x80:
        return _SHORT[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
