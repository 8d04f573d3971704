"""Produce messages: bytes written out by hand, no copies of records, and hostile lengths."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol import produce
from bifrost.protocol.batch import read_header, stamp
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResult,
    ProduceRequest,
    TopicProduceData,
    TopicProduceResult,
)
from bifrost.protocol.records import encode_batch
from bifrost.protocol.wire import ZERO_UUID

TOPIC_ID = bytes(range(16))

# transactional id, acks, timeout, topics[name, partitions[index, records]]
LEGACY = bytes.fromhex("ffff ffff 00007530 00000001 0003 6c6f67 00000002 00000005 00000003 616263 00000006 ffffffff")
# the same with varint lengths and, three times, a section of tagged fields
FLEXIBLE = bytes.fromhex("00 ffff 00007530 02 04 6c6f67 03 00000005 04 616263 00 00000006 00 00 00 00")
BY_ID = bytes.fromhex("00 ffff 00007530 02 000102030405060708090a0b0c0d0e0f 02 00000005 04 616263 00 00 00")
TAGS = bytes.fromhex("01 63 02 ffff")
TAGGED = bytes.fromhex("00 ffff 00007530 02 04 6c6f67 02 00000005 04 616263") + TAGS * 3


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_a_request_of_each_version(version: int) -> None:
    body = LEGACY if version < 9 else BY_ID if version >= 13 else FLEXIBLE
    request = produce.decode_request(memoryview(b"head" + body), 4, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 30_000)
    topic = request.topics[0]
    assert (topic.name, topic.topic_id) == (("", TOPIC_ID) if version >= 13 else ("log", ZERO_UUID))
    assert topic.partitions[0] == PartitionProduceData(5, memoryview(b"abc"))
    assert [partition.records for partition in topic.partitions[1:]] == ([] if version >= 13 else [None])


def test_unknown_tagged_fields_are_skipped() -> None:
    request = produce.decode_request(memoryview(TAGGED), 0, 9)
    assert request.topics == [TopicProduceData("log", ZERO_UUID, [PartitionProduceData(5, memoryview(b"abc"))])]


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_records_are_stamped_inside_the_receive_buffer(version: int) -> None:
    batch = memoryview(encode_batch([(1, b"key", b"value", ())]))
    sent = ProduceRequest(None, 1, 1000, [TopicProduceData("t", TOPIC_ID, [PartitionProduceData(0, batch)])])
    frame = bytearray(produce.encode_request(version, 1, None, sent))
    request = produce.decode_request(memoryview(frame), 14 + (version >= 9), version)
    records = request.topics[0].partitions[0].records
    assert records is not None
    stamp(records, 0, 4711, 3)
    start = frame.index(bytes(batch[16:]))  # everything behind the stamped fields is as it was
    assert read_header(frame, start - 16).base_offset == 4711


@pytest.mark.parametrize(
    ("body", "position", "version"),
    [
        (LEGACY, 8, 3),  # topics
        (LEGACY, 17, 3),  # partitions
        (LEGACY, 25, 3),  # record bytes
        (FLEXIBLE, 7, 9),
        (FLEXIBLE, 12, 9),
        (FLEXIBLE, 17, 9),
    ],
)
def test_a_huge_length_is_refused_before_anything_is_allocated(body: bytes, position: int, version: int) -> None:
    huge = b"\x7f\xff\xff\xff" if version < 9 else b"\xff\xff\xff\xff\x07"
    hostile = body[:position] + huge + body[position + (4 if version < 9 else 1) :]
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            produce.decode_request(memoryview(hostile), 0, version)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20_000


@pytest.mark.parametrize("body", [b"", LEGACY.replace(b"log", b"l\xffg"), b"\x00\xff" + LEGACY])
def test_nonsense_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        produce.decode_request(memoryview(body), 0, 3)


def answer(version: int) -> bytes:
    result = PartitionProduceResult(5, base_offset=0x1122334455667788, log_start_offset=3)
    return produce.encode_response(version, 7, [TopicProduceResult("log", TOPIC_ID, [result])], 9)


OFFSETS = "00000005 0000 1122334455667788 ffffffffffffffff"


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ((3, 4), f"00000001 0003 6c6f67 00000001 {OFFSETS} 00000009"),
        ((5, 7), f"00000001 0003 6c6f67 00000001 {OFFSETS} 0000000000000003 00000009"),
        ((8,), f"00000001 0003 6c6f67 00000001 {OFFSETS} 0000000000000003 00000000 ffff 00000009"),
        ((9, 12), f"00 02 04 6c6f67 02 {OFFSETS} 0000000000000003 01 00 00 00 00000009 00"),
        ((13,), f"00 02 {TOPIC_ID.hex()} 02 {OFFSETS} 0000000000000003 01 00 00 00 00000009 00"),
    ],
)
def test_the_answer_to_one_batch(versions: tuple[int, ...], expected: str) -> None:
    body = bytes.fromhex(expected)
    for version in versions:
        assert answer(version) == struct.pack(">ii", 4 + len(body), 7) + body


def test_error_details_appear_from_version_8_and_leader_hints_from_10() -> None:
    result = PartitionProduceResult(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, "gone", ((2, "bad"),), (4, 11))
    topics = [TopicProduceResult("t", ZERO_UUID, [result])]
    for version in range(3, 13):
        frame = produce.encode_response(version, 7, topics, 0, [NodeEndpoint(4, "leader.example", 9092)])
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        response = produce.decode_response(frame, 9 if version >= 9 else 8, version)
        decoded = response.topics[0].partitions[0]
        assert decoded.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (decoded.error_message, decoded.record_errors) == (
            ("gone", ((2, "bad"),)) if version >= 8 else (None, ())
        )
        assert decoded.current_leader == ((4, 11) if version >= 10 else None)
        assert response.node_endpoints == ([NodeEndpoint(4, "leader.example", 9092)] if version >= 10 else [])


def test_unknown_tagged_fields_of_a_response_are_skipped() -> None:
    body = bytes.fromhex(f"02 04 6c6f67 02 {OFFSETS} 0000000000000003 02 00000001 00") + TAGS
    body += bytes.fromhex("00") + TAGS * 2 + bytes.fromhex("00000009") + TAGS
    response = produce.decode_response(body, 0, 10)
    result = PartitionProduceResult(5, 0, 0x1122334455667788, -1, 3, None, ((1, None),))
    assert response == produce.ProduceResponse([TopicProduceResult("log", ZERO_UUID, [result])], 9, [])
