"""The Fetch response, written by brokers and read by clients and followers.

Record data is never copied. A response is a list of buffers, the record data among them, for `transport.writelines`;
or, when record data goes out by sendfile, only the parts around it. Nothing here looks at records: a partition's
data is a buffer or any object that knows its `size`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol.fetch.request import (
    FLEXIBLE_SINCE,
    LOG_START_OFFSET_SINCE,
    RACK_SINCE,
    SESSIONS_SINCE,
    TOPIC_IDS_SINCE,
)
from bifrost.protocol.leader_hints import (
    NodeEndpoint,
    decode_endpoints,
    decode_leader,
    encode_endpoints,
    encode_leader,
)
from bifrost.protocol.wire import (
    SHORT_BUFFER,
    ZERO_UUID,
    Buffer,
    array_length,
    compact_array_length,
    compact_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    read_tags,
    read_uuid,
    read_uvarint,
    skip_tags,
    string,
    tags,
    uvarint,
)

_LEADER_HINTS_SINCE = 16

# Frame length, correlation id, no header tags (a zero byte) if flexible, throttle time, error and session if any.
_FRONT_V4 = struct.Struct(">iii")
_FRONT_V7 = struct.Struct(">iiihi")
_FRONT_V12 = struct.Struct(">iixihi")

# A partition up to its record data: the offsets, the count of aborted transactions, the preferred replica, the size.
_OFFSETS_V4 = struct.Struct(">ihqq")
_OFFSETS_V5 = struct.Struct(">ihqqq")
_PLAIN_V4 = struct.Struct(">ihqqii")
_PLAIN_V5 = struct.Struct(">ihqqqii")
_PLAIN_V11 = struct.Struct(">ihqqqiii")
_PLAIN_V12 = struct.Struct(">ihqqqBi")

_ABORTED = struct.Struct(">qq")
_DIVERGING_EPOCH = struct.Struct(">iqx")
_SNAPSHOT_ID = struct.Struct(">qix")
_INT32 = struct.Struct(">i")
_SESSION = struct.Struct(">hi")

_BUFFERS = (bytes, bytearray, memoryview)


class SizedRecords(Protocol):
    """Record data that is somewhere else, such as a piece of a log file."""

    @property
    def size(self) -> int: ...


Records: TypeAlias = Buffer | SizedRecords


class PartitionFetchResult(msgspec.Struct, gc=False):
    """What one partition yields.

    The pairs are in wire order: producer id and first offset of an aborted transaction; epoch and end offset in
    `diverging_epoch`; leader id and epoch in `current_leader`; end offset and epoch in `snapshot_id`.
    """

    index: int
    error_code: int = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Records | None = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None


class TopicFetchResult(msgspec.Struct, gc=False):
    """The results of one topic, named as in the request."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionFetchResult]


class FetchResponse(msgspec.Struct, gc=False):
    """One Fetch response of any version. In a decoded one, `records` are views of the receive buffer."""

    topics: Sequence[TopicFetchResult]
    throttle_time_ms: int = 0
    error_code: int = ErrorCode.NONE
    session_id: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


def encode_response(version: int, correlation_id: int, response: FetchResponse) -> list[Records]:
    """A whole frame in pieces, to be sent one after the other; record data is among them as it was given."""
    parts, record_sets = _encode(version, correlation_id, response)
    if not record_sets:
        return [parts[0]]
    pieces: list[Records] = []
    for part, records in zip(parts, record_sets):
        pieces += (part, records)
    if parts[-1]:
        pieces.append(parts[-1])
    return pieces


def _encode(version: int, correlation_id: int, response: FetchResponse) -> tuple[list[bytes], list[Records]]:
    """The parts around record data, one more than there are non-empty record sets, and those sets."""
    if len(response.topics) == 1 and len(response.topics[0].partitions) == 1 and not response.node_endpoints:
        return _encode_one_result(version, correlation_id, response)
    flexible = version >= FLEXIBLE_SINCE
    text, length = (compact_string, compact_array_length) if flexible else (string, array_length)
    no_tags = b"\0" if flexible else b""
    finished: list[bytes] = []
    record_sets: list[Records] = []
    records_bytes = 0
    part = [length(len(response.topics))]
    for topic in response.topics:
        part.append(topic.topic_id if version >= TOPIC_IDS_SINCE else text(topic.name))
        part.append(length(len(topic.partitions)))
        for result in topic.partitions:
            records = result.records
            if records is None:
                part.append(_encode_result(version, result, -1))
            else:
                size = _size(records)
                part.append(_encode_result(version, result, size))
                if size:
                    finished.append(b"".join(part))
                    part = []
                    record_sets.append(records)
                    records_bytes += size
            if flexible:
                part.append(_encode_result_tags(result))
        part.append(no_tags)
    if response.node_endpoints and version >= _LEADER_HINTS_SINCE:
        part.append(tags([(0, encode_endpoints(response.node_endpoints))]))
    else:
        part.append(no_tags)
    finished.append(b"".join(part))
    following_bytes = sum(map(len, finished)) + records_bytes
    finished[0] = _encode_front(version, correlation_id, response, following_bytes) + finished[0]
    return finished, record_sets


def _encode_one_result(version: int, correlation_id: int, response: FetchResponse) -> tuple[list[bytes], list[Records]]:
    """As `_encode`, for one partition: what a consumer that keeps up gets nearly always."""
    topic = response.topics[0]
    result = topic.partitions[0]
    records = result.records
    size = -1 if records is None else _size(records)
    if version >= FLEXIBLE_SINCE:
        named = topic.topic_id if version >= TOPIC_IDS_SINCE else compact_string(topic.name)
        before = b"\x02" + named + b"\x02" + _encode_result(version, result, size)
        after = _encode_result_tags(result) + b"\0\0"
    else:
        before = b"\0\0\0\1" + string(topic.name) + b"\0\0\0\1" + _encode_result(version, result, size)
        after = b""
    front = _encode_front(version, correlation_id, response, len(before) + max(size, 0) + len(after))
    if records is None or size == 0:
        return [front + before + after], []
    return [front + before, after], [records]


def _size(records: Records) -> int:
    return len(records) if isinstance(records, _BUFFERS) else records.size


def _encode_front(version: int, correlation_id: int, response: FetchResponse, following_bytes: int) -> bytes:
    """The frame up to its topics. Its length counts everything after itself."""
    throttle_time_ms, error_code, session_id = response.throttle_time_ms, response.error_code, response.session_id
    if version >= FLEXIBLE_SINCE:
        return _FRONT_V12.pack(15 + following_bytes, correlation_id, throttle_time_ms, error_code, session_id)
    if version >= SESSIONS_SINCE:
        return _FRONT_V7.pack(14 + following_bytes, correlation_id, throttle_time_ms, error_code, session_id)
    return _FRONT_V4.pack(8 + following_bytes, correlation_id, throttle_time_ms)


def _encode_result(version: int, result: PartitionFetchResult, size: int) -> bytes:
    """A partition up to its record data, of which there are `size` bytes, -1 meaning null."""
    aborted = result.aborted_transactions
    if aborted:
        return _encode_aborting_result(version, result, aborted, size)
    count = -1 if aborted is None else 0
    index, error_code = result.index, result.error_code
    high_watermark, last_stable_offset = result.high_watermark, result.last_stable_offset
    start = result.log_start_offset
    replica = result.preferred_read_replica
    if version >= FLEXIBLE_SINCE:
        return _PLAIN_V12.pack(
            index, error_code, high_watermark, last_stable_offset, start, count + 1, replica
        ) + uvarint(size + 1)
    if version >= RACK_SINCE:
        return _PLAIN_V11.pack(index, error_code, high_watermark, last_stable_offset, start, count, replica, size)
    if version >= LOG_START_OFFSET_SINCE:
        return _PLAIN_V5.pack(index, error_code, high_watermark, last_stable_offset, start, count, size)
    return _PLAIN_V4.pack(index, error_code, high_watermark, last_stable_offset, count, size)


def _encode_aborting_result(
    version: int, result: PartitionFetchResult, aborted: Sequence[tuple[int, int]], size: int
) -> bytes:
    flexible = version >= FLEXIBLE_SINCE
    offsets = (result.index, result.error_code, result.high_watermark, result.last_stable_offset)
    if version >= LOG_START_OFFSET_SINCE:
        encoded = [_OFFSETS_V5.pack(*offsets, result.log_start_offset)]
    else:
        encoded = [_OFFSETS_V4.pack(*offsets)]
    encoded.append((compact_array_length if flexible else array_length)(len(aborted)))
    for producer_id, first_offset in aborted:
        encoded.append(_ABORTED.pack(producer_id, first_offset))
        encoded.append(b"\0" if flexible else b"")
    if version >= RACK_SINCE:
        encoded.append(_INT32.pack(result.preferred_read_replica))
    encoded.append(uvarint(size + 1) if flexible else _INT32.pack(size))
    return b"".join(encoded)


def _encode_result_tags(result: PartitionFetchResult) -> bytes:
    if result.diverging_epoch is None and result.current_leader is None and result.snapshot_id is None:
        return b"\0"
    fields = []
    if result.diverging_epoch is not None:
        fields.append((0, _DIVERGING_EPOCH.pack(*result.diverging_epoch)))
    if result.current_leader is not None:
        fields.append((1, encode_leader(result.current_leader)))
    if result.snapshot_id is not None:
        fields.append((2, _SNAPSHOT_ID.pack(*result.snapshot_id)))
    return tags(fields)


def decode_response(buffer: Buffer, position: int, version: int) -> FetchResponse:
    """The response whose body starts at `position`; the buffer ends with the frame. Raises `ProtocolError` only."""
    try:
        return _decode_response(memoryview(buffer), position, version)
    except SHORT_BUFFER as error:
        raise ProtocolError(f"Fetch {version} response: {error}") from error


def _decode_response(buffer: memoryview, position: int, version: int) -> FetchResponse:
    flexible = version >= FLEXIBLE_SINCE
    length = read_compact_count if flexible else read_count
    topics: list[TopicFetchResult] = []
    response = FetchResponse(topics)
    (response.throttle_time_ms,) = _INT32.unpack_from(buffer, position)
    position += 4
    if version >= SESSIONS_SINCE:
        response.error_code, response.session_id = _SESSION.unpack_from(buffer, position)
        position += _SESSION.size
    topic_count, position = length(buffer, position, 3)
    for _ in range(topic_count):
        name, topic_id = "", ZERO_UUID
        if version >= TOPIC_IDS_SINCE:
            topic_id, position = read_uuid(buffer, position)
        else:
            name, position = (read_compact_string if flexible else read_string)(buffer, position)
        results = []
        result_count, position = length(buffer, position, _OFFSETS_V4.size)
        for _ in range(result_count):
            result, position = _decode_result(buffer, position, version)
            results.append(result)
        if flexible:
            position = skip_tags(buffer, position)
        topics.append(TopicFetchResult(name, topic_id, results))
    if flexible:
        fields, _ = read_tags(buffer, position)
        if 0 in fields and version >= _LEADER_HINTS_SINCE:
            response.node_endpoints = decode_endpoints(fields[0])
    return response


def _decode_result(buffer: memoryview, position: int, version: int) -> tuple[PartitionFetchResult, int]:
    flexible = version >= FLEXIBLE_SINCE
    layout = _OFFSETS_V5 if version >= LOG_START_OFFSET_SINCE else _OFFSETS_V4
    result = PartitionFetchResult(*layout.unpack_from(buffer, position))
    result.aborted_transactions, position = _decode_aborted(buffer, position + layout.size, flexible=flexible)
    if version >= RACK_SINCE:
        (result.preferred_read_replica,) = _INT32.unpack_from(buffer, position)
        position += 4
    size, position = _read_nullable_length(buffer, position, flexible=flexible)
    if size < 0:
        result.records = None
    else:
        if size > len(buffer) - position:
            raise ProtocolError("records run past the end of the frame")
        result.records = buffer[position : position + size]
        position += size
    if flexible:
        fields, position = read_tags(buffer, position)
        if 0 in fields:
            result.diverging_epoch = _DIVERGING_EPOCH.unpack_from(fields[0])
        if 1 in fields:
            result.current_leader = decode_leader(fields[1])
        if 2 in fields:
            result.snapshot_id = _SNAPSHOT_ID.unpack_from(fields[2])
    return result, position


def _decode_aborted(buffer: memoryview, position: int, *, flexible: bool) -> tuple[list[tuple[int, int]] | None, int]:
    count, position = _read_nullable_length(buffer, position, flexible=flexible)
    if count < 0:
        return None, position
    if count * _ABORTED.size > len(buffer) - position:
        raise ProtocolError(f"{count} aborted transactions in {len(buffer) - position} bytes")
    aborted = []
    for _ in range(count):
        producer_id, first_offset = _ABORTED.unpack_from(buffer, position)
        position += _ABORTED.size
        if flexible:
            position = skip_tags(buffer, position)
        aborted.append((producer_id, first_offset))
    return aborted, position


def _read_nullable_length(buffer: memoryview, position: int, *, flexible: bool) -> tuple[int, int]:
    """A length of which -1 means null."""
    if flexible:
        length, position = read_uvarint(buffer, position)
        return length - 1, position
    (length,) = _INT32.unpack_from(buffer, position)
    return length, position + 4
