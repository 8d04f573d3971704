"""A consumer group, as its records tell it. Kafka: ConsumerGroup.

Everything that lasts changes in `replay` alone. The three soft fields at the end may be forgotten at any time: the
worst that follows is work done again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from bifrost.coordinator.core.assignors.subscribers import Assignment
from bifrost.coordinator.core.consumer.member import LEFT, Member, MemberState, Subscription
from bifrost.coordinator.core.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from bifrost.protocol.schema import Message

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet; and nobody can have an older assignment, so it counts as assigned."""
NOTHING: Final[Assignment] = {}


class ConsumerGroupState(Enum):
    """As groups are listed and described."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """What a regular expression meant when it was last tried."""

    topics: frozenset[str]
    timestamp_ms: int


class ConsumerGroup:
    """Members, what each shall have, and who has what."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.subscriptions: Counter[Subscription] = Counter()
        self.resolved: dict[str, ResolvedRegex] = {}
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        self.targets: dict[str, Assignment] = {}
        self.owners: dict[tuple[UUID, int], str] = {}
        self.has_partition_metadata = False  # a record that Kafka wrote before 4.1

        self.metadata_is_stale = True  # topics may have changed since the group's epoch was set
        self.regexes_tried_at = -1  # the number of changes of topics that had been seen then

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member: Member) -> Assignment:
        """What a member shall have; a static one that comes back with a new id has what its last self had."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.targets.get(member_id, NOTHING)

    def regex_subscribers(self, regex: str) -> int:
        return sum(count for subscription, count in self.subscriptions.items() if subscription.regex == regex)

    def regexes(self) -> set[str]:
        return {subscription.regex for subscription in self.subscriptions if subscription.regex}

    def subscribed_topics(self) -> set[str]:
        """Every topic that somebody reads, whether it exists or not."""
        return self.topics_of(self.subscriptions)

    def topics_of(self, subscriptions: Iterable[Subscription]) -> set[str]:
        topics: set[str] = set()
        for subscription in subscriptions:
            topics |= self.topics(subscription)
        return topics

    def topics(self, subscription: Subscription) -> frozenset[str]:
        """A regular expression that has not been tried yet means nothing."""
        return subscription.names | self.topics_of_regex(subscription.regex)

    def topics_of_regex(self, regex: str) -> frozenset[str]:
        resolved = self.resolved.get(regex)
        return frozenset() if resolved is None else resolved.topics

    def last_refresh_ms(self) -> int | None:
        """When regular expressions were tried; all of a group's are tried together."""
        return next((resolved.timestamp_ms for resolved in self.resolved.values()), None)

    def replay(self, key: Message, value: Message | None) -> None:
        """Brings one record about this group to bear, whether it was just written or found in the log."""
        _REPLAY[type(key)](self, key, value)

    def _replay_epoch(self, _key: object, value: ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_assignment_epoch(self, _key: object, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        if value is not None:
            self.assignment_epoch, self.assigned_at_ms = value.assignment_epoch, value.assignment_timestamp

    def _replay_member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        if value is None:
            self._remove(key.member_id)
        else:
            self._put(self._member(key.member_id).described(value))

    def _replay_move(
        self, key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        if value is not None:
            self._put(self._member(key.member_id).moved(value))
        elif key.member_id in self.members:
            self._put(_stripped(self.members[key.member_id]))

    def _replay_target(
        self, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            topics = value.topic_partitions
            self.targets[key.member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in topics}

    def _replay_regex(
        self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        if value is None:
            self.resolved.pop(key.regular_expression, None)
        else:
            self.resolved[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.timestamp)

    def _replay_partition_metadata(self, _key: object, value: Message | None) -> None:
        self.has_partition_metadata = value is not None

    def _member(self, member_id: str) -> Member:
        return self.members.get(member_id) or Member(member_id=member_id)

    def _put(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._forget(before)
        self.members[member.member_id] = member
        self.subscriptions[member.subscription] += 1
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for partition in member.holdings():
            self.owners[partition] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget(member)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]

    def _forget(self, member: Member) -> None:
        """Takes back what was derived from a member. What another has taken over meanwhile stays with that one."""
        self.subscriptions[member.subscription] -= 1
        if not self.subscriptions[member.subscription]:
            del self.subscriptions[member.subscription]
        for partition in member.holdings():
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]


def _stripped(member: Member) -> Member:
    """A member that has left, until the record that removes it follows."""
    return msgspec.structs.replace(
        member, epoch=LEFT, previous_epoch=LEFT, state=MemberState.STABLE, assigned={}, revoking={}
    )


_REPLAY: Final[dict[type[Message], Callable[[ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: ConsumerGroup._replay_epoch,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._replay_assignment_epoch,
    ConsumerGroupMemberMetadataKey: ConsumerGroup._replay_member,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._replay_move,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._replay_target,
    ConsumerGroupRegularExpressionKey: ConsumerGroup._replay_regex,
    ConsumerGroupPartitionMetadataKey: ConsumerGroup._replay_partition_metadata,
}
