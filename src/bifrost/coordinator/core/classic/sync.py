"""SyncGroup: the leader tells who reads what, everybody hears its part. Kafka: classicGroupSync."""

from __future__ import annotations

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState, Groups, answer_sync, find_group
from bifrost.coordinator.core.classic.member import NO_ASSIGNMENT
from bifrost.coordinator.core.classic.rebalances import Rebalances
from bifrost.coordinator.core.environment import Respond
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE = 5  # KIP-559


class Syncs:
    """Answers SyncGroup for one shard."""

    __slots__ = ("_groups", "_rebalances")

    def __init__(self, groups: Groups, rebalances: Rebalances) -> None:
        self._groups = groups
        self._rebalances = rebalances

    def sync(self, request: SyncGroupRequest, version: int, respond: Respond[SyncGroupResponse]) -> None:
        """Answers at once, or when the leader has spoken."""
        try:
            _check_request(request, version)
            group = find_group(self._groups, request.group_id)
            member = group.check_member(request.member_id, request.group_instance_id)
            _check_generation(group, request)
        except ApiError as error:
            respond(SyncGroupResponse(error_code=error.code))
            return
        if group.state is ClassicState.PREPARING_REBALANCE:
            respond(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            return
        self._rebalances.has_synced(group, member)
        if group.state is ClassicState.STABLE:
            self._rebalances.renew_session(group, member)
            respond(self._rebalances.synced(group, member))
            return
        answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))  # overtaken by this one
        member.syncing = respond
        if group.leader == member.member_id:
            self._assign(group, request)

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        """Nobody hears of an assignment that is not in the log: two coordinators could give out different ones."""
        assignments = {one.member_id: one.assignment for one in request.assignments}
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        try:
            self._rebalances.write(group)
        except ApiError as error:
            self._rebalances.answer_syncs(group, error.code)
            self._rebalances.prepare(group)
        else:
            self._rebalances.stabilize(group)


def _check_request(request: SyncGroupRequest, version: int) -> None:
    if version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "protocol type and name have to be given since v5")


def _check_generation(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if request.generation_id != group.generation:
        detail = f"{group.group_id} is at generation {group.generation}, not {request.generation_id}"
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, detail)
    for asked, agreed in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol),
    ):
        if asked is not None and agreed is not None and asked != agreed:
            detail = f"{group.group_id} agreed on {agreed}, not {asked}"
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
