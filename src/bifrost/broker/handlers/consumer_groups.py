"""Groups of the newer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Awaitable

from bifrost.broker.context import RequestContext
from bifrost.broker.handlers.group_admin import GROUP_OPERATIONS
from bifrost.broker.handlers.groups import check_group_id, client
from bifrost.broker.registry import api
from bifrost.controller.core.features import GROUP_VERSION, feature_level
from bifrost.coordinator.core.shard import GroupShard
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.consumer_group_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

CONSUMER = "consumer"


@api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=range(2),
    on_error=lambda _request, code, detail: ConsumerGroupHeartbeatResponse(error_code=code, error_message=detail),
)
def consumer_group_heartbeat(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """v1: regular expressions, and members choose their own ids (KIP-1082)."""
    if CONSUMER not in ctx.broker.settings.group_coordinator_rebalance_protocols:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "the consumer protocol is switched off")
    if feature_level(ctx.broker.image, GROUP_VERSION) == 0:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "the consumer protocol is switched off by group.version")
    return ctx.broker.groups.ask(
        request.group_id,
        lambda shard, respond: shard.consumer.heartbeat(
            request, version=ctx.version, client=client(ctx), respond=respond
        ),
    )


@api(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=range(2))
async def consumer_group_describe(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """v1 tells members of the two protocols apart (KIP-1099)."""
    groups = await ctx.broker.groups.ask_each(
        request.group_ids,
        lambda group_id: lambda shard, respond: respond(_describe(shard, group_id)),
        lambda group_id, error: DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.detail or None
        ),
    )
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(shard: GroupShard, group_id: str) -> DescribedGroup:
    check_group_id(group_id)
    return shard.consumer.describe(group_id)
