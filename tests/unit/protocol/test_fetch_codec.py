"""Fetch messages: bytes written out by hand, record data left where it is, and hostile lengths."""

from __future__ import annotations

import struct
import tracemalloc
from typing import NamedTuple

import pytest

from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol import fetch
from bifrost.protocol.fetch import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionFetchResult,
    TopicFetchResult,
)
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.wire import ZERO_UUID

TOPIC_ID = bytes(range(16))
TAGS = bytes.fromhex("01 63 02 ffff")


class FileSlice(NamedTuple):
    """As a log hands out: nothing of it is in memory."""

    position: int
    size: int


def test_version_4() -> None:
    body = "ffffffff 000001f4 00000001 00100000 01 00000001 0001 74 00000001 00000003 0000000000000064 00010000"
    request = fetch.decode_request(bytes.fromhex(body), 0, 4)
    assert (request.replica_id, request.max_wait_ms, request.min_bytes, request.max_bytes) == (-1, 500, 1, 1 << 20)
    assert request.isolation_level == 1
    assert (request.session_id, request.session_epoch) == (0, -1)
    assert request.topics == [FetchTopic("t", ZERO_UUID, [FetchPartition(3, -1, 100, -1, -1, 1 << 16)])]


def test_version_11() -> None:
    body = bytes.fromhex(
        "ffffffff 000001f4 00000001 00100000 00 00000007 00000002"
        "00000001 0001 74 00000001 00000003 00000009 0000000000000064 ffffffffffffffff 00010000"
        "00000001 0001 75 00000002 00000001 00000002"
        "0004 7261636b"
    )
    request = fetch.decode_request(b"head" + body, 4, 11)
    assert (request.session_id, request.session_epoch, request.rack_id) == (7, 2, "rack")
    assert request.topics == [FetchTopic("t", ZERO_UUID, [FetchPartition(3, 9, 100, -1, -1, 1 << 16)])]
    assert request.forgotten_topics == [ForgottenTopic("u", ZERO_UUID, [1, 2])]


def test_version_18_with_known_and_unknown_tagged_fields() -> None:
    plain = bytes.fromhex("00000003 00000009 0000000000000064 00000008 ffffffffffffffff 00010000")
    known = bytes.fromhex("03 00 10") + TOPIC_ID + bytes.fromhex("01 08 0000000000000005 63 02 ffff")
    body = bytes.fromhex("000001f4 00000001 00100000 00 00000000 ffffffff 02") + TOPIC_ID
    body += b"\x04" + plain + b"\0" + plain + known + plain + b"\0" + TAGS
    body += b"\x02" + TOPIC_ID + bytes.fromhex("02 00000001") + TAGS + b"\x01"
    replica_state = bytes.fromhex("00000002 0000000000000077") + TAGS
    body += (
        bytes.fromhex("03 00 03 036964 01") + bytes((len(replica_state),)) + replica_state + bytes.fromhex("63 01 00")
    )
    request = fetch.decode_request(body, 0, 18)
    ordinary = FetchPartition(3, 9, 100, 8, -1, 1 << 16)
    following = FetchPartition(3, 9, 100, 8, -1, 1 << 16, TOPIC_ID, 5)
    assert request.topics == [FetchTopic("", TOPIC_ID, [ordinary, following, ordinary])]
    assert request.forgotten_topics == [ForgottenTopic("", TOPIC_ID, [1])]
    assert (request.replica_id, request.replica_epoch, request.cluster_id) == (2, 0x77, "id")


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_a_huge_count_is_refused_before_anything_is_allocated(version: int) -> None:
    front = bytes(17 if version < 7 else 25 if version < 15 else 21)
    huge = b"\x7f\xff\xff\xff" if version < 12 else b"\xff\xff\xff\xff\x07"
    one = b"\0\0\0\1" if version < 12 else b"\2"
    topic = TOPIC_ID if version >= 13 else b"\x02t" if version >= 12 else b"\0\x01t"
    tracemalloc.start()
    try:
        for hostile in (front + huge, front + one + topic + huge):
            with pytest.raises(ProtocolError):
                fetch.decode_request(hostile + bytes(100), 0, version)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20_000


def response_of(*record_sets: bytes | memoryview | FileSlice) -> FetchResponse:
    results = [PartitionFetchResult(index, 0, 9, 9, 0, records) for index, records in enumerate(record_sets)]
    return FetchResponse([TopicFetchResult("log", TOPIC_ID, results)])


OFFSETS = "00000000 0000 0000000000000009 0000000000000009"


NO_SESSION = "0000 00000000"
BY_NAME = f"02 04 6c6f67 02 {OFFSETS} 0000000000000000 00 ffffffff 04 616263 00 00 00"
BY_ID = f"02 {TOPIC_ID.hex()} 02 {OFFSETS} 0000000000000000 00 ffffffff 04 616263 00 00 00"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (4, f"00000000 00000001 0003 6c6f67 00000001 {OFFSETS} ffffffff 00000003 616263"),
        (5, f"00000000 00000001 0003 6c6f67 00000001 {OFFSETS} 0000000000000000 ffffffff 00000003 616263"),
        (7, f"00000000 {NO_SESSION} 00000001 0003 6c6f67 00000001 {OFFSETS} {'00' * 8} ffffffff 00000003 616263"),
        (11, f"00000000 {NO_SESSION} 00000001 0003 6c6f67 00000001 {OFFSETS} {'00' * 8} {'ff' * 8} 00000003 616263"),
        (12, f"00 00000000 {NO_SESSION} {BY_NAME}"),
        (18, f"00 00000000 {NO_SESSION} {BY_ID}"),
    ],
)
def test_the_answer_with_one_record_set(version: int, expected: str) -> None:
    body = bytes.fromhex(expected)
    frame = struct.pack(">ii", 4 + len(body), 7) + body
    assert b"".join(fetch.encode_response(version, 7, response_of(b"abc"))) == frame


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_record_data_is_passed_through_untouched(version: int) -> None:
    first, second = memoryview(bytearray(b"first" * 100)), b"second"
    buffers = fetch.encode_response(version, 7, response_of(first, b"", second))
    assert sum(buffer is first or buffer is second for buffer in buffers) == 2
    frame = b"".join(buffers)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert all(buffers)


@pytest.mark.parametrize("version", fetch.VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_response_without_records_is_one_buffer(version: int, count: int) -> None:
    assert len(fetch.encode_response(version, 7, response_of(*[b""] * count))) == 1


@pytest.mark.parametrize("version", fetch.VERSIONS)
@pytest.mark.parametrize("sizes", [(5,), (5, 0, 300), (0,), ()])
def test_record_data_that_is_still_in_a_file(version: int, sizes: tuple[int, ...]) -> None:
    pieces = fetch.encode_response(version, 7, response_of(*(FileSlice(0, size) for size in sizes)))
    frame = b"".join(bytes(piece.size) if isinstance(piece, FileSlice) else piece for piece in pieces)
    assert frame == b"".join(fetch.encode_response(version, 7, response_of(*(bytes(size) for size in sizes))))


def test_errors_and_hints_of_a_follower_that_diverged() -> None:
    result = PartitionFetchResult(
        0,
        ErrorCode.FENCED_LEADER_EPOCH,
        records=None,
        aborted_transactions=[(4000, 17)],
        diverging_epoch=(3, 1 << 40),
        current_leader=(2, 8),
        snapshot_id=(1 << 41, 4),
    )
    endpoints = [NodeEndpoint(2, "leader.example", 9092, "rack")]
    response = FetchResponse(
        [TopicFetchResult("", TOPIC_ID, [result])], 3, ErrorCode.NONE, 77, node_endpoints=endpoints
    )
    frame = b"".join(fetch.encode_response(16, 7, response))
    assert fetch.decode_response(frame, 9, 16) == response


def test_unknown_tagged_fields_of_a_response_are_skipped() -> None:
    body = bytes.fromhex(f"00000000 0000 00000000 02 04 6c6f67 02 {OFFSETS} 0000000000000000 02")
    body += bytes.fromhex("0000000000000001 0000000000000002") + TAGS + bytes.fromhex("ffffffff 04 616263") + TAGS * 3
    result = PartitionFetchResult(0, 0, 9, 9, 0, memoryview(b"abc"), [(1, 2)])
    assert fetch.decode_response(body, 0, 12) == FetchResponse([TopicFetchResult("log", ZERO_UUID, [result])])
