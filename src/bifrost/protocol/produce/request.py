"""The Produce request, read by brokers and written by clients.

A decoded request holds views of the receive buffer, never copies of records: with a writable buffer a batch is stamped
where it was received and written to disk from there. Nothing here judges a batch; `batch` does.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from bifrost.errors import ProtocolError
from bifrost.protocol.wire import (
    SHORT_BUFFER,
    ZERO_UUID,
    Buffer,
    array_length,
    compact_array_length,
    compact_string,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_nullable_string,
    read_string,
    read_uuid,
    read_uvarint,
    request_front,
    skip_tags,
    string,
    uvarint,
)

API_KEY: Final = 0
VERSIONS: Final = range(3, 14)
FLEXIBLE_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 13

_INT32 = struct.Struct(">i")
_INT16_INT32 = struct.Struct(">hi")
_TWO_INT32 = struct.Struct(">ii")


class PartitionProduceData(msgspec.Struct, gc=False):
    """What goes to one partition. `records` is a view of the receive buffer."""

    index: int
    records: memoryview | None


class TopicProduceData(msgspec.Struct, gc=False):
    """Versions up to 12 give the name, later ones the id; the other one is empty."""

    name: str
    topic_id: bytes
    partitions: list[PartitionProduceData]


class ProduceRequest(msgspec.Struct, gc=False):
    """One Produce request of any version."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicProduceData]


def decode_request(buffer: memoryview, position: int, version: int) -> ProduceRequest:
    """The request whose body starts at `position`; the buffer ends with the frame. Raises `ProtocolError` only."""
    try:
        if version >= FLEXIBLE_SINCE:
            return _decode_flexible_request(buffer, position, version)
        return _decode_legacy_request(buffer, position)
    except SHORT_BUFFER as error:
        raise ProtocolError(f"Produce {version}: {error}") from error


def _decode_legacy_request(buffer: memoryview, position: int) -> ProduceRequest:
    transactional_id, position = read_nullable_string(buffer, position)
    acks, timeout_ms = _INT16_INT32.unpack_from(buffer, position)
    topic_count, position = read_count(buffer, position + 6, 6)
    topics = []
    for _ in range(topic_count):
        name, position = read_string(buffer, position)
        partition_count, position = read_count(buffer, position, 8)
        partitions = []
        for _ in range(partition_count):
            index, size = _TWO_INT32.unpack_from(buffer, position)
            position += 8
            records = None
            if size >= 0:
                end = position + size
                if end > len(buffer):
                    raise ProtocolError("records run past the end of the frame")
                records = buffer[position:end]
                position = end
            partitions.append(PartitionProduceData(index, records))
        topics.append(TopicProduceData(name, ZERO_UUID, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_flexible_request(buffer: memoryview, position: int, version: int) -> ProduceRequest:
    transactional_id, position = read_compact_nullable_string(buffer, position)
    acks, timeout_ms = _INT16_INT32.unpack_from(buffer, position)
    topic_count, position = read_compact_count(buffer, position + 6, 3)
    topics = []
    for _ in range(topic_count):
        name, topic_id = "", ZERO_UUID
        if version >= TOPIC_IDS_SINCE:
            topic_id, position = read_uuid(buffer, position)
        else:
            name, position = read_compact_string(buffer, position)
        partition_count, position = read_compact_count(buffer, position, 6)
        partitions = []
        for _ in range(partition_count):
            (index,) = _INT32.unpack_from(buffer, position)
            size, position = read_uvarint(buffer, position + 4)
            records = None
            if size:
                end = position + size - 1
                if end > len(buffer):
                    raise ProtocolError("records run past the end of the frame")
                records = buffer[position:end]
                position = end
            # No client tags these structures yet, so the call is nearly always saved.
            position = skip_tags(buffer, position) if buffer[position] else position + 1
            partitions.append(PartitionProduceData(index, records))
        position = skip_tags(buffer, position) if buffer[position] else position + 1
        topics.append(TopicProduceData(name, topic_id, partitions))
    skip_tags(buffer, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_request(version: int, correlation_id: int, client_id: str | None, request: ProduceRequest) -> bytes:
    """A whole frame, its length and header included."""
    return b"".join(encode_request_pieces(version, correlation_id, client_id, request))


def encode_request_pieces(
    version: int, correlation_id: int, client_id: str | None, request: ProduceRequest
) -> list[Buffer]:
    """A whole frame in pieces, to be sent one after the other; records are among them as they were given."""
    flexible = version >= FLEXIBLE_SINCE
    text, length = (compact_string, compact_array_length) if flexible else (string, array_length)
    no_tags = b"\0" if flexible else b""
    pieces: list[Buffer] = []
    part = [
        text(request.transactional_id),
        _INT16_INT32.pack(request.acks, request.timeout_ms),
        length(len(request.topics)),
    ]
    for topic in request.topics:
        part.append(topic.topic_id if version >= TOPIC_IDS_SINCE else text(topic.name))
        part.append(length(len(topic.partitions)))
        for partition in topic.partitions:
            size = -1 if partition.records is None else len(partition.records)
            part.append(_INT32.pack(partition.index))
            part.append(uvarint(size + 1) if flexible else _INT32.pack(size))
            if partition.records is not None:
                pieces += (b"".join(part), partition.records)
                part = []
            part.append(no_tags)
        part.append(no_tags)
    part.append(no_tags)
    pieces.append(b"".join(part))
    front = request_front(API_KEY, version, correlation_id, client_id, sum(map(len, pieces)), flexible=flexible)
    return [front, *pieces]
