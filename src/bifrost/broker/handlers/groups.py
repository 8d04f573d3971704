"""The life of a classic group's member: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from collections.abc import Awaitable

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.coordinator.core.environment import Client
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

NAME_LENGTH_MAX = 249
"""Of an instance id, as Kafka's own clients have it (JoinGroupRequest.validateGroupInstanceId)."""


@api(
    ApiKey.JOIN_GROUP,
    versions=range(10),
    on_error=lambda request, code, _detail: JoinGroupResponse(error_code=code, member_id=request.member_id),
)
def join_group(ctx: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """v1 rebalance timeout; v4 gives a new member its id first (KIP-394); v5 static members (KIP-345)."""
    check_group_id(request.group_id)
    if len(request.group_instance_id or "") > NAME_LENGTH_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"an instance id has at most {NAME_LENGTH_MAX} characters")
    return ctx.broker.groups.ask(
        request.group_id,
        lambda shard, respond: shard.join(request, version=ctx.version, client=client(ctx), respond=respond),
    )


@api(ApiKey.SYNC_GROUP, versions=range(6))
def sync_group(ctx: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """v3 static members (KIP-345); v5 names the protocol that the member believes in (KIP-559)."""
    check_group_id(request.group_id)
    try:
        return ctx.broker.groups.ask(
            request.group_id,
            lambda shard, respond: shard.classic.sync(request, version=ctx.version, respond=respond),
        )
    except ApiError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        # The generation that it waits for was lost on the way here, so it has to join again.
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, error.detail) from error


@api(ApiKey.HEARTBEAT, versions=range(5))
def heartbeat(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """v3 static members (KIP-345)."""
    check_group_id(request.group_id)
    try:
        return ctx.broker.groups.ask(
            request.group_id,
            lambda shard, respond: respond(HeartbeatResponse(error_code=shard.classic.heartbeat(request))),
        )
    except ApiError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return HeartbeatResponse()  # nobody knows better yet, and sessions start anew when loading is done


@api(ApiKey.LEAVE_GROUP, versions=range(6))
def leave_group(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """v3 many members at once (KIP-345); v5 with their reasons (KIP-800)."""
    check_group_id(request.group_id)
    return ctx.broker.groups.ask(
        request.group_id, lambda shard, respond: respond(shard.classic.leave(request, ctx.version))
    )


def check_group_id(group_id: str) -> None:
    """A group that has members has a name."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group has no name")


def client(ctx: RequestContext) -> Client:
    """Who asks, in Java's words. The id becomes a part of member ids, and those must fit into answers and records."""
    return Client((ctx.client_id or "")[:NAME_LENGTH_MAX], "/" + ctx.connection.peer.rpartition(":")[0])
