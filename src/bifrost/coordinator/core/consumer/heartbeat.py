"""Decides what one heartbeat of a member changes, and touches nothing.

In this order: who is it, what does it say anew of itself, does that or a change of topics start a new epoch of the
group, is it time for a new assignment, and what may the member have now.
Kafka: GroupMetadataManager.consumerGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from bifrost.coordinator.core.assignors.subscribers import Assignment
from bifrost.coordinator.core.consumer import changes
from bifrost.coordinator.core.consumer.changes import Change
from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.consumer.member import JOINING, LEFT_FOR_A_WHILE, Holdings, Member, Subscription
from bifrost.coordinator.core.consumer.reconciliation import Aim, reconcile
from bifrost.coordinator.core.consumer.regexes import check_regex
from bifrost.coordinator.core.consumer.target import compute_target, existing, metadata_hash
from bifrost.coordinator.core.environment import Client, Topics
from bifrost.coordinator.core.records import ConsumerGroupPartitionMetadataKey
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions

REGEX_REFRESH_MIN_MS: Final = 10_000
"""A group's regular expressions are not tried more often, whatever its members do."""


@dataclass(slots=True)
class Surroundings:
    """What a decision depends on besides the group and the request."""

    topics: Topics
    settings: GroupSettings
    now_ms: int
    topic_changes: int
    """How often topics have changed since this coordinator started."""


class Heartbeat:
    """A heartbeat, and after `decide` what is to be written down and answered."""

    def __init__(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        client: Client,
        around: Surroundings,
    ) -> None:
        self._group, self._request, self._client, self._around = group, request, client, around
        self._member_id = member_id
        self._replaced: Member | None = None
        self.changes: list[Change] = []
        self.before = self.member = Member(member_id=member_id)
        self.has_moved = False
        self.must_resolve_regexes = False

    def decide(self) -> None:
        self.before = self._find()
        self.member = self.before.told(self._request, self._client)
        if self.member is not self.before and self.member != self.before:
            self.changes.append(changes.member_described(self._group.group_id, self.member))
        before, after = self.before.subscription, self.member.subscription
        regex_is_known = self._consider_regex(before.regex, after.regex)
        group_epoch = self._group_epoch(bump=before.names != after.names or regex_is_known)
        epoch, target = self._target(group_epoch)
        self._move(epoch, target, subscription_changed=before != after)

    @property
    def tells_assignment(self) -> bool:
        """Members are told what they may have when it changed, and when they forgot: a full request asks for it."""
        request = self._request
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        if request.member_epoch == JOINING or is_full:
            return True
        return self.member is not self.before and self.member.assigned != self.before.assigned

    def _find(self) -> Member:
        """The member as it is known, or a new one."""
        request, group = self._request, self._group
        if request.instance_id is not None:
            return self._find_static(request.instance_id)
        member = group.members.get(self._member_id)
        if member is None:
            if request.member_epoch != JOINING:
                raise unknown_member(self._member_id, group.group_id)
            return Member(member_id=self._member_id)
        _check_epoch(member, request)
        return member

    def _find_static(self, instance_id: str) -> Member:
        request, group = self._request, self._group
        known = group.static_member(instance_id)
        if request.member_epoch == JOINING:
            if known is None:
                return group.members.get(self._member_id) or Member(member_id=self._member_id)
            return self._replace(known)
        known = check_static(known, instance_id, self._member_id)
        _check_epoch(known, request)
        return known

    def _replace(self, known: Member) -> Member:
        """A new incarnation takes the place of one that left for a while, with all that it had."""
        if known.epoch != LEFT_FOR_A_WHILE:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID, f"instance {known.instance_id} is still in use by {known.member_id}"
            )
        group_id = self._group.group_id
        self._replaced = known
        member = msgspec.structs.replace(known, member_id=self._member_id, epoch=JOINING, previous_epoch=JOINING)
        self.changes += [
            *changes.member_gone(group_id, known.member_id),
            changes.member_described(group_id, member),
            changes.target_assigned(group_id, member.member_id, self._group.target(known)),
            changes.member_moved(group_id, member),
        ]
        return member

    def _consider_regex(self, before: str, after: str) -> bool:
        """True if the topics of the member changed with its expression, as far as they are known now."""
        group = self._group
        if not (before or after or group.regexes()):
            return False
        known = is_new = False
        if before != after:
            if before and group.regex_subscribers(before) == 1:
                self.changes.append(changes.regex_gone(group.group_id, before))
            is_new = bool(after) and not group.regex_subscribers(after)
            if is_new:
                check_regex(after)
            known = after in group.resolved if after else True
        regexes = {subscription.regex for subscription in self._subscriptions()} - {""}
        last_ms = group.last_refresh_ms()
        due_ms = -1 if last_ms is None else last_ms + REGEX_REFRESH_MIN_MS
        self.must_resolve_regexes = (
            bool(regexes)
            and self._around.now_ms > due_ms
            and (
                is_new
                or regexes != group.resolved.keys()
                or group.regexes_tried_at < self._around.topic_changes
                or last_ms is None
                or self._around.now_ms > last_ms + self._around.settings.consumer_regex_refresh_interval_ms
            )
        )
        return known

    def _group_epoch(self, *, bump: bool) -> int:
        group = self._group
        if not bump and not group.metadata_is_stale:
            return group.group_epoch
        topics = metadata_hash(group.topics_of(self._subscriptions()), self._around.topics)
        if group.has_partition_metadata:
            self.changes.append((ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None))
        if not bump and topics == group.metadata_hash:
            return group.group_epoch
        self.changes.append(changes.group_epoch(group.group_id, group.group_epoch + 1, topics))
        return group.group_epoch + 1

    def _target(self, group_epoch: int) -> tuple[int, Assignment]:
        """The epoch of the assignment that holds now, and what it has for the member."""
        group, around = self._group, self._around
        if group.assignment_epoch >= group_epoch or not self._may_assign():
            return group.assignment_epoch, group.target(self.member)
        allowed = around.settings.consumer_assignors
        targets = compute_target(group, self._members(), self._subscriptions(), around.topics, allowed)
        for member_id, target in targets.items():
            before = group.targets.get(member_id)
            if target is not before and target != before:
                self.changes.append(changes.target_assigned(group.group_id, member_id, target))
        self.changes.append(changes.target_epoch(group.group_id, group_epoch, around.now_ms))
        return group_epoch, targets[self.member.member_id]

    def _may_assign(self) -> bool:
        """Not too soon after the last time (KIP-1263), unless the clock has been turned back."""
        since_ms = self._around.now_ms - self._group.assigned_at_ms
        return since_ms < 0 or since_ms >= self._around.settings.consumer_assignment_interval_ms

    def _move(self, epoch: int, target: Assignment, *, subscription_changed: bool) -> None:
        if not subscription_changed and self.member.is_reconciled_to(epoch):
            return
        group = self._group
        topics = existing(group.topics(self.member.subscription), self._around.topics)
        moved = reconcile(
            self.member,
            Aim(epoch, target, topics.keys(), group.owners),
            owned=self._request.topic_partitions,
            subscription_changed=subscription_changed,
        )
        if moved != self.member:
            self.member, self.has_moved = moved, True
            self.changes.append(changes.member_moved(group.group_id, moved))

    def _members(self) -> dict[str, Member]:
        """The members after this heartbeat."""
        members = dict(self._group.members)
        if self._replaced is not None:
            del members[self._replaced.member_id]
        members[self.member.member_id] = self.member
        return members

    def _subscriptions(self) -> list[Subscription]:
        """The different subscriptions after this heartbeat."""
        counts = self._group.subscriptions.copy()
        known = self._replaced or self._group.members.get(self.member.member_id)
        if known is not None:
            counts[known.subscription] -= 1
        counts[self.member.subscription] += 1
        return [subscription for subscription, count in counts.items() if count]


def unknown_member(member_id: str, group_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group_id}")


def check_static(member: Member | None, instance_id: str, member_id: str) -> Member:
    """The static member, if the one who speaks is its present incarnation."""
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no instance {instance_id}")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID, f"{member_id} of instance {instance_id} was fenced by {member.member_id}"
        )
    return member


def _check_epoch(member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
    """The last epoch will do if its answer may have been lost, which only one who owns nothing else can claim."""
    epoch = request.member_epoch
    if epoch in {JOINING, member.epoch}:
        return
    missed = epoch == member.previous_epoch and epoch < member.epoch
    if not missed or not _is_within(request.topic_partitions, member.assigned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"the member's epoch is {member.epoch} and not {epoch}; it must give up all and join again",
        )


def _is_within(owned: list[TopicPartitions] | None, holdings: Holdings) -> bool:
    return owned is not None and all(
        topic.topic_id in holdings and holdings[topic.topic_id].keys() >= set(topic.partitions) for topic in owned
    )
