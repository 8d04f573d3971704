"""What a member may have next, on its way from what it has to what it shall have. Kafka: CurrentAssignmentBuilder.

A member gives up before it gets: while it owns something that is no longer meant for it, it stays in its epoch. Then
it moves to the epoch of the target and gets what nobody else owns any more, and the rest as it becomes free. That no
partition ever has two owners rests on this file: what somebody holds, or was told to give up and may still hold, is
given to nobody else.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence, Set
from uuid import UUID

import msgspec

from bifrost.coordinator.core.assignors.subscribers import Assignment
from bifrost.coordinator.core.consumer.member import Holdings, Member, MemberState
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.consumer_groups import TopicPartitions


class Aim(msgspec.Struct, frozen=True):
    """Where a member is going."""

    epoch: int
    """The epoch of the target assignment."""
    target: Assignment
    topics: Set[UUID]
    """What the member reads. The target may be older than its subscription."""
    taken: Container[tuple[UUID, int]]
    """Every partition that somebody holds, the member itself included."""


def reconcile(
    member: Member, aim: Aim, *, owned: Sequence[TopicPartitions] | None, subscription_changed: bool
) -> Member:
    """The member after its heartbeat; `owned` is what it says it has, None if it does not say."""
    match member.state:
        case MemberState.STABLE if member.epoch == aim.epoch:
            return _without_unsubscribed(member, aim.topics, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _holds(owned, member.revoking):
            return _without_unsubscribed(member, aim.topics, owned) if subscription_changed else member
        case MemberState.UNKNOWN if owned is None or owned:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is unknown; it must give up all and join again"
            )
        case MemberState.UNKNOWN:
            return _advance(msgspec.structs.replace(member, epoch=aim.epoch), aim, owned)
        case _:
            return _advance(member, aim, owned)


def _advance(member: Member, aim: Aim, owned: Sequence[TopicPartitions] | None) -> Member:
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    added: dict[UUID, dict[int, int]] = {}
    waits = False
    for topic_id in aim.target.keys() | member.assigned.keys():
        wanted = aim.target.get(topic_id, frozenset()) if topic_id in aim.topics else frozenset()
        has = member.assigned.get(topic_id, {})
        own = member.revoking.get(topic_id, {})
        missing = wanted - has.keys()
        free = {p for p in missing if p in own or (topic_id, p) not in aim.taken}
        waits = waits or len(free) < len(missing)
        _put(assigned, topic_id, {p: epoch for p, epoch in has.items() if p in wanted})
        _put(revoking, topic_id, {p: epoch for p, epoch in has.items() if p not in wanted})
        _put(added, topic_id, dict.fromkeys(free, aim.epoch))
    if revoking and _holds(owned, revoking):
        return msgspec.structs.replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )
    for topic_id, partitions in added.items():
        assigned.setdefault(topic_id, {}).update(partitions)
    return msgspec.structs.replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        epoch=aim.epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking={},
    )


def _without_unsubscribed(member: Member, topics: Set[UUID], owned: Sequence[TopicPartitions] | None) -> Member:
    """What the member no longer reads is taken back at once, and not only by the next assignment."""
    lost = [topic_id for topic_id in member.assigned if topic_id not in topics]
    if not lost:
        return member
    assigned = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in topics}
    revoking = {topic_id: dict(partitions) for topic_id, partitions in member.revoking.items()}
    for topic_id in lost:
        revoking.setdefault(topic_id, {}).update(member.assigned[topic_id])
    if _holds(owned, revoking):
        return msgspec.structs.replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )
    return msgspec.structs.replace(member, previous_epoch=member.epoch, assigned=assigned)


def _holds(owned: Iterable[TopicPartitions] | None, holdings: Holdings) -> bool:
    """Who does not say what it owns has given up nothing."""
    if owned is None:
        return True
    return any(not holdings.get(topic.topic_id, {}).keys().isdisjoint(topic.partitions) for topic in owned)


def _put(holdings: dict[UUID, dict[int, int]], topic_id: UUID, partitions: dict[int, int]) -> None:
    if partitions:
        holdings[topic_id] = partitions
