"""Bugs to plant into classic groups, so that the simulation can prove that it would find them.

Each takes back one promise of the core. `test_classic.py` names what shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from bifrost.coordinator.core.classic import groups, leave, liveness, sync
from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState
from bifrost.coordinator.core.classic.join import Joins
from bifrost.coordinator.core.classic.member import NO_ASSIGNMENT, Member
from bifrost.coordinator.core.classic.rebalances import Rebalances
from bifrost.errors import ErrorCode

Planted = AbstractContextManager[Any]


def same_generation() -> Planted:
    """The number of a generation is used for the next one too."""
    start = ClassicGroup.start_generation

    def start_again(self: ClassicGroup, now_ms: int) -> None:
        start(self, now_ms)
        self.generation = max(self.generation - 1, 1)

    return patch.object(ClassicGroup, "start_generation", start_again)


def assignment_of_before() -> Planted:
    """A follower need not wait for the leader: it gets what it had in the last generation."""
    has_synced = Rebalances.has_synced

    def answer_early(self: Rebalances, group: ClassicGroup, member: Member) -> None:
        has_synced(self, group, member)
        if group.leader != member.member_id and member.assignment:
            group.state = ClassicState.STABLE

    return patch.object(Rebalances, "has_synced", answer_early)


def leave_unnoticed() -> Planted:
    """Who leaves is gone, and the others are not told."""

    def leave_only(*args: Any) -> Any:
        with patch.object(Rebalances, "prepare_or_complete", lambda self, group: None):
            return leave.leave(*args)

    return patch.object(groups, "leave", leave_only)


def any_generation() -> Planted:
    """Commits and heartbeats are taken from members of every generation."""
    return patch.object(liveness, "_check_generation", lambda group, generation: None)


def sync_any_generation() -> Planted:
    """A leader may assign to a generation that it has never heard of."""
    return patch.object(sync, "_check_generation", lambda group, request: None)


def nobody_is_fenced() -> Planted:
    """The old process of a static member stays in the group beside the new one."""
    check = ClassicGroup.check_member

    def check_id_only(self: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
        if instance_id in self.static_members:
            member_id = self.static_members[instance_id]
        return check(self, member_id, instance_id)

    return patch.object(ClassicGroup, "check_member", check_id_only)


def forget_who_was_overtaken() -> Planted:
    """As Kafka does: the first of two joins of a member is never answered."""

    def park(self: ClassicGroup, member: Member, respond: Any) -> None:
        self._joined += member.joining is None  # type: ignore[attr-defined]
        member.joining = respond

    return patch.object(ClassicGroup, "park_join", park)


def forget_who_was_removed() -> Planted:
    """As Kafka does: who leaves while it waits for its assignment is never answered."""
    remove = Rebalances.remove

    def remove_silently(self: Rebalances, group: ClassicGroup, member: Member) -> None:
        member.syncing = None
        remove(self, group, member)

    return patch.object(Rebalances, "remove", remove_silently)


def answer_again() -> Planted:
    """Who has been answered is still waiting."""

    def answer(self: ClassicGroup, member: Member, response: Any) -> None:
        if member.joining is not None:
            member.joining(response)

    return patch.object(ClassicGroup, "answer_join", answer)


def keep_who_waits_at_unload() -> Planted:
    """A group that moves away takes along those who wait."""

    def unload(self: groups.ClassicGroups) -> None:
        for group in self._classic():  # type: ignore[attr-defined]
            self._rebalances.stop(group)  # type: ignore[attr-defined]
            del self._groups[group.group_id]  # type: ignore[attr-defined]

    return patch.object(groups.ClassicGroups, "unload", unload)


def write_nothing() -> Planted:
    """Assignments are given out and not written down."""
    write = Rebalances.write

    def write_new_groups_only(self: Rebalances, group: ClassicGroup) -> None:
        if not group.members:
            write(self, group)

    return patch.object(Rebalances, "write", write_new_groups_only)


def write_before_assigning() -> Planted:
    """The record has the members, and not what they were given."""
    write = Rebalances.write

    def write_bare(self: Rebalances, group: ClassicGroup) -> None:
        given = {member_id: member.assignment for member_id, member in group.members.items()}
        for member in group.members.values():
            member.assignment = NO_ASSIGNMENT
        write(self, group)
        for member_id, member in group.members.items():
            member.assignment = given[member_id]

    return patch.object(Rebalances, "write", write_bare)


def replace_in_memory_only() -> Planted:
    """A static member's new id is not written down."""
    return patch.object(Joins, "_write_replacement", lambda self, group, old, new: None)


def immortal_members() -> Planted:
    """No session ever ends."""
    return patch.object(Rebalances, "_session_over", lambda self, group, member_id: None)


def endless_joining() -> Planted:
    """A rebalance waits for everybody, for ever."""
    return patch.object(Rebalances, "_await_joins", lambda self, group: None)


def assign_despite_a_failed_write() -> Planted:
    """The log refused, and the members are told all the same."""
    write = Rebalances.write

    def write_or_not(self: Rebalances, group: ClassicGroup) -> None:
        try:
            write(self, group)
        except Exception as error:
            if getattr(error, "code", None) is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise

    return patch.object(Rebalances, "write", write_or_not)


def forget_names() -> Planted:
    """Who is removed keeps its name, and nobody can take its place."""
    remove = ClassicGroup.remove

    def remove_id_only(self: ClassicGroup, member: Member) -> None:
        names = dict(self.static_members)
        remove(self, member)
        self.static_members = names

    return patch.object(ClassicGroup, "remove", remove_id_only)


def leader_for_life() -> Planted:
    """A leader that is gone still leads."""
    remove = ClassicGroup.remove

    def remove_follower(self: ClassicGroup, member: Member) -> None:
        leader = self.leader
        remove(self, member)
        self.leader = leader

    return patch.object(ClassicGroup, "remove", remove_follower)


def sessions_of_nobody() -> Planted:
    """The session of an id that was replaced goes on."""
    return patch.object(Rebalances, "end_session", lambda self, group, member_id: None)


PLANTED: dict[Callable[[], Planted], str] = {
    same_generation: "two owners",
    assignment_of_before: "two owners",
    leave_unnoticed: "not all owned",
    sync_any_generation: "not all owned",
    any_generation: "stale commit",
    nobody_is_fenced: "fenced commit",
    answer_again: "answered twice",
    forget_who_was_overtaken: "never answered",
    forget_who_was_removed: "never answered",
    keep_who_waits_at_unload: "never answered",
    endless_joining: "never answered",
    write_nothing: "forgotten",
    write_before_assigning: "forgotten",
    replace_in_memory_only: "forgotten",
    assign_despite_a_failed_write: "forgotten",
    immortal_members: "not healed",
    forget_names: "parts disagree",
    leader_for_life: "no leader",
    sessions_of_nobody: "clocks left",
}
"""Each with what has to show it."""
