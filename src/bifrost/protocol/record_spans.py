"""Where the records of a batch lie, and batches with some of them taken out: what compaction does to a batch.

A record that stays is copied byte for byte: offset and timestamp are told relative to the batch, whose base offset
never changes. Only a batch that is given a delete horizon (KIP-534) has its timestamps written anew, because the
horizon takes the place of the base timestamp. Kafka: MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader.

Pure, and the hot path must never come here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

from crc32c import crc32c

from bifrost.protocol.batch import (
    APPEND_TIME_BIT,
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatchError,
)
from bifrost.protocol.compression import Codec, compress, decompress
from bifrost.protocol.wire import Buffer

DELETE_HORIZON_BIT: Final = 0x40
"""Of a batch's attributes: its base timestamp is the time from which on its tombstones may go (KIP-534)."""

_NO_TIMESTAMP: Final = -1
_VARINT_BYTES_MAX: Final = 10
_INT64_END: Final = 1 << 63

_BEFORE_CRC = struct.Struct(">qiib")
_AFTER_CRC = struct.Struct(">hiqqqhii")


Found: TypeAlias = tuple[int, int, int, int, bytes | None, bool]
"""One record: where its bytes start and end, the length in front among them, and what decides its fate: timestamp
delta, offset delta, key, and whether it is a tombstone."""


def records_of(batch: Buffer, header: BatchHeader, limit_bytes: int) -> bytes:
    """The batch's records without their compression. The caller has checked the CRC."""
    if header.codec > Codec.ZSTD:
        raise CorruptBatchError(f"unknown codec {header.codec}")
    payload = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    return bytes(decompress(Codec(header.codec), payload, limit_bytes) if header.codec else payload)


def find_records(data: bytes, count: int, last_offset_delta: int) -> Iterator[Found]:
    """Every record in `data`, which holds nothing else; `CorruptBatchError` if it does not hold `count` of them, or
    their offsets do not rise up to the last that the batch may have.

    One at a time: a batch may hold millions, and all of them together would take many times what their bytes do.
    Compaction comes here twice for every record there is, so numbers of one or two bytes, as nearly all are, are read
    in place.
    """
    position, size, previous = 0, len(data), -1
    try:
        for _ in range(count):
            start = position
            byte = data[position]
            if byte < 0x80:
                end = position + 1 + (byte >> 1)
                position += 2  # the attributes, too
            elif data[position + 1] < 0x80:
                end = position + 2 + ((byte & 0x7F | data[position + 1] << 7) >> 1)
                position += 3
            else:
                length, position = _read(data, position)
                end = position + length
                position += 1
            byte = data[position]
            if byte < 0x80:
                timestamp_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            elif data[position + 1] < 0x80:
                coded = byte & 0x7F | data[position + 1] << 7
                timestamp_delta = (coded >> 1) ^ -(coded & 1)
                position += 2
            else:
                timestamp_delta, position = _read(data, position)
            byte = data[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            elif data[position + 1] < 0x80:
                coded = byte & 0x7F | data[position + 1] << 7
                offset_delta = (coded >> 1) ^ -(coded & 1)
                position += 2
            else:
                offset_delta, position = _read(data, position)
            byte = data[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                length, position = _read(data, position)
            key = None
            if length >= 0:
                key = data[position : position + length]
                position += length
            # The length of the value is all that matters of it: odd, and so negative, is null.
            is_tombstone = data[position] & 1 == 1
            if not start < position < end <= size:
                raise CorruptBatchError("a record is longer than it says")
            if not previous < offset_delta <= last_offset_delta:
                raise CorruptBatchError(f"offset delta {offset_delta} after {previous}, up to {last_offset_delta}")
            yield start, end, timestamp_delta, offset_delta, key, is_tombstone
            position, previous = end, offset_delta
    except IndexError as error:
        raise CorruptBatchError("a record is cut short") from error
    if position != size:
        raise CorruptBatchError(f"{size - position} stray bytes after {count} records")


def has_delete_horizon(header: BatchHeader) -> bool:
    return header.attributes & DELETE_HORIZON_BIT != 0


def rewrite(
    header: BatchHeader, body: bytes | bytearray, *, count: int, newest_delta: int, delete_horizon_ms: int | None
) -> bytes:
    """The batch with only the records that `body` consists of, the youngest of which has that timestamp delta; in its
    own codec, and from now on with a delete horizon, if one is given. `CorruptBatchError` if a time cannot be told.

    The last offset stays, even if its record is gone: with the base sequence it tells the last sequence.
    """
    attributes, base_timestamp, max_timestamp = header.attributes, header.base_timestamp, header.max_timestamp
    if not header.is_append_time:
        max_timestamp = _fits(base_timestamp + newest_delta)
    if delete_horizon_ms is not None:
        body = _restamped(bytes(body), header._replace(record_count=count), base_timestamp - delete_horizon_ms)
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = delete_horizon_ms
    return _batch(
        header,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=count,
        body=compress(Codec(header.codec), body),
    )


def empty(header: BatchHeader) -> bytes:
    """The batch without any record: it goes on telling its offsets, and what its producer wrote last."""
    kept_bits = APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
    return _batch(
        header,
        attributes=header.attributes & kept_bits,
        base_timestamp=_NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        count=0,
        body=b"",
    )


def _batch(
    header: BatchHeader, *, attributes: int, base_timestamp: int, max_timestamp: int, count: int, body: bytes
) -> bytes:
    covered = (
        _AFTER_CRC.pack(
            attributes,
            header.last_offset_delta,
            base_timestamp,
            max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
        + body
    )
    front = _BEFORE_CRC.pack(header.base_offset, len(covered) + 9, header.leader_epoch, MAGIC)
    return front + crc32c(covered).to_bytes(4, "big") + covered


def _restamped(data: bytes, header: BatchHeader, shift: int) -> bytearray:
    """The records with other timestamp deltas."""
    changed = bytearray()
    for start, end, timestamp_delta, *_ in find_records(data, header.record_count, header.last_offset_delta):
        _, body = _read(data, start)
        _, rest = _read(data, body + 1)
        delta = _varint(_fits(timestamp_delta + shift))
        changed += _varint(1 + len(delta) + end - rest)
        changed.append(data[body])
        changed += delta
        changed += data[rest:end]
    return changed


def _fits(time: int) -> int:
    """The time, or how far it is from another, if 64 bits hold it."""
    if not -_INT64_END <= time < _INT64_END:
        raise CorruptBatchError(f"a time of {time} ms")
    return time


def _read(data: bytes, position: int) -> tuple[int, int]:
    """A zig-zag varint, and the position behind it."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >= 2 * _INT64_END:
                break
            return (value >> 1) ^ -(value & 1), position + index + 1
    raise CorruptBatchError("a varint of more than 64 bits")


def _varint(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
