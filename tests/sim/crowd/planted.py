"""Bugs to plant into the group coordinator, as `planted` does with the rest of the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from bifrost.coordinator.core.assignors import ASSIGNORS
from bifrost.coordinator.core.assignors.subscribers import Assignor
from bifrost.coordinator.core.classic import liveness
from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState, answer_sync
from bifrost.coordinator.core.classic.rebalances import Rebalances
from bifrost.coordinator.core.classic.sync import Syncs
from bifrost.coordinator.core.consumer import commits, heartbeat
from bifrost.coordinator.core.consumer.groups import ConsumerGroups
from bifrost.coordinator.core.consumer.reconciliation import Aim, reconcile
from bifrost.coordinator.journal import Journal
from bifrost.coordinator.loading import Loading
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.groups import SyncGroupRequest
from tests.sim.bug import Bug


def answer_before_safe() -> AbstractContextManager[Any]:
    """Answers are not held back until what they tell of is safe."""
    return patch.object(Journal, "is_safe", lambda self, end_offset: True)


def load_in_part() -> AbstractContextManager[Any]:
    """Loading leaves a batch out now and then."""
    effective = Loading._effective

    def leave_out(self: Loading, data: Any, position: int, header: Any) -> Any:
        found = effective(self, data, position, header)
        return [] if header.base_offset % 5 == 3 else found

    return patch.object(Loading, "_effective", leave_out)


def any_generation() -> AbstractContextManager[Any]:
    """Commits and heartbeats are taken from members of every generation."""
    return patch.object(liveness, "_check_generation", lambda group, generation: None)


def any_epoch() -> AbstractContextManager[Any]:
    """Commits are taken from members of every epoch."""
    return patch.object(commits, "check_commit", lambda *arguments: None)


def generations_in_memory() -> AbstractContextManager[Any]:
    """Generations of classic groups are not written down, and begin anew after every start."""
    return patch.object(Rebalances, "write", lambda self, group: None)


def sync_before_the_leader() -> AbstractContextManager[Any]:
    """A follower does not wait for the leader's assignment: it gets what it had in the generation before."""
    sync = Syncs.sync

    def answer_early(self: Syncs, request: SyncGroupRequest, version: int, respond: Any) -> None:
        group: Any = self._groups.get(request.group_id)
        member = group and group.members.get(request.member_id)
        is_early = member and group.state is ClassicState.COMPLETING_REBALANCE and member.member_id != group.leader
        if is_early and request.generation_id == group.generation and member.assignment:
            self._rebalances.has_synced(group, member)
            respond(self._rebalances.synced(group, member))
        else:
            sync(self, request, version, respond)

    return patch.object(Syncs, "sync", answer_early)


def give_what_is_taken() -> AbstractContextManager[Any]:
    """A member of a consumer group gets its partitions before their owners have given them up."""

    def take(member: Any, aim: Aim, **options: Any) -> Any:
        return reconcile(member, msgspec.structs.replace(aim, taken=()), **options)

    return patch.object(heartbeat, "reconcile", take)


@contextmanager
def overlook_a_partition() -> Iterator[None]:
    """The coordinator's assignors do not know of the last partition of each topic."""

    def shorten(assign: Assignor) -> Assignor:
        return lambda subscribers, counts: assign(subscribers, {topic: count - 1 for topic, count in counts.items()})

    with patch.dict(ASSIGNORS, {name: shorten(assign) for name, assign in ASSIGNORS.items()}):
        yield


def forget_followers() -> AbstractContextManager[Any]:
    """The leader's assignment is told to the leader alone."""

    def answer_leader(self: Rebalances, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
        leader = group.members.get(group.leader or "")
        if leader is not None:
            answer_sync(leader, self.synced(group, leader, error))

    return patch.object(Rebalances, "answer_syncs", answer_leader)


@contextmanager
def immortal_members() -> Iterator[None]:
    """No session ever ends."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(Rebalances, "_session_over", lambda self, group, member_id: None))
        stack.enter_context(patch.object(ConsumerGroups, "_expire", lambda self, *arguments: None))
        yield


_ENDS = ("kill", "restart")
_BOTH = ("classic", "consumer")

GROUP_PLANTED = {
    "answer-before-safe": Bug(answer_before_safe, "ack", ("lose_power", "slow_disk"), ("lost commit",), _BOTH),
    "load-in-part": Bug(load_in_part, "ack", _ENDS, ("lost commit",), _BOTH),
    "any-generation": Bug(any_generation, "ack", _ENDS, ("stale commit",), _BOTH),
    "any-epoch": Bug(any_epoch, "ack", _ENDS, ("stale commit",), _BOTH),
    "generations-in-memory": Bug(generations_in_memory, "ack", _ENDS, ("two owners",), _BOTH),
    "sync-before-the-leader": Bug(sync_before_the_leader, "ack", _ENDS, ("two owners",), _BOTH),
    "give-what-is-taken": Bug(give_what_is_taken, "ack", _ENDS, ("shared partition",), _BOTH),
    "overlook-a-partition": Bug(overlook_a_partition, "ack", _ENDS, ("unowned partition",), _BOTH),
    "forget-followers": Bug(forget_followers, "ack", _ENDS, ("unanswered",), _BOTH),
    "immortal-members": Bug(immortal_members, "ack", _ENDS, ("unowned partition",), _BOTH),
}
