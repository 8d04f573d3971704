"""Heartbeats and commits: whether a member is who it says, in the generation it says, and that it lives.

Kafka: classicGroupHeartbeat, ClassicGroup.validateOffsetCommit.
"""

from __future__ import annotations

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState, Groups, find_group
from bifrost.coordinator.core.classic.rebalances import Rebalances
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.groups import HeartbeatRequest


def heartbeat(groups: Groups, rebalances: Rebalances, request: HeartbeatRequest) -> ErrorCode:
    """A member that lives also hears in this way that it has to join again."""
    try:
        group = find_group(groups, request.group_id)
        member = group.check_member(request.member_id, request.group_instance_id)
        _check_generation(group, request.generation_id)
    except ApiError as error:
        return error.code
    rebalances.renew_session(group, member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_commit(
    group: ClassicGroup,
    rebalances: Rebalances,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> None:
    """Whether offsets may be committed, or `ApiError`; who commits lives.

    From outside, without a generation, only an empty group takes them. Members may commit while a rebalance gathers
    them, for what they have read is still theirs, and no longer when the next generation has begun.
    """
    if generation < 0 and group.is_empty:
        return
    if generation < 0 and not member_id and instance_id is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has members: only they may commit")
    member = group.check_member(member_id, instance_id)
    _check_generation(group, generation)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"{group.group_id} has no assignment yet")
    rebalances.renew_session(group, member)


def _check_generation(group: ClassicGroup, generation: int) -> None:
    if generation != group.generation:
        detail = f"{group.group_id} is at generation {group.generation}, not {generation}"
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, detail)
