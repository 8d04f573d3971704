"""The declarations as a whole: complete, consistent with the table of APIs, and imported only when asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.apis import FLEXIBLE_SINCE, ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.messages import DECLARED, request_class, response_class
from bifrost.protocol.messages.cluster import ApiVersion, ApiVersionsResponse, MetadataRequest
from bifrost.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse, JoinGroupResponse
from bifrost.protocol.messages.producers import InitProducerIdRequest

AMONG_NODES = [
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ENVELOPE,
]


@pytest.mark.parametrize("key", sorted(DECLARED))
def test_requests_and_responses_come_in_pairs(key: int) -> None:
    request, response = request_class(key), response_class(key)
    assert request.api == response.api == key
    assert request.versions == response.versions
    assert request.flexible == response.flexible == FLEXIBLE_SINCE[key]
    for cls in (request, response):
        for version in cls.versions:
            reader(cls, version)
            writer(cls, version)


@pytest.mark.parametrize("key", AMONG_NODES)
def test_a_refusal_among_nodes_needs_no_more_than_its_code(key: int) -> None:
    answer = response_class(key)(error_code=ErrorCode.NOT_CONTROLLER)
    for version in answer.versions:
        read, _ = reader(type(answer), version)(writer(type(answer), version)(answer), 0)
        assert read == answer


def test_what_is_not_declared_is_not_found() -> None:
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, 12345):
        with pytest.raises(KeyError):
            request_class(key)


def test_modules_are_imported_when_their_first_message_is_asked_for() -> None:
    script = """
import sys
from bifrost.protocol.messages import request_class
loaded = lambda: [name for name in sys.modules if name.startswith("bifrost.protocol.messages.")]
assert loaded() == [], loaded()
request_class(12)
assert loaded() == ["bifrost.protocol.messages.groups"], loaded()
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_protocol_needs_no_loop_no_files_no_clock() -> None:
    """What it imports itself: `msgspec` may load what it likes."""
    script = """
import sys, msgspec, uuid
before = set(sys.modules)
import bifrost.protocol.frame, bifrost.protocol.metadata, bifrost.protocol.codec
bad = {"asyncio", "socket", "pathlib", "datetime", "random", "threading", "logging"} & (set(sys.modules) - before)
assert not bad, bad
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_an_unsupported_version_is_answered_in_version_zero() -> None:
    keys = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4)]
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys, throttle_time_ms=5)
    assert writer(ApiVersionsResponse, 0)(answer) == bytes.fromhex("0023 00000001 0012 0000 0004")


def test_no_topics_and_all_topics() -> None:
    assert reader(MetadataRequest, 0)(b"\0\0\0\0", 0)[0].topics == []
    assert reader(MetadataRequest, 1)(b"\xff\xff\xff\xff", 0)[0].topics is None
    assert writer(MetadataRequest, 12)(MetadataRequest(topics=None)) == bytes.fromhex("00 01 00 00")


def test_a_heartbeat_by_hand() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id="i")
    assert writer(HeartbeatRequest, 2)(request) == b"\0\x01g\0\0\0\x03\0\x01m"
    assert writer(HeartbeatRequest, 3)(request) == b"\0\x01g\0\0\0\x03\0\x01m\0\x01i"
    assert writer(HeartbeatRequest, 4)(request) == b"\x02g\0\0\0\x03\x02m\x02i\0"
    assert writer(HeartbeatResponse, 0)(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)) == b"\0\x19"


def test_a_failed_join_can_be_told_to_old_clients() -> None:
    answer = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    assert reader(JoinGroupResponse, 5)(writer(JoinGroupResponse, 5)(answer), 0)[0].protocol_name == ""
    assert reader(JoinGroupResponse, 9)(writer(JoinGroupResponse, 9)(answer), 0)[0].protocol_name is None


def test_unstable_versions_are_not_declared() -> None:
    """KIP-939 is not finished in Kafka 4.3."""
    assert InitProducerIdRequest.versions == range(6)
