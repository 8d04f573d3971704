"""The Fetch request, read by brokers and written by clients and followers."""

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
    read_string,
    read_tags,
    read_uuid,
    request_frame,
    skip_tags,
    string,
    tags,
)

API_KEY: Final = 1
VERSIONS: Final = range(4, 19)
LOG_START_OFFSET_SINCE: Final = 5
SESSIONS_SINCE: Final = 7
RACK_SINCE: Final = 11
FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13

UNKNOWN_HIGH_WATERMARK: Final = (1 << 63) - 1
"""What a follower that takes no part in KIP-1166 reports, by leaving the field out."""

_LEADER_EPOCH_SINCE = 9
_REPLICA_STATE_SINCE = 15
_DIRECTORY_SINCE = 17
_HIGH_WATERMARK_SINCE = 18

# Replica id up to version 14, then wait, sizes and isolation, then the session from version 7 on.
_LIMITS_V4 = struct.Struct(">iiiib")
_LIMITS_V7 = struct.Struct(">iiiibii")
_LIMITS_V15 = struct.Struct(">iiibii")
_REPLICA_STATE = struct.Struct(">iqx")
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqiB")  # with the count of its tagged fields, nearly always 0
_INT64 = struct.Struct(">q")


class FetchPartition(msgspec.Struct, gc=False):
    """What is asked of one partition."""

    index: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = UNKNOWN_HIGH_WATERMARK


class FetchTopic(msgspec.Struct, gc=False):
    """Versions up to 12 give the name, later ones the id; the other one is empty."""

    name: str
    topic_id: bytes
    partitions: list[FetchPartition]


class ForgottenTopic(msgspec.Struct, gc=False):
    """Partitions that leave a fetch session, named as in `FetchTopic`."""

    name: str
    topic_id: bytes
    partitions: list[int]


class FetchRequest(msgspec.Struct, gc=False):
    """One Fetch request of any version. A consumer has replica id -1."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: list[FetchTopic]
    forgotten_topics: list[ForgottenTopic] = []
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    rack_id: str = ""
    replica_id: int = -1
    replica_epoch: int = -1
    cluster_id: str | None = None


def decode_request(buffer: Buffer, position: int, version: int) -> FetchRequest:
    """The request whose body starts at `position`; the buffer ends with the frame. Raises `ProtocolError` only."""
    try:
        if version >= FLEXIBLE_SINCE:
            return _decode_flexible_request(buffer, position, version)
        return _decode_legacy_request(buffer, position, version)
    except SHORT_BUFFER as error:
        raise ProtocolError(f"Fetch {version}: {error}") from error


def _decode_legacy_request(buffer: Buffer, position: int, version: int) -> FetchRequest:
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_SINCE:
        limits = _LIMITS_V7.unpack_from(buffer, position)
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = limits
        position += _LIMITS_V7.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS_V4.unpack_from(buffer, position)
        position += _LIMITS_V4.size
    request = FetchRequest(
        max_wait_ms, min_bytes, max_bytes, [], [], isolation_level, session_id, session_epoch, "", replica_id
    )
    topic_count, position = read_count(buffer, position, 6)
    for _ in range(topic_count):
        name, position = read_string(buffer, position)
        partitions, position = _decode_legacy_partitions(buffer, position, version)
        request.topics.append(FetchTopic(name, ZERO_UUID, partitions))
    if version >= SESSIONS_SINCE:
        topic_count, position = read_count(buffer, position, 6)
        for _ in range(topic_count):
            name, position = read_string(buffer, position)
            count, position = read_count(buffer, position, 4)
            indexes = list(struct.unpack_from(f">{count}i", buffer, position))
            position += 4 * count
            request.forgotten_topics.append(ForgottenTopic(name, ZERO_UUID, indexes))
    if version >= RACK_SINCE:
        request.rack_id, position = read_string(buffer, position)
    return request


def _decode_legacy_partitions(buffer: Buffer, position: int, version: int) -> tuple[list[FetchPartition], int]:
    if version >= _LEADER_EPOCH_SINCE:
        layout = _PARTITION_V9
    elif version >= LOG_START_OFFSET_SINCE:
        layout = _PARTITION_V5
    else:
        layout = _PARTITION_V4
    count, position = read_count(buffer, position, layout.size)
    end = position + count * layout.size
    block = layout.iter_unpack(buffer[position:end])
    if version >= _LEADER_EPOCH_SINCE:
        return [
            FetchPartition(index, epoch, offset, -1, start, size) for index, epoch, offset, start, size in block
        ], end
    if version >= LOG_START_OFFSET_SINCE:
        return [FetchPartition(index, -1, offset, -1, start, size) for index, offset, start, size in block], end
    return [FetchPartition(index, -1, offset, -1, -1, size) for index, offset, size in block], end


def _decode_flexible_request(buffer: Buffer, position: int, version: int) -> FetchRequest:
    replica_id = -1
    if version >= _REPLICA_STATE_SINCE:
        limits = _LIMITS_V15.unpack_from(buffer, position)
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = limits
        position += _LIMITS_V15.size
    else:
        limits = _LIMITS_V7.unpack_from(buffer, position)
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = limits
        position += _LIMITS_V7.size
    request = FetchRequest(
        max_wait_ms, min_bytes, max_bytes, [], [], isolation_level, session_id, session_epoch, "", replica_id
    )
    topic_count, position = read_compact_count(buffer, position, 3)
    for _ in range(topic_count):
        name, topic_id, position = _decode_topic(buffer, position, version)
        partitions, position = _decode_flexible_partitions(buffer, position, version)
        position = skip_tags(buffer, position)
        request.topics.append(FetchTopic(name, topic_id, partitions))
    topic_count, position = read_compact_count(buffer, position, 3)
    for _ in range(topic_count):
        name, topic_id, position = _decode_topic(buffer, position, version)
        count, position = read_compact_count(buffer, position, 4)
        indexes = list(struct.unpack_from(f">{count}i", buffer, position))
        position = skip_tags(buffer, position + 4 * count)
        request.forgotten_topics.append(ForgottenTopic(name, topic_id, indexes))
    request.rack_id, position = read_compact_string(buffer, position)
    if buffer[position]:
        fields, position = read_tags(buffer, position)
        if 0 in fields:
            request.cluster_id, _ = read_compact_nullable_string(fields[0], 0)
        if 1 in fields and version >= _REPLICA_STATE_SINCE:
            request.replica_id, request.replica_epoch = _REPLICA_STATE.unpack_from(fields[1])
    return request


def _decode_topic(buffer: Buffer, position: int, version: int) -> tuple[str, bytes, int]:
    if version >= TOPIC_IDS_SINCE:
        topic_id, position = read_uuid(buffer, position)
        return "", topic_id, position
    name, position = read_compact_string(buffer, position)
    return name, ZERO_UUID, position


def _decode_flexible_partitions(buffer: Buffer, position: int, version: int) -> tuple[list[FetchPartition], int]:
    size = _PARTITION_V12.size
    count, position = read_compact_count(buffer, position, size)
    partitions = []
    # Partitions without tagged fields, all those of consumers, lie evenly spaced.
    block = _PARTITION_V12.iter_unpack(buffer[position : position + count * size])
    for index, epoch, offset, last_epoch, start, max_bytes, tag_count in block:
        if tag_count:
            break
        partitions.append(FetchPartition(index, epoch, offset, last_epoch, start, max_bytes))
    position += len(partitions) * size
    for _ in range(count - len(partitions)):
        *numbers, _ = _PARTITION_V12.unpack_from(buffer, position)
        partition = FetchPartition(*numbers)
        fields, position = read_tags(buffer, position + size - 1)
        if 0 in fields and version >= _DIRECTORY_SINCE:
            partition.replica_directory_id, _ = read_uuid(fields[0], 0)
        if 1 in fields and version >= _HIGH_WATERMARK_SINCE:
            (partition.high_watermark,) = _INT64.unpack_from(fields[1])
        partitions.append(partition)
    return partitions, position


def encode_request(version: int, correlation_id: int, client_id: str | None, request: FetchRequest) -> bytes:
    """A whole frame, its length and header included."""
    flexible = version >= FLEXIBLE_SINCE
    text, length = (compact_string, compact_array_length) if flexible else (string, array_length)
    no_tags = b"\0" if flexible else b""
    by_id = version >= TOPIC_IDS_SINCE
    body: list[Buffer] = [_encode_limits(version, request), length(len(request.topics))]
    for topic in request.topics:
        body += (topic.topic_id if by_id else text(topic.name), length(len(topic.partitions)))
        body += [_encode_partition(version, partition) for partition in topic.partitions]
        body.append(no_tags)
    if version >= SESSIONS_SINCE:
        body.append(length(len(request.forgotten_topics)))
        for forgotten in request.forgotten_topics:
            count = len(forgotten.partitions)
            body += (forgotten.topic_id if by_id else text(forgotten.name), length(count))
            body += (struct.pack(f">{count}i", *forgotten.partitions), no_tags)
    if version >= RACK_SINCE:
        body.append(text(request.rack_id))
    if flexible:
        fields = []
        if request.cluster_id is not None:
            fields.append((0, compact_string(request.cluster_id)))
        if version >= _REPLICA_STATE_SINCE and (request.replica_id, request.replica_epoch) != (-1, -1):
            fields.append((1, _REPLICA_STATE.pack(request.replica_id, request.replica_epoch)))
        body.append(tags(fields))
    return request_frame(API_KEY, version, correlation_id, client_id, body, flexible=flexible)


def _encode_limits(version: int, request: FetchRequest) -> bytes:
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= _REPLICA_STATE_SINCE:
        return _LIMITS_V15.pack(*limits, request.session_id, request.session_epoch)
    if version >= SESSIONS_SINCE:
        return _LIMITS_V7.pack(request.replica_id, *limits, request.session_id, request.session_epoch)
    return _LIMITS_V4.pack(request.replica_id, *limits)


def _encode_partition(version: int, partition: FetchPartition) -> bytes:
    index, offset, start = partition.index, partition.fetch_offset, partition.log_start_offset
    epoch, size = partition.current_leader_epoch, partition.partition_max_bytes
    if version < LOG_START_OFFSET_SINCE:
        return _PARTITION_V4.pack(index, offset, size)
    if version < _LEADER_EPOCH_SINCE:
        return _PARTITION_V5.pack(index, offset, start, size)
    if version < FLEXIBLE_SINCE:
        return _PARTITION_V9.pack(index, epoch, offset, start, size)
    fields = []
    if version >= _DIRECTORY_SINCE and partition.replica_directory_id != ZERO_UUID:
        fields.append((0, partition.replica_directory_id))
    if version >= _HIGH_WATERMARK_SINCE and partition.high_watermark != UNKNOWN_HIGH_WATERMARK:
        fields.append((1, _INT64.pack(partition.high_watermark)))
    numbers = _PARTITION_V12.pack(index, epoch, offset, partition.last_fetched_epoch, start, size, 0)
    return numbers if not fields else numbers[:-1] + tags(fields)
