"""JoinGroup: who may be in a classic group, and whether that starts a rebalance. Kafka: classicGroupJoin.

Refusals come in Kafka's order, so that a request with several faults is answered alike. A refused request leaves
nothing behind, not even the group that it was the first to name.
"""

from __future__ import annotations

from typing import NamedTuple

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState, Groups, answer_sync
from bifrost.coordinator.core.classic.member import Member
from bifrost.coordinator.core.classic.rebalances import Rebalances
from bifrost.coordinator.core.environment import Client, Environment, Respond
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

_REBALANCE_TIMEOUT_SINCE = 1
_MEMBER_ID_REQUIRED_SINCE = 4  # KIP-394
_SKIP_ASSIGNMENT_SINCE = 9  # KIP-814


class Join(NamedTuple):
    """One JoinGroup, with all that is needed to answer it later."""

    request: JoinGroupRequest
    version: int
    client: Client
    respond: Respond[JoinGroupResponse]
    protocols: dict[str, bytes]

    @property
    def rebalance_timeout_ms(self) -> int:
        return (
            self.request.rebalance_timeout_ms
            if self.version >= _REBALANCE_TIMEOUT_SINCE
            else self.request.session_timeout_ms
        )

    def refuse(self, code: ErrorCode, member_id: str) -> None:
        self.respond(JoinGroupResponse(error_code=code, member_id=member_id))

    def member(self, member_id: str) -> Member:
        """Whoever asks, as a member under this id."""
        return Member(
            member_id=member_id,
            instance_id=self.request.group_instance_id,
            client=self.client,
            session_timeout_ms=self.request.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
        )


class Joins:
    """Answers JoinGroup for one shard."""

    __slots__ = ("_env", "_groups", "_rebalances", "_settings")

    def __init__(self, env: Environment, groups: Groups, settings: GroupSettings, rebalances: Rebalances) -> None:
        self._env = env
        self._groups = groups
        self._settings = settings
        self._rebalances = rebalances

    def join(self, join: Join) -> None:
        """Answers at once, or when the next generation is known."""
        try:
            self._check_request(join.request)
            group = self._find(join)
            if not self._has_room(group, join.request.member_id):
                self._turn_away(group, join)
            elif not group.supports(join.request.protocol_type, join.protocols):
                join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.request.member_id)
            elif join.request.member_id:
                self._come_back(group, join)
            elif join.request.group_instance_id is not None:
                self._come_static(group, join, join.request.group_instance_id)
            else:
                self._come_dynamic(group, join)
        except ApiError as error:
            join.refuse(error.code, join.request.member_id)

    def _check_request(self, request: JoinGroupRequest) -> None:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group has no name")
        least, most = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        if not least <= request.session_timeout_ms <= most:
            detail = f"session timeout {request.session_timeout_ms} ms, expected {least} to {most}"
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT, detail)

    def _find(self, join: Join) -> ClassicGroup:
        """The group that is to be joined. It is made for a member without an id only: others are not new."""
        request = join.request
        known = self._groups.get(request.group_id)
        if isinstance(known, ClassicGroup):
            return known
        if known is not None and not known.is_empty:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{request.group_id} is not a classic group")
        if request.member_id:  # it forgets its id then, and an empty group of another kind is no hindrance any more
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no classic group {request.group_id}")
        group = ClassicGroup(request.group_id, state_since_ms=self._env.now_ms())
        if not group.supports(request.protocol_type, join.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member without any protocol")
        self._rebalances.write(group)
        self._groups[request.group_id] = group
        return group

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """While a rebalance runs, those who have joined count: in a group that is too large, the last ones drop out."""
        member = group.members.get(member_id)
        match group.state:
            case ClassicState.PREPARING_REBALANCE:
                waits = member is not None and member.joining is not None
                return waits or group.joined < self._settings.max_size
            case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
                return member is not None or len(group.members) < self._settings.max_size
            case _:
                return True

    def _turn_away(self, group: ClassicGroup, join: Join) -> None:
        """Whoever was in the group is no longer."""
        member_id = join.request.member_id
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.remove(group, member)
        elif member_id in group.pending_joins:
            self._rebalances.drop_pending(group, member_id)
        join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")

    def _come_dynamic(self, group: ClassicGroup, join: Join) -> None:
        """A client without an id of its own could join twice and not notice: since v4 it has to come back with one."""
        member_id = f"{join.client.client_id}-{self._env.new_id()}"
        if join.version >= _MEMBER_ID_REQUIRED_SINCE:
            self._rebalances.await_pending(group, member_id, join.request.session_timeout_ms)
            join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, join, member_id)

    def _come_static(self, group: ClassicGroup, join: Join, instance_id: str) -> None:
        member_id = f"{instance_id}-{self._env.new_id()}"
        known = group.static_members.get(instance_id)
        if known is None:
            self._add(group, join, member_id)
        else:
            self._replace(group, join, group.members[known], join.member(member_id))

    def _come_back(self, group: ClassicGroup, join: Join) -> None:
        """With an id that this coordinator gave out."""
        request = join.request
        if request.member_id in group.pending_joins and request.group_instance_id is None:
            self._add(group, join, request.member_id)
            return
        member = group.check_member(request.member_id, request.group_instance_id)
        leads = group.leader == request.member_id
        match group.state:
            case ClassicState.COMPLETING_REBALANCE if member.says(join.protocols):
                join.respond(self._rebalances.joined(group, member))  # the first answer may have been lost
            case ClassicState.STABLE if not leads and member.says(join.protocols):
                join.respond(self._rebalances.joined(group, member))
            case _:  # a leader asks for a rebalance in this way, when partitions were added for instance
                self._update(group, join, member)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> None:
        if not group.members:
            group.protocol_type = join.request.protocol_type
        if group.is_first_rebalance:
            group.newcomers = True
        member = join.member(member_id)
        member.is_new = True
        group.add(member)
        group.park_join(member, join.respond)
        self._rebalances.await_first_generation(group, member)
        self._rebalances.prepare_or_complete(group)

    def _update(self, group: ClassicGroup, join: Join, member: Member) -> None:
        group.describe_anew(member, join.protocols)
        member.session_timeout_ms = join.request.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        group.park_join(member, join.respond)
        self._rebalances.prepare_or_complete(group)

    def _replace(self, group: ClassicGroup, join: Join, old: Member, new: Member) -> None:
        """A static member was started anew: it keeps its place, and whoever uses the old id is fenced (KIP-345)."""
        old_leader = group.leader or ""
        fenced = ErrorCode.FENCED_INSTANCE_ID
        group.answer_join(old, JoinGroupResponse(error_code=fenced, member_id=old.member_id))
        answer_sync(old, SyncGroupResponse(error_code=fenced))
        new.assignment = old.assignment
        group.replace(old, new)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol:
            self._write_replacement(group, old, new)
            join.respond(self._welcome_back(group, join, new, old_leader))
        else:
            # The leader may know the old id already: what it assigns to that one would be lost.
            group.park_join(new, join.respond)
            self._rebalances.prepare_or_complete(group)
        self._rebalances.end_session(group, old.member_id)
        self._rebalances.renew_session(group, new)

    def _write_replacement(self, group: ClassicGroup, old: Member, new: Member) -> None:
        try:
            self._rebalances.write(group)
        except ApiError:
            group.replace(new, old)
            raise

    def _welcome_back(self, group: ClassicGroup, join: Join, new: Member, old_leader: str) -> JoinGroupResponse:
        """No rebalance, so a leader must not assign: it is told so, or, before v9, that somebody else leads."""
        response = self._rebalances.joined(group, new)
        if join.version >= _SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = group.leader == new.member_id
        else:
            response.leader = old_leader
            response.members = []
        return response
