"""What members are told while their coordinator is loading, or is somebody else."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bifrost.broker.handlers.group_offsets import offset_commit, offset_fetch
from bifrost.broker.handlers.groups import heartbeat, join_group, leave_group, sync_group
from bifrost.broker.registry import APIS
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

LOADING, ELSEWHERE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
SYNC = SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
JOIN = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
LEAVE = LeaveGroupRequest(group_id="g")
COMMIT = OffsetCommitRequest(
    group_id="g",
    topics=[
        OffsetCommitRequestTopic(
            name="t", partitions=[OffsetCommitRequestPartition(partition_index=2, committed_offset=1)]
        )
    ],
)


class Refusing:
    """A coordinator that cannot help."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def ask(self, *_: Any) -> Any:
        raise ApiError(self._code)

    async def ask_each(self, group_ids: list[str], _question: Any, refused: Any) -> list[Any]:
        return [refused(group_id, ApiError(self._code)) for group_id in group_ids]


class Context:
    """As much of a request's context as these handlers look at."""

    def __init__(self, code: ErrorCode, version: int = 3) -> None:
        self.broker = self
        self.groups = Refusing(code)
        self.version = version
        self.client_id = "app"


def refusal(handler: Any, context: Any, request: Any) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        handler(context, request)
    return refused.value.code


def test_a_sync_while_loading_sends_the_member_back_to_join() -> None:
    assert refusal(sync_group, Context(LOADING), SYNC) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refusal(sync_group, Context(ELSEWHERE), SYNC) is ELSEWHERE


def test_a_heartbeat_while_loading_is_taken_on_trust() -> None:
    assert heartbeat(Context(LOADING), HEARTBEAT) == HeartbeatResponse()
    assert refusal(heartbeat, Context(ELSEWHERE), HEARTBEAT) is ELSEWHERE


@pytest.mark.parametrize(("handler", "request_"), [(join_group, JOIN), (leave_group, LEAVE), (offset_commit, COMMIT)])
def test_everybody_else_is_told_as_it_is(handler: Any, request_: Any) -> None:
    assert refusal(handler, Context(LOADING), request_) is LOADING


def test_a_group_of_members_has_a_name() -> None:
    for handler, request in ((join_group, JOIN), (sync_group, SYNC), (heartbeat, HEARTBEAT), (leave_group, LEAVE)):
        nameless = msgspec.structs.replace(request, group_id="")
        assert refusal(handler, Context(LOADING), nameless) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(1, 8))
def test_a_fetch_of_one_group_carries_its_error_where_the_version_has_a_place_for_it(version: int) -> None:
    wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(group_id="g", topics=wanted)
    answer: Any = asyncio.run(offset_fetch(Context(LOADING, version), request))  # type: ignore[arg-type]
    if version == 1:
        assert [one.error_code for one in answer.topics[0].partitions] == [LOADING, LOADING]
        assert [one.committed_offset for one in answer.topics[0].partitions] == [-1, -1]
    else:
        assert (answer.error_code, answer.topics) == (LOADING, [])


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT])
def test_a_fetch_never_answers_what_old_consumers_do_not_know(code: ErrorCode) -> None:
    answer: Any = asyncio.run(offset_fetch(Context(code, 7), OffsetFetchRequest(group_id="g")))  # type: ignore[arg-type]
    assert answer.error_code == ELSEWHERE


def test_every_api_of_groups_is_announced_as_a_4_3_broker_does() -> None:
    announced = {key: (entry.versions.start, entry.versions.stop - 1) for key, entry in APIS.items()}
    expected = {
        ApiKey.OFFSET_COMMIT: (2, 10),
        ApiKey.OFFSET_FETCH: (1, 10),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.DESCRIBE_GROUPS: (0, 6),
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.DELETE_GROUPS: (0, 2),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    }
    assert {key: announced[key] for key in expected} == expected
