"""Bytes of the few Kafka requests that the benchmark sends, built by hand and ahead of time.

Written with `struct` alone, so that the client measures a broker and not a codec. One fixed version per API, each one
that Kafka 4.x and Bifrost both advertise; all are flexible (KIP-482). Answers have a known layout as long as nothing
goes wrong, which lets the client find the error code at a fixed place and count instead of decode.

Never used by the package: this file must stay independent of the codecs whose speed it helps to measure.
"""

from __future__ import annotations

import struct
import time

import crc32c

PRODUCE, FETCH, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 18, 19, 20
PRODUCE_VERSION, FETCH_VERSION, API_VERSIONS_VERSION, CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 10, 12, 3, 7, 5

CLIENT_ID = b"bench"
BATCH_HEADER_BYTES = 61
LENGTH_BYTES = 4

_NO_TAGS = b"\0"
_NULL = b"\0"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """(value, position after it)."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: str) -> bytes:
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def array(items: list[bytes]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 0) -> bytes:
    head = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID + _NO_TAGS
    return struct.pack(">i", len(head) + len(body)) + head + body


def record_batch(value_bytes: int, count: int) -> bytes:
    """A batch of `count` records that are alike."""
    return batch_of(bytes(i * 131 & 0xFF for i in range(value_bytes)), count)


def batch_of(value: bytes, count: int = 1) -> bytes:
    """One uncompressed v2 batch of `count` records without key, as a producer without idempotence sends it."""
    tail = zigzag(-1) + zigzag(len(value)) + value + zigzag(0)
    records = bytearray()
    for delta in range(count):
        body = b"\0\0" + zigzag(delta) + tail
        records += zigzag(len(body)) + body
    now_ms = time.time_ns() // 1_000_000
    checked = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def produce(topic: str, batches: list[tuple[int, bytes]], *, acks: int, timeout_ms: int = 30_000) -> bytes:
    """A Produce request with one batch for each (partition, batch)."""
    partitions = [
        b"".join((struct.pack(">i", partition), varint(len(batch) + 1), batch, _NO_TAGS))
        for partition, batch in batches
    ]
    data = array([text(topic) + array(partitions) + _NO_TAGS])
    return frame(PRODUCE, PRODUCE_VERSION, _NULL + struct.pack(">hi", acks, timeout_ms) + data + _NO_TAGS)


# base_offset, log_append_time_ms, log_start_offset; then no record errors, no message, no tags
_PRODUCED_OK = struct.pack(">qqq", 0, -1, 0) + varint(1) + _NULL + _NO_TAGS

PRODUCED_PARTITION_BYTES = 4 + 2 + len(_PRODUCED_OK)


def produce_answer(topic: str, partitions: list[int]) -> bytes:
    """The frame a broker sends when all went well; only offsets and times differ from what it will send."""
    parts = [struct.pack(">ih", partition, 0) + _PRODUCED_OK for partition in partitions]
    body = array([text(topic) + array(parts) + _NO_TAGS]) + struct.pack(">i", 0) + _NO_TAGS
    payload = struct.pack(">i", 0) + _NO_TAGS + body
    return struct.pack(">i", len(payload)) + payload


def produce_error_position(topic: str) -> int:
    """Where the first partition's error code is in an answer whose arrays have fewer than 127 entries."""
    return LENGTH_BYTES + 4 + 1 + 1 + len(text(topic)) + 1 + 4


def fetch(
    topic: str, offsets: list[tuple[int, int]], *, partition_max_bytes: int, max_wait_ms: int = 500, min_bytes: int = 1
) -> bytes:
    """A sessionless Fetch request for each (partition, offset)."""
    partitions = [
        struct.pack(">iiqiqi", partition, -1, offset, -1, -1, partition_max_bytes) + _NO_TAGS
        for partition, offset in offsets
    ]
    head = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, partition_max_bytes * len(offsets), 0, 0, -1)
    topics = array([text(topic) + array(partitions) + _NO_TAGS])
    return frame(FETCH, FETCH_VERSION, head + topics + array([]) + text("") + _NO_TAGS)


def fetch_prefix_bytes(topic: str) -> int:
    """Bytes of a one-partition Fetch answer up to, not including, the length of its records."""
    return LENGTH_BYTES + 5 + 4 + 2 + 4 + 1 + len(text(topic)) + 1 + 4 + 2 + 8 * 3 + 1 + 4


def fetch_error_position(topic: str) -> int:
    return fetch_prefix_bytes(topic) - 4 - 1 - 24 - 2


FETCH_TRAILER_BYTES = 3  # the tag buffers of the partition, the topic and the answer


def fetch_answer(topic: str, records: bytes) -> bytes:
    """What a broker answers for one partition; the null sink serves it."""
    partition = struct.pack(">ihqqq", 0, 0, 1 << 40, 1 << 40, 0) + _NULL + struct.pack(">i", -1)
    partition += varint(len(records) + 1) + records + _NO_TAGS
    payload = struct.pack(">i", 0) + _NO_TAGS + struct.pack(">ihi", 0, 0, 0)
    payload += array([text(topic) + array([partition]) + _NO_TAGS]) + _NO_TAGS
    return struct.pack(">i", len(payload)) + payload


def api_versions() -> bytes:
    return frame(API_VERSIONS, API_VERSIONS_VERSION, text("bench") + text("1") + _NO_TAGS)


def create_topics(topics: list[str], partitions: int, replicas: int, configs: dict[str, str]) -> bytes:
    """Topics that are alike, in one request."""
    settings = array([text(name) + text(value) + _NO_TAGS for name, value in configs.items()])
    rest = struct.pack(">ih", partitions, replicas) + array([]) + settings + _NO_TAGS
    entries = array([text(topic) + rest for topic in topics])
    return frame(CREATE_TOPICS, CREATE_TOPICS_VERSION, entries + struct.pack(">ib", 30_000, 0) + _NO_TAGS)


def delete_topics(topics: list[str]) -> bytes:
    names = array([text(topic) for topic in topics])
    return frame(DELETE_TOPICS, DELETE_TOPICS_VERSION, names + struct.pack(">i", 30_000) + _NO_TAGS)
