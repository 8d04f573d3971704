"""The Produce response, written by brokers and read by clients."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol.leader_hints import (
    NodeEndpoint,
    decode_endpoints,
    decode_leader,
    encode_endpoints,
    encode_leader,
)
from bifrost.protocol.produce.request import FLEXIBLE_SINCE, TOPIC_IDS_SINCE
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
    read_tags,
    read_uuid,
    skip_tags,
    string,
    tags,
)

_LOG_START_OFFSET_SINCE = 5
_ERROR_DETAILS_SINCE = 8
_LEADER_HINTS_SINCE = 10

# The answer to one batch, the most common one by far, is a topic between two structs. In front of it: frame length,
# correlation id, no header tags (a zero byte) if flexible, one topic.
_FRONT_LEGACY = struct.Struct(">iii")
_FRONT_FLEXIBLE = struct.Struct(">iixB")
# Behind it: one partition, its result, no record errors and no message where there are such, throttle time, no tags.
_BACK_V3 = struct.Struct(">iihqqi")
_BACK_V5 = struct.Struct(">iihqqqi")
_BACK_V8 = struct.Struct(">iihqqq4xhi")
_BACK_FLEXIBLE = struct.Struct(">BihqqqBxxxix")

_RESULT = struct.Struct(">ihqq")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class PartitionProduceResult(msgspec.Struct, gc=False):
    """How the append to one partition went. A record error is the record's index in the batch and a message."""

    index: int
    error_code: int = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    current_leader: tuple[int, int] | None = None


class TopicProduceResult(msgspec.Struct, gc=False):
    """The results of one topic, named as in the request."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionProduceResult]


class ProduceResponse(msgspec.Struct, gc=False):
    """One Produce response of any version."""

    topics: list[TopicProduceResult]
    throttle_time_ms: int
    node_endpoints: list[NodeEndpoint]


def encode_response(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicProduceResult],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """A whole frame, its length and header included."""
    if len(topics) == 1 and not node_endpoints:
        topic = topics[0]
        if len(topic.partitions) == 1:
            result = topic.partitions[0]
            if result.error_message is None and result.current_leader is None and not result.record_errors:
                return _encode_one_result(version, correlation_id, topic, result, throttle_time_ms)
    flexible = version >= FLEXIBLE_SINCE
    encoded = [_INT32.pack(correlation_id), b"\0" if flexible else b""]
    _encode_results(encoded, version, topics)
    encoded.append(_INT32.pack(throttle_time_ms))
    if flexible:
        hints = node_endpoints and version >= _LEADER_HINTS_SINCE
        encoded.append(tags([(0, encode_endpoints(node_endpoints))]) if hints else b"\0")
    frame = b"".join(encoded)
    return _INT32.pack(len(frame)) + frame


def _encode_one_result(
    version: int, correlation_id: int, topic: TopicProduceResult, result: PartitionProduceResult, throttle_time_ms: int
) -> bytes:
    """The answer to a single batch that has nothing but numbers in it."""
    index, error_code, base_offset, append_time = (
        result.index,
        result.error_code,
        result.base_offset,
        result.log_append_time_ms,
    )
    if version >= FLEXIBLE_SINCE:
        named = topic.topic_id if version >= TOPIC_IDS_SINCE else compact_string(topic.name)
        back = _BACK_FLEXIBLE.pack(
            2, index, error_code, base_offset, append_time, result.log_start_offset, 1, throttle_time_ms
        )
        return _FRONT_FLEXIBLE.pack(6 + len(named) + len(back), correlation_id, 2) + named + back
    if version >= _ERROR_DETAILS_SINCE:
        back = _BACK_V8.pack(
            1, index, error_code, base_offset, append_time, result.log_start_offset, -1, throttle_time_ms
        )
    elif version >= _LOG_START_OFFSET_SINCE:
        back = _BACK_V5.pack(1, index, error_code, base_offset, append_time, result.log_start_offset, throttle_time_ms)
    else:
        back = _BACK_V3.pack(1, index, error_code, base_offset, append_time, throttle_time_ms)
    named = string(topic.name)
    return _FRONT_LEGACY.pack(8 + len(named) + len(back), correlation_id, 1) + named + back


def _encode_results(encoded: list[bytes], version: int, topics: Sequence[TopicProduceResult]) -> None:
    flexible = version >= FLEXIBLE_SINCE
    text, length = (compact_string, compact_array_length) if flexible else (string, array_length)
    no_tags = b"\0" if flexible else b""
    encoded.append(length(len(topics)))
    for topic in topics:
        encoded.append(topic.topic_id if version >= TOPIC_IDS_SINCE else text(topic.name))
        encoded.append(length(len(topic.partitions)))
        for result in topic.partitions:
            encoded.append(_RESULT.pack(result.index, result.error_code, result.base_offset, result.log_append_time_ms))
            if version >= _LOG_START_OFFSET_SINCE:
                encoded.append(_INT64.pack(result.log_start_offset))
            if version >= _ERROR_DETAILS_SINCE:
                encoded.append(length(len(result.record_errors)))
                for index, message in result.record_errors:
                    encoded += (_INT32.pack(index), text(message), no_tags)
                encoded.append(text(result.error_message))
            if result.current_leader is not None and version >= _LEADER_HINTS_SINCE:
                encoded.append(tags([(0, encode_leader(result.current_leader))]))
            else:
                encoded.append(no_tags)
        encoded.append(no_tags)


def decode_response(buffer: Buffer, position: int, version: int) -> ProduceResponse:
    """The response whose body starts at `position`; the buffer ends with the frame. Raises `ProtocolError` only."""
    try:
        return _decode_response(buffer, position, version)
    except SHORT_BUFFER as error:
        raise ProtocolError(f"Produce {version} response: {error}") from error


def _decode_response(buffer: Buffer, position: int, version: int) -> ProduceResponse:
    flexible = version >= FLEXIBLE_SINCE
    length = read_compact_count if flexible else read_count
    topics = []
    topic_count, position = length(buffer, position, 3)
    for _ in range(topic_count):
        name, topic_id = "", ZERO_UUID
        if version >= TOPIC_IDS_SINCE:
            topic_id, position = read_uuid(buffer, position)
        else:
            name, position = (read_compact_string if flexible else read_string)(buffer, position)
        results = []
        result_count, position = length(buffer, position, _RESULT.size)
        for _ in range(result_count):
            result, position = _decode_result(buffer, position, version)
            results.append(result)
        if flexible:
            position = skip_tags(buffer, position)
        topics.append(TopicProduceResult(name, topic_id, results))
    (throttle_time_ms,) = _INT32.unpack_from(buffer, position)
    response = ProduceResponse(topics, throttle_time_ms, [])
    if flexible:
        fields, _ = read_tags(buffer, position + 4)
        if version >= _LEADER_HINTS_SINCE and 0 in fields:
            response.node_endpoints = decode_endpoints(fields[0])
    return response


def _decode_result(buffer: Buffer, position: int, version: int) -> tuple[PartitionProduceResult, int]:
    flexible = version >= FLEXIBLE_SINCE
    text = read_compact_nullable_string if flexible else read_nullable_string
    result = PartitionProduceResult(*_RESULT.unpack_from(buffer, position))
    position += _RESULT.size
    if version >= _LOG_START_OFFSET_SINCE:
        (result.log_start_offset,) = _INT64.unpack_from(buffer, position)
        position += 8
    if version >= _ERROR_DETAILS_SINCE:
        count, position = (read_compact_count if flexible else read_count)(buffer, position, 5)
        record_errors = []
        for _ in range(count):
            (index,) = _INT32.unpack_from(buffer, position)
            message, position = text(buffer, position + 4)
            if flexible:
                position = skip_tags(buffer, position)
            record_errors.append((index, message))
        result.record_errors = tuple(record_errors)
        result.error_message, position = text(buffer, position)
    if flexible:
        fields, position = read_tags(buffer, position)
        if version >= _LEADER_HINTS_SINCE and 0 in fields:
            result.current_leader = decode_leader(fields[0])
    return result, position
