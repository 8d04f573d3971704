"""The way from one generation of a classic group to the next, and every clock along it. Kafka: GroupMetadataManager.

    Empty --join--> PreparingRebalance --all joined, or too late--> CompletingRebalance --leader's sync--> Stable
                            ^                                                |                              |
                            +---- somebody joins, leaves, dies or changes ---+------------------------------+

Clocks: a session for every member (`renew_session`), one for the joining, one for the syncing. They run over into the
methods at the end. Which request starts what is decided in `join`, `sync` and `leave`.
"""

from __future__ import annotations

from functools import partial

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState, answer_sync
from bifrost.coordinator.core.classic.member import NO_ASSIGNMENT, Member
from bifrost.coordinator.core.classic.persistence import group_record
from bifrost.coordinator.core.environment import Environment
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.groups import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse


class Rebalances:
    """Moves the groups of one shard."""

    __slots__ = ("_env", "_settings")

    def __init__(self, env: Environment, settings: GroupSettings) -> None:
        self._env = env
        self._settings = settings

    def write(self, group: ClassicGroup) -> None:
        """The group as it is now. `ApiError` if the log does not take it."""
        self._env.journal.append([group_record(group)])

    # Sessions

    def renew_session(self, group: ClassicGroup, member: Member) -> None:
        self._set_session(group, member.member_id, member.session_timeout_ms)

    def await_first_generation(self, group: ClassicGroup, member: Member) -> None:
        """A new member cannot send heartbeats, and a client that gave up and came again is one more new member."""
        self._set_session(group, member.member_id, self._settings.new_member_join_timeout_ms)

    def await_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """An id was given out (KIP-394): whoever has it comes back soon, or never."""
        group.pending_joins.add(member_id)
        self._set_session(group, member_id, timeout_ms)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_joins.discard(member_id)
        self._env.deadlines.drop(_session(group, member_id))

    def remove(self, group: ClassicGroup, member: Member) -> None:
        """What the member still waits for is answered, so that a client that lives joins again (Kafka forgets it)."""
        group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=""))
        answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member)
        self._env.deadlines.drop(_session(group, member.member_id))

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """Of an id that nobody has any more."""
        self._env.deadlines.drop(_session(group, member_id))

    def stop(self, group: ClassicGroup) -> None:
        """The group is gone from here, with all its clocks."""
        for member_id in (*group.members, *sorted(group.pending_joins)):
            self._env.deadlines.drop(_session(group, member_id))
        self._env.deadlines.drop(_join(group))
        self._env.deadlines.drop(_sync(group))
        group.move_to(ClassicState.DEAD, self._env.now_ms())

    # Towards the next generation

    def prepare_or_complete(self, group: ClassicGroup) -> None:
        """Something changed: start a rebalance, or see whether the one that runs has waited for just this."""
        if group.can_rebalance:
            self.prepare(group)
        else:
            self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup) -> None:
        """Everybody has to join again."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._env.deadlines.drop(_sync(group))
        if group.is_empty:
            group.move_to(ClassicState.PREPARING_REBALANCE, self._env.now_ms())
            group.newcomers = False
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._hold_back(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            return
        group.move_to(ClassicState.PREPARING_REBALANCE, self._env.now_ms())
        if group.all_joined:
            self.complete(group)
        else:
            self._await_joins(group)

    def complete_if_all_joined(self, group: ClassicGroup) -> None:
        """The first rebalance is not over when all are there: it waits for those that nobody knows yet."""
        if group.state is ClassicState.PREPARING_REBALANCE and not group.is_first_rebalance and group.all_joined:
            self.complete(group)

    def complete(self, group: ClassicGroup) -> None:
        """The next generation begins, without the dynamic members that have not joined; static ones stay (KIP-345)."""
        self._env.deadlines.drop(_join(group))
        for member in [one for one in group.members.values() if one.joining is None and not one.is_static]:
            self.remove(group, member)
        if not group.elect_leader() and group.members:
            self._await_joins(group)  # silent static members only: their sessions will run out
            return
        group.start_generation(self._env.now_ms())
        if group.is_empty:
            self._write_emptiness(group)
            return
        for member in group.members.values():
            group.answer_join(member, self.joined(group, member))
            self.renew_session(group, member)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._set(_sync(group), group.rebalance_timeout_ms, partial(self._sync_over, group, group.generation))

    def joined(self, group: ClassicGroup, member: Member) -> JoinGroupResponse:
        """The current generation as a member hears of it: the leader hears of all the others too."""
        response = JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader or "",
            member_id=member.member_id,
        )
        if group.leader == member.member_id:
            response.members = [
                JoinGroupResponseMember(
                    member_id=other.member_id,
                    group_instance_id=other.instance_id,
                    metadata=other.protocols[group.protocol or ""],
                )
                for other in group.members.values()
            ]
        return response

    # Assignments

    def stabilize(self, group: ClassicGroup) -> None:
        """The leader's assignment is written down: everybody hears its part, at once or when it asks."""
        self.answer_syncs(group)
        group.move_to(ClassicState.STABLE, self._env.now_ms())

    def answer_syncs(self, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
        """Everybody who waits gets its assignment, or hears that there is none."""
        for member in group.members.values():
            if error:
                member.assignment = NO_ASSIGNMENT
            if answer_sync(member, self.synced(group, member, error)):
                self.renew_session(group, member)  # it may have run out while the member waited

    def synced(self, group: ClassicGroup, member: Member, error: ErrorCode = ErrorCode.NONE) -> SyncGroupResponse:
        if error:
            return SyncGroupResponse(error_code=error)
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )

    def has_synced(self, group: ClassicGroup, member: Member) -> None:
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self._env.deadlines.drop(_sync(group))

    # What the clocks do

    def _session_over(self, group: ClassicGroup, member_id: str) -> None:
        if member_id in group.pending_joins:
            self.drop_pending(group, member_id)
        else:
            member = group.members[member_id]
            if member.is_waiting:
                return
            self.remove(group, member)
            if group.can_rebalance:
                self.prepare(group)
                return
        if group.state is ClassicState.PREPARING_REBALANCE and group.all_joined:
            self.complete(group)

    def _delay_over(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        if group.newcomers and remaining_ms > 0:
            group.newcomers = False
            next_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
            self._hold_back(group, next_ms, max(remaining_ms - delay_ms, 0))
        else:
            self.complete(group)

    def _sync_over(self, group: ClassicGroup, generation: int) -> None:
        """Whoever heard of the generation and never asked for its part blocks nobody any longer."""
        late = [member for member in group.members.values() if member.member_id in group.pending_syncs]
        if generation != group.generation or not late:
            return
        for member in late:
            self.remove(group, member)
        self.prepare(group)

    def _hold_back(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._set(_join(group), delay_ms, partial(self._delay_over, group, delay_ms, remaining_ms))

    def _await_joins(self, group: ClassicGroup) -> None:
        self._set(_join(group), group.rebalance_timeout_ms, partial(self.complete, group))

    def _set_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        self._set(_session(group, member_id), timeout_ms, partial(self._session_over, group, member_id))

    def _set(self, name: tuple[str, ...], delay_ms: int, action: partial[None]) -> None:
        self._env.deadlines.set(name, self._env.monotonic_ms() + delay_ms, action)

    def _write_emptiness(self, group: ClassicGroup) -> None:
        """If the log does not take it, the last generation comes back after a restart, and its sessions run out."""
        try:
            self.write(group)
        except ApiError:
            pass


def _session(group: ClassicGroup, member_id: str) -> tuple[str, ...]:
    return ("classic-session", group.group_id, member_id)


def _join(group: ClassicGroup) -> tuple[str, ...]:
    return ("classic-join", group.group_id)


def _sync(group: ClassicGroup) -> tuple[str, ...]:
    return ("classic-sync", group.group_id)
