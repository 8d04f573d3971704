"""Produce, in every version and both directions, against kio."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.protocol import produce
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResult,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResult,
)
from bifrost.protocol.wire import ZERO_UUID, compact_array_length, compact_string, tags, uvarint
from tests.property import codec_oracle as oracle

VERSIONS = pytest.mark.parametrize("version", produce.VERSIONS)
FLEXIBLE_VERSIONS = pytest.mark.parametrize("version", range(produce.FLEXIBLE_SINCE, produce.VERSIONS.stop))


def topic_keys(version: int) -> st.SearchStrategy[tuple[str, bytes]]:
    if version >= produce.TOPIC_IDS_SINCE:
        return st.tuples(st.just(""), oracle.TOPIC_IDS)
    return st.tuples(oracle.NAMES, st.just(ZERO_UUID))


@functools.cache
def requests(version: int) -> st.SearchStrategy[ProduceRequest]:
    records = st.one_of(st.none(), oracle.RECORDS.map(memoryview))
    partitions = st.lists(st.builds(PartitionProduceData, oracle.INT32, records), max_size=3)
    topics = st.tuples(topic_keys(version), partitions).map(lambda pair: TopicProduceData(*pair[0], pair[1]))
    return st.builds(
        ProduceRequest, st.one_of(st.none(), oracle.NAMES), oracle.INT16, oracle.COUNT, st.lists(topics, max_size=3)
    )


@functools.cache
def responses(version: int) -> st.SearchStrategy[ProduceResponse]:
    """Fields that a version lacks keep their defaults, as they come back."""
    message = st.one_of(st.none(), oracle.NAMES)
    none: st.SearchStrategy[Any] = st.none()
    results = st.builds(
        PartitionProduceResult,
        index=oracle.INT32,
        error_code=oracle.ERROR_CODES,
        base_offset=oracle.INT64,
        log_append_time_ms=st.one_of(st.just(-1), st.integers(0, 2**41)),
        log_start_offset=oracle.INT64 if version >= 5 else st.just(-1),
        error_message=message if version >= 8 else none,
        record_errors=st.lists(st.tuples(oracle.INT32, message), max_size=2 * (version >= 8)).map(tuple),
        current_leader=st.one_of(none, oracle.PAIRS) if version >= 10 else none,
    )
    plain = st.builds(PartitionProduceResult, index=oracle.INT32, base_offset=oracle.INT64)
    partitions = st.one_of(st.lists(results, max_size=3), st.lists(plain, min_size=1, max_size=1))
    topics = st.tuples(topic_keys(version), partitions).map(lambda pair: TopicProduceResult(*pair[0], pair[1]))
    endpoints = st.lists(
        st.builds(NodeEndpoint, oracle.COUNT, oracle.NAMES, oracle.INT32, st.one_of(none, oracle.NAMES)), max_size=2
    )
    return st.builds(
        ProduceResponse, st.lists(topics, max_size=3), oracle.COUNT, endpoints if version >= 10 else st.just([])
    )


def kio_request(version: int, request: ProduceRequest) -> Any:
    schema = oracle.module("produce", version, "request")
    return schema.ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout=oracle.as_timedelta(request.timeout_ms),
        topic_data=tuple(
            schema.TopicProduceData(
                partition_data=tuple(
                    schema.PartitionProduceData(
                        index=partition.index,
                        records=None if partition.records is None else bytes(partition.records),
                    )
                    for partition in topic.partitions
                ),
                **kio_topic(version, topic),
            )
            for topic in request.topics
        ),
    )


def kio_topic(version: int, topic: TopicProduceData | TopicProduceResult) -> dict[str, Any]:
    return {"topic_id": oracle.as_uuid(topic.topic_id)} if version >= 13 else {"name": topic.name}


def kio_response(version: int, response: ProduceResponse) -> Any:
    schema = oracle.module("produce", version, "response")
    hints: dict[str, Any] = {}
    if version >= 10:
        hints["node_endpoints"] = tuple(
            schema.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in response.node_endpoints
        )
    return schema.ProduceResponse(
        throttle_time=oracle.as_timedelta(response.throttle_time_ms),
        responses=tuple(
            schema.TopicProduceResponse(
                partition_responses=tuple(kio_result(schema, version, result) for result in topic.partitions),
                **kio_topic(version, topic),
            )
            for topic in response.topics
        ),
        **hints,
    )


def kio_result(schema: Any, version: int, result: PartitionProduceResult) -> Any:
    fields: dict[str, Any] = {}
    if version >= 5:
        fields["log_start_offset"] = result.log_start_offset
    if version >= 8:
        fields["error_message"] = result.error_message
        fields["record_errors"] = tuple(
            schema.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in result.record_errors
        )
    if version >= 10 and result.current_leader is not None:
        leader_id, leader_epoch = result.current_leader
        fields["current_leader"] = schema.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return schema.PartitionProduceResponse(
        index=result.index,
        error_code=schema.ErrorCode(result.error_code),
        base_offset=result.base_offset,
        log_append_time=oracle.as_datetime(result.log_append_time_ms),
        **fields,
    )


@VERSIONS
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_requests_are_kios_byte_for_byte(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(version))
    body = oracle.write(kio_request(version, request))
    frame = produce.encode_request(version, 7, "client", request)
    start = oracle.request_header_bytes("client", flexible=version >= produce.FLEXIBLE_SINCE)
    assert frame[start:] == body
    assert produce.decode_request(memoryview(frame), start, version) == request


@VERSIONS
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_responses_are_kios_byte_for_byte(version: int, data: st.DataObject) -> None:
    response = data.draw(responses(version))
    body = oracle.write(kio_response(version, response))
    frame = produce.encode_response(version, 7, response.topics, response.throttle_time_ms, response.node_endpoints)
    header = b"\0\0\0\7\0" if version >= produce.FLEXIBLE_SINCE else b"\0\0\0\7"
    assert frame == (len(header) + len(body)).to_bytes(4, "big") + header + body
    assert produce.decode_response(frame, 4 + len(header), version) == response


def tagged_request(version: int, request: ProduceRequest, section: bytes) -> bytes:
    """The body of a flexible request with a section of tagged fields in every place for one."""
    body = compact_string(request.transactional_id)
    body += request.acks.to_bytes(2, "big", signed=True) + request.timeout_ms.to_bytes(4, "big")
    body += compact_array_length(len(request.topics))
    for topic in request.topics:
        body += topic.topic_id if version >= 13 else compact_string(topic.name)
        body += compact_array_length(len(topic.partitions))
        for partition in topic.partitions:
            body += partition.index.to_bytes(4, "big", signed=True)
            body += b"\0" if partition.records is None else uvarint(len(partition.records) + 1) + partition.records
            body += section
        body += section
    return body + section


@FLEXIBLE_VERSIONS
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_unknown_tagged_fields_of_requests_are_skipped(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(version))
    body = tagged_request(version, request, tags(data.draw(oracle.TAG_SECTIONS)))
    assert produce.decode_request(memoryview(body), 0, version) == request


EXAMPLE = ProduceRequest(
    "transaction",
    -1,
    30_000,
    [
        TopicProduceData("first", ZERO_UUID, [PartitionProduceData(0, memoryview(b"records" * 20))]),
        TopicProduceData(
            "second", ZERO_UUID, [PartitionProduceData(1, None), PartitionProduceData(2, memoryview(b""))]
        ),
    ],
)
RESULTS = [
    TopicProduceResult("first", bytes(range(16)), [PartitionProduceResult(0, 0, 1 << 40)]),
    TopicProduceResult(
        "second",
        bytes(range(16)),
        [PartitionProduceResult(1, 87, -1, -1, -1, "refused", [(3, "no key")], (1, 2)), PartitionProduceResult(2)],
    ),
]


@VERSIONS
def test_damaged_requests(version: int) -> None:
    frame = produce.encode_request(version, 7, "client", EXAMPLE)
    start = oracle.request_header_bytes("client", flexible=version >= produce.FLEXIBLE_SINCE)
    oracle.assert_survives_damage(lambda body: produce.decode_request(body, 0, version), frame[start:], version)


@VERSIONS
def test_damaged_responses(version: int) -> None:
    endpoints = [NodeEndpoint(1, "host", 9092, "rack")]
    frame = produce.encode_response(version, 7, RESULTS, 5, endpoints)
    start = 9 if version >= produce.FLEXIBLE_SINCE else 8
    oracle.assert_survives_damage(lambda body: produce.decode_response(body, 0, version), frame[start:], version)
