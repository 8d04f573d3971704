"""A member's whole life, in the bytes of every version that is advertised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.errors import ErrorCode
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.messages.group_admin import DescribeGroupsResponse
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from bifrost.protocol.schema import Message
from tests.unit.coordinator.classic.stand_ins import CLIENT, DELAY_MS, Shard

M = TypeVar("M", bound=Message)


def over_the_wire(message: M, version: int) -> M:
    return reader(type(message), version)(bytes(writer(type(message), version)(message)), 0)[0]


def receive(into: list[M], version: int) -> Callable[[M], None]:
    return lambda response: into.append(over_the_wire(response, version))


def join(shard: Shard, version: int, member_id: str = "", name: str = "range") -> list[JoinGroupResponse]:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=b"")],
    )
    answers: list[JoinGroupResponse] = []
    respond = receive(answers, version)
    shard.core.join(over_the_wire(request, version), version=version, client=CLIENT, respond=respond)
    return answers


@pytest.mark.parametrize("version", JoinGroupRequest.versions)
def test_join(version: int) -> None:
    shard = Shard()
    answers = join(shard, version)
    if version >= 4:
        assert answers[0].error_code == ErrorCode.MEMBER_ID_REQUIRED
        answers = join(shard, version, answers[0].member_id)
    shard.advance(DELAY_MS)
    (answer,) = answers
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, answer.member_id)
    assert (answer.protocol_name, len(answer.members)) == ("range", 1)
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert shard.group.rebalance_timeout_ms == (20_000 if version else 10_000)
    (refused,) = join(shard, version, name="other")
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", SyncGroupRequest.versions)
def test_sync(version: int) -> None:
    shard = Shard()
    member, _ = shard.enter()
    shard.advance(DELAY_MS)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"a")],
    )
    answers: list[SyncGroupResponse] = []
    shard.core.sync(over_the_wire(request, version), version=version, respond=receive(answers, version))
    assert [(one.error_code, one.assignment) for one in answers] == [(ErrorCode.NONE, b"a")]
    assert answers[0].protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", HeartbeatRequest.versions)
def test_heartbeat(version: int) -> None:
    shard = Shard()
    (member,) = shard.stable()
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    assert shard.core.heartbeat(over_the_wire(request, version)) == ErrorCode.NONE


@pytest.mark.parametrize("version", LeaveGroupRequest.versions)
def test_leave(version: int) -> None:
    shard = Shard()
    (member,) = shard.stable()
    request = LeaveGroupRequest(group_id="g", member_id=member, members=[MemberIdentity(member_id=member)])
    answer: LeaveGroupResponse = over_the_wire(shard.core.leave(over_the_wire(request, version), version), version)
    assert (answer.error_code, len(answer.members)) == (ErrorCode.NONE, 1 if version >= 3 else 0)
    assert shard.state is ClassicState.EMPTY


@pytest.mark.parametrize("version", DescribeGroupsResponse.versions)
def test_describe(version: int) -> None:
    shard = Shard()
    (member,) = shard.stable()
    groups = [shard.core.describe(name, version) for name in ("g", "x")]
    known, missing = over_the_wire(DescribeGroupsResponse(groups=groups), version).groups
    assert (known.group_state, known.members[0].member_id) == ("Stable", member)
    assert (missing.group_state, missing.error_code != ErrorCode.NONE) == ("Dead", version >= 6)
