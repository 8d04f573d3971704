"""LeaveGroup: members go by themselves, or an administrator removes them. Kafka: classicGroupLeave."""

from __future__ import annotations

from bifrost.coordinator.core.classic.group import ClassicGroup, Groups, find_group
from bifrost.coordinator.core.classic.rebalances import Rebalances
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

_MANY_SINCE = 3  # KIP-345


def leave(groups: Groups, rebalances: Rebalances, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
    """One rebalance for all that go; one that cannot go does not keep the others."""
    many = version >= _MANY_SINCE
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]
    codes: list[ErrorCode]
    try:
        group = find_group(groups, request.group_id)
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=error.code)
        codes = [error.code] * len(leaving)
    else:
        codes = [_remove(group, rebalances, one) for one in leaving]
        if ErrorCode.NONE in codes and not group.is_empty:
            rebalances.prepare_or_complete(group)
    if not many:
        return LeaveGroupResponse(error_code=codes[0])
    members = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
        for one, code in zip(leaving, codes, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def _remove(group: ClassicGroup, rebalances: Rebalances, leaving: MemberIdentity) -> ErrorCode:
    """An administrator knows a static member by its name and not by its id."""
    if leaving.member_id in group.pending_joins:
        rebalances.drop_pending(group, leaving.member_id)
        return ErrorCode.NONE
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        member_id = group.static_members.get(leaving.group_instance_id, "")
    try:
        member = group.check_member(member_id, leaving.group_instance_id)
    except ApiError as error:
        return error.code
    rebalances.remove(group, member)
    return ErrorCode.NONE
