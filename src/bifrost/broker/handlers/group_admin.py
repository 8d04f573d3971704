"""Groups as an administrator sees them: DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.coordinator.core.environment import Respond
from bifrost.coordinator.core.shard import GroupShard
from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Everything that can be done to a group (AclOperation 3, 6, 8, 10, 11), since there is no access control yet."""


@api(ApiKey.DESCRIBE_GROUPS, versions=range(7))
async def describe_groups(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """v3 authorized operations (KIP-430); v4 static members; v6 an error for what is not there (KIP-1043)."""
    groups = await ctx.broker.groups.ask_each(
        request.groups,
        lambda group_id: lambda shard, respond: respond(shard.describe(group_id, ctx.version)),
        lambda group_id, error: DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.detail),
    )
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


@api(ApiKey.LIST_GROUPS, versions=range(6))
async def list_groups(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """v4 filters by state (KIP-518), v5 by type (KIP-848). Each broker lists the groups that it coordinates."""
    parts: list[list[ListedGroup]] = await ctx.broker.groups.ask_all(
        lambda shard, respond: respond(shard.list_groups(request.states_filter, request.types_filter))
    )
    return ListGroupsResponse(groups=[group for part in parts for group in part])


@api(ApiKey.DELETE_GROUPS, versions=range(3))
async def delete_groups(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """KIP-229. Their offsets go with them."""
    results = await ctx.broker.groups.ask_each(
        list(dict.fromkeys(request.groups_names)),
        lambda group_id: lambda shard, respond: _delete(shard, group_id, respond),
        lambda group_id, error: DeletableGroupResult(group_id=group_id, error_code=error.code),
    )
    return DeleteGroupsResponse(results=results)


def _delete(shard: GroupShard, group_id: str, respond: Respond[DeletableGroupResult]) -> None:
    shard.delete(group_id)
    respond(DeletableGroupResult(group_id=group_id))
