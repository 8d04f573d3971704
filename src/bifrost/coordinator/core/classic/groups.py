"""All classic groups of one shard: what the rest of the coordinator may ask of them.

An empty group of the other protocol is refused here as any other. To move it over, take it out of the log and out of
`groups` before its first classic member joins.
"""

from __future__ import annotations

from bifrost.coordinator.core.classic import liveness
from bifrost.coordinator.core.classic.describe import describe_group, describe_missing
from bifrost.coordinator.core.classic.group import ClassicGroup, Groups, answer_sync
from bifrost.coordinator.core.classic.join import Join, Joins
from bifrost.coordinator.core.classic.leave import leave
from bifrost.coordinator.core.classic.persistence import group_from_record, tombstone
from bifrost.coordinator.core.classic.rebalances import Rebalances
from bifrost.coordinator.core.classic.sync import Syncs
from bifrost.coordinator.core.environment import Client, Environment, LogRecord, Respond
from bifrost.coordinator.core.records import GroupMetadataKey, GroupMetadataValue
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.group_admin import DescribedGroup
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


class ClassicGroups:
    """The requests of classic members, and what the log says of their groups."""

    __slots__ = ("_groups", "_joins", "_rebalances", "_settings", "_syncs")

    def __init__(self, env: Environment, groups: Groups, settings: GroupSettings) -> None:
        self._groups = groups
        self._settings = settings
        self._rebalances = Rebalances(env, settings)
        self._joins = Joins(env, groups, settings, self._rebalances)
        self._syncs = Syncs(groups, self._rebalances)

    def join(
        self,
        request: JoinGroupRequest,
        *,
        version: int,
        client: Client,
        respond: Respond[JoinGroupResponse],
    ) -> None:
        """Answers at once, or when the next generation begins."""
        protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
        self._joins.join(Join(request, version, client, respond, protocols))

    def sync(self, request: SyncGroupRequest, *, version: int, respond: Respond[SyncGroupResponse]) -> None:
        """Answers at once, or when the leader has said who reads what."""
        self._syncs.sync(request, version, respond)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        return liveness.heartbeat(self._groups, self._rebalances, request)

    def leave(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        return leave(self._groups, self._rebalances, request, version)

    def check_commit(self, group: ClassicGroup, *, member_id: str, instance_id: str | None, generation: int) -> None:
        """Whether offsets may be committed, or `ApiError`; renews the member's session."""
        liveness.check_commit(
            group, self._rebalances, member_id=member_id, instance_id=instance_id, generation=generation
        )

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return describe_group(group)
        return describe_missing(group_id, "not found" if group is None else "is not a classic group", version)

    def delete(self, group: ClassicGroup) -> list[LogRecord]:
        """What takes an empty group out of the log; `ApiError` if it has members. Replaying it removes the group."""
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"{group.group_id} is {group.state.value}")
        return [tombstone(group.group_id)]

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """What the log says, while it is loaded or when a group was deleted."""
        known = self._groups.get(key.group)
        if isinstance(known, ClassicGroup):
            self._rebalances.stop(known)
            del self._groups[key.group]
        if value is not None:
            self._groups[key.group] = group_from_record(key, value)

    def loaded(self) -> None:
        """All of the log has been replayed: members have one session to show that they live."""
        for group in self._classic():
            for member in group.members.values():
                self._rebalances.renew_session(group, member)
            if len(group.members) > self._settings.max_size:
                self._rebalances.prepare(group)  # the limit was lowered, and the last to join will be refused

    def unload(self) -> None:
        """Another node leads these groups now: everybody who waits looks for it."""
        for group in self._classic():
            for member in group.members.values():
                moved = ErrorCode.NOT_COORDINATOR
                group.answer_join(member, JoinGroupResponse(error_code=moved, member_id=member.member_id))
                answer_sync(member, SyncGroupResponse(error_code=moved))
            self._rebalances.stop(group)
            del self._groups[group.group_id]

    def _classic(self) -> list[ClassicGroup]:
        return [group for group in self._groups.values() if isinstance(group, ClassicGroup)]
