"""Fetch, in every version and both directions, against kio."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.protocol import fetch
from bifrost.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionFetchResult,
    TopicFetchResult,
)
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.wire import ZERO_UUID, compact_array_length, compact_string, tags, uvarint
from tests.property import codec_oracle as oracle
from tests.property.fetch_oracle import kio_request, kio_response, requests, responses

VERSIONS = pytest.mark.parametrize("version", fetch.VERSIONS)
FLEXIBLE_VERSIONS = pytest.mark.parametrize("version", range(fetch.FLEXIBLE_SINCE, fetch.VERSIONS.stop))


def assert_request_is_kios(version: int, request: FetchRequest) -> None:
    body = oracle.write(kio_request(version, request))
    frame = fetch.encode_request(version, 7, "client", request)
    start = oracle.request_header_bytes("client", flexible=version >= fetch.FLEXIBLE_SINCE)
    assert frame[start:] == body
    assert fetch.decode_request(memoryview(frame), start, version) == request


def assert_response_is_kios(version: int, response: FetchResponse) -> None:
    body = oracle.write(kio_response(version, response))
    frame = b"".join(fetch.encode_response(version, 7, response))
    header = b"\0\0\0\7\0" if version >= fetch.FLEXIBLE_SINCE else b"\0\0\0\7"
    assert frame == (len(header) + len(body)).to_bytes(4, "big") + header + body
    assert fetch.decode_response(frame, 4 + len(header), version) == response


@VERSIONS
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_requests_are_kios_byte_for_byte(version: int, data: st.DataObject) -> None:
    assert_request_is_kios(version, data.draw(requests(version)))


@VERSIONS
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_responses_are_kios_byte_for_byte(version: int, data: st.DataObject) -> None:
    assert_response_is_kios(version, data.draw(responses(version)))


def subsets(values: dict[str, Any]) -> list[dict[str, Any]]:
    names = (chosen for size in range(1, len(values) + 1) for chosen in combinations(values, size))
    return [{name: values[name] for name in chosen} for chosen in names]


def named(version: int) -> tuple[str, bytes]:
    return ("", METADATA_TOPIC_ID) if version >= fetch.TOPIC_IDS_SINCE else ("__cluster_metadata", ZERO_UUID)


METADATA_TOPIC_ID = bytes(15) + b"\1"
FOLLOWER = {"cluster_id": (12, "c"), "replica_id": (15, 2), "replica_epoch": (15, 9)}
FOLLOWED = {"replica_directory_id": (17, bytes(range(16))), "high_watermark": (18, 40)}
TOLD = {"diverging_epoch": (3, 1 << 40), "current_leader": (2, 7), "snapshot_id": (1 << 40, 3)}


@FLEXIBLE_VERSIONS
@pytest.mark.parametrize("chosen", subsets(FOLLOWER | FOLLOWED), ids="+".join)
def test_what_a_follower_says_travels_in_the_versions_that_have_it(
    version: int, chosen: dict[str, tuple[int, Any]]
) -> None:
    """Whatever else is said. A field that the version lacks is left out, and the rest arrives."""

    def request_with(names: Sequence[str]) -> FetchRequest:
        partition = FetchPartition(0, 1, 2, 3, 4, 5, **{name: chosen[name][1] for name in names if name in FOLLOWED})
        told = {name: chosen[name][1] for name in names if name in FOLLOWER}
        # Two more without tags, before and behind, which are read another way.
        plain = FetchPartition(1, 1, 2, 3, 4, 5)
        return FetchRequest(500, 1, 1 << 20, [FetchTopic(*named(version), [plain, partition, plain])], **told)

    carried = request_with([name for name, (since, _) in chosen.items() if version >= since])
    assert_request_is_kios(version, carried)
    whole = request_with(list(chosen))
    if version < 15:  # its place for the replica id is no tag
        whole.replica_id = carried.replica_id
    assert fetch.encode_request(version, 7, None, whole) == fetch.encode_request(version, 7, None, carried)


@FLEXIBLE_VERSIONS
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("chosen", subsets(TOLD | {"node_endpoints": [NodeEndpoint(2, "h", 9, None)]}), ids="+".join)
def test_what_a_follower_is_told_travels_whatever_else_is_said(
    version: int, chosen: dict[str, Any], count: int
) -> None:
    results = [
        PartitionFetchResult(index, 0, 9, 9, 0, memoryview(b"r" * index), **{n: chosen[n] for n in chosen if n in TOLD})
        for index in range(count)
    ]
    response = FetchResponse([TopicFetchResult(*named(version), results)])
    if version >= 16:
        response.node_endpoints = chosen.get("node_endpoints", ())
    assert_response_is_kios(version, response)
    hinting = msgspec.structs.replace(response, node_endpoints=chosen.get("node_endpoints", ()))
    written, expected = (b"".join(fetch.encode_response(version, 7, one)) for one in (hinting, response))
    assert written == expected, "before version 16 there is no place for addresses"


def tagged_request(version: int, request: FetchRequest, unknown: list[tuple[int, bytes]]) -> bytes:
    """The body of a flexible request with unknown tagged fields, behind the known ones, in every place for them."""
    section = tags(unknown)
    body = b"" if version >= 15 else struct.pack(">i", request.replica_id)
    body += struct.pack(">iiib", request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    body += struct.pack(">ii", request.session_id, request.session_epoch) + compact_array_length(len(request.topics))
    for topic in request.topics:
        body += topic.topic_id if version >= 13 else compact_string(topic.name)
        body += compact_array_length(len(topic.partitions))
        for partition in topic.partitions:
            body += struct.pack(">iiq", partition.index, partition.current_leader_epoch, partition.fetch_offset)
            body += struct.pack(">iq", partition.last_fetched_epoch, partition.log_start_offset)
            known = [(0, partition.replica_directory_id)] if version >= 17 else []
            known += [(1, struct.pack(">q", partition.high_watermark))] if version >= 18 else []
            body += struct.pack(">i", partition.partition_max_bytes) + tags(known + unknown)
        body += section
    body += compact_array_length(len(request.forgotten_topics))
    for forgotten in request.forgotten_topics:
        body += forgotten.topic_id if version >= 13 else compact_string(forgotten.name)
        body += compact_array_length(len(forgotten.partitions))
        body += b"".join(struct.pack(">i", index) for index in forgotten.partitions) + section
    replica_state = struct.pack(">iq", request.replica_id, request.replica_epoch) + section
    known = [(0, compact_string(request.cluster_id))] + ([(1, replica_state)] if version >= 15 else [])
    return body + compact_string(request.rack_id) + tags(known + unknown)


@FLEXIBLE_VERSIONS
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_unknown_tagged_fields_of_requests_are_skipped(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(version))
    body = tagged_request(version, request, data.draw(oracle.TAG_SECTIONS))
    assert fetch.decode_request(memoryview(body), 0, version) == request


def tagged_response(version: int, response: FetchResponse, unknown: list[tuple[int, bytes]]) -> bytes:
    """As `tagged_request`, of a response."""
    section = tags(unknown)
    body = struct.pack(">ihi", response.throttle_time_ms, response.error_code, response.session_id)
    body += compact_array_length(len(response.topics))
    for topic in response.topics:
        body += topic.topic_id if version >= 13 else compact_string(topic.name)
        body += compact_array_length(len(topic.partitions))
        for result in topic.partitions:
            body += struct.pack(
                ">ihqq", result.index, result.error_code, result.high_watermark, result.last_stable_offset
            )
            aborted, records = result.aborted_transactions, result.records
            body += struct.pack(">q", result.log_start_offset) + uvarint(0 if aborted is None else len(aborted) + 1)
            body += b"".join(struct.pack(">qq", *transaction) + section for transaction in aborted or ())
            body += struct.pack(">i", result.preferred_read_replica)
            assert records is None or isinstance(records, memoryview)
            body += uvarint(0) if records is None else uvarint(len(records) + 1) + records
            known = [(">iq", result.diverging_epoch), (">ii", result.current_leader), (">qi", result.snapshot_id)]
            fields = [(tag, struct.pack(code, *pair) + section) for tag, (code, pair) in enumerate(known) if pair]
            body += tags(fields + unknown)
        body += section
    endpoints = compact_array_length(len(response.node_endpoints))
    for node in response.node_endpoints:
        endpoints += struct.pack(">i", node.node_id) + compact_string(node.host)
        endpoints += struct.pack(">i", node.port) + compact_string(node.rack) + section
    return body + tags(([(0, endpoints)] if response.node_endpoints else []) + unknown)


@FLEXIBLE_VERSIONS
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_unknown_tagged_fields_of_responses_are_skipped(version: int, data: st.DataObject) -> None:
    response = data.draw(responses(version))
    body = tagged_response(version, response, data.draw(oracle.TAG_SECTIONS))
    assert fetch.decode_response(body, 0, version) == response


REQUEST = FetchRequest(
    500,
    1,
    1 << 20,
    [
        FetchTopic("first", ZERO_UUID, [FetchPartition(index, 1, 2, 3, 4, 5) for index in range(3)]),
        FetchTopic("second", ZERO_UUID, [FetchPartition(0, 1, 2, 3, 4, 5, bytes(range(16)), 7)]),
    ],
    [ForgottenTopic("third", ZERO_UUID, [1, 2])],
    rack_id="rack",
    replica_id=3,
    replica_epoch=9,
    cluster_id="cluster",
)
RESPONSE = FetchResponse(
    [
        TopicFetchResult("first", bytes(range(16)), [PartitionFetchResult(0, records=memoryview(b"records" * 10))]),
        TopicFetchResult(
            "second",
            bytes(range(16)),
            [
                PartitionFetchResult(1, 6, 5, 4, 3, None, [(1, 2), (3, 4)], 1, (1, 2), (3, 4), (5, 6)),
                PartitionFetchResult(2),
            ],
        ),
    ],
    node_endpoints=[NodeEndpoint(3, "host", 9092, "rack")],
)


@VERSIONS
def test_damaged_requests(version: int) -> None:
    frame = fetch.encode_request(version, 7, "client", REQUEST)
    start = oracle.request_header_bytes("client", flexible=version >= fetch.FLEXIBLE_SINCE)
    oracle.assert_survives_damage(lambda body: fetch.decode_request(body, 0, version), frame[start:], version)


@VERSIONS
def test_damaged_responses(version: int) -> None:
    frame = b"".join(fetch.encode_response(version, 7, RESPONSE))
    start = 9 if version >= fetch.FLEXIBLE_SINCE else 8
    oracle.assert_survives_damage(lambda body: fetch.decode_response(body, 0, version), frame[start:], version)
