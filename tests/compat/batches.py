"""Record batches built by hand, right or wrong in any field, to send what no client would send.

An encoder of its own, kept apart from Bifrost's: two implementations that agree prove more than one used twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from tests.compat.clients.base import Record

HEADER = struct.Struct(">qiibIhiqqqhii")
_FIELDS = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
_CRC_START = 21


def varint(value: int) -> bytes:
    """Zig-zag, as records use it."""
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    headers = b"".join(_sized(name.encode()) + _sized(value) for name, value in record.headers)
    body = b"\x00" + varint(timestamp_delta) + varint(offset_delta)
    body += _sized(record.key) + _sized(record.value) + varint(len(record.headers)) + headers
    return varint(len(body)) + body


def encode(records: Sequence[Record], *, payload: bytes | None = None, crc: int | None = None, **changes: Any) -> bytes:
    """A batch whose header tells the truth, except for the fields in `changes`.

    `payload` replaces the encoded records; `crc` replaces the right one, which is computed after all changes.
    """
    times = [record.timestamp_ms or 0 for record in records] or [0]
    body = payload
    if body is None:
        body = b"".join(encode_record(r, index, times[index] - times[0]) for index, r in enumerate(records))
    fields: dict[str, int] = {
        "base_offset": 0,
        "length": HEADER.size - 12 + len(body),
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": len(records) - 1,
        "base_timestamp": times[0],
        "max_timestamp": max(times),
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": len(records),
        **changes,
    }
    batch = bytearray(HEADER.pack(*(fields[name] for name in _FIELDS)) + body)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[_CRC_START:])) if crc is None else crc)
    return bytes(batch)


def decode_header(batch: bytes) -> dict[str, int]:
    return dict(zip(_FIELDS, HEADER.unpack_from(batch)))


def headers_of(records: bytes) -> list[dict[str, int]]:
    """The headers of the whole batches in a fetched slice."""
    found, position = [], 0
    while position + HEADER.size <= len(records):
        header = decode_header(records[position:])
        position += header["length"] + 12
        if position <= len(records):
            found.append(header)
    return found
