"""The door to consumer groups: takes requests, writes down what is decided, then believes it, then answers.

Nothing of a group is touched before the journal has taken the records, and then by replaying them alone. A group of
classic members is not ours to change: it is refused, or taken over once it is empty. Kafka: GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from bifrost.coordinator.core.consumer import changes, commits
from bifrost.coordinator.core.consumer.changes import Change
from bifrost.coordinator.core.consumer.describe import describe_group
from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.consumer.heartbeat import Heartbeat, Surroundings, check_static, unknown_member
from bifrost.coordinator.core.consumer.member import JOINING, LEFT, LEFT_FOR_A_WHILE, Member, MemberState
from bifrost.coordinator.core.consumer.regexes import Found, Resolver
from bifrost.coordinator.core.consumer.requests import check_heartbeat
from bifrost.coordinator.core.consumer.target import metadata_hash
from bifrost.coordinator.core.environment import Client, Environment, LogRecord, Respond
from bifrost.coordinator.core.records import ConsumerGroupMetadataKey, GroupMetadataKey, record
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.consumer_group_admin import DescribedGroup
from bifrost.protocol.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from bifrost.protocol.schema import Message

RETRY_MS: Final = 500
"""When a deadline that could not be written down is tried again."""


def classic_tombstone(group: Any) -> list[LogRecord]:
    """What an empty classic group leaves in the log."""
    return [record(GroupMetadataKey(group=group.group_id), None)]


class ConsumerGroups:
    """All consumer groups of one shard."""

    def __init__(
        self,
        environment: Environment,
        groups: dict[str, Any],
        settings: GroupSettings,
        delete_classic: Callable[[Any], Sequence[LogRecord]] = classic_tombstone,
    ) -> None:
        """`groups` are of both protocols; `delete_classic` tells what to write when an empty one is taken over."""
        self._environment = environment
        self._groups = groups
        self._settings = settings
        self._delete_classic = delete_classic
        self._resolver = Resolver(environment, self._on_regexes_found)
        self._topic_changes = 0

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        client: Client,
        respond: Respond[ConsumerGroupHeartbeatResponse],
    ) -> None:
        check_heartbeat(request, version, self._settings.consumer_assignors)
        if request.member_epoch in {LEFT, LEFT_FOR_A_WHILE}:
            respond(self._leave(request))
        else:
            respond(self._live(request, client))

    def describe(self, group_id: str) -> DescribedGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            detail = f"group {group_id} is no consumer group" if group else f"there is no group {group_id}"
            return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=detail)
        return describe_group(group, self._environment.topics, self._settings.consumer_assignors)

    def check_commit(
        self, group: ConsumerGroup, member_id: str, epoch: int, version: int, partitions: Iterable[tuple[UUID, int]]
    ) -> None:
        """Raises unless the member may commit offsets for `partitions`."""
        commits.check_commit(group, member_id, epoch, version, partitions)

    def check_fetch(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
        """Raises unless the member may see the offsets of its group."""
        commits.check_fetch(group, member_id, epoch)

    def delete(self, group: ConsumerGroup) -> list[LogRecord]:
        """What to write so that an empty group is no more; replaying it removes the group."""
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"group {group.group_id} has members")
        return _written(changes.group_gone(group.group_id, group.resolved))

    def replay(self, key: Any, value: Message | None) -> None:
        """Brings one record of a consumer group to bear, whether it was just written or found in the log."""
        group = self._groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self._groups[key.group_id]
        else:
            group.replay(key, value)

    def loaded(self) -> None:
        """The log has been read: from now on members must be heard of."""
        for group in self._consumer_groups():
            for member in group.members.values():
                self._set_session(group.group_id, member.member_id)
                self._set_rebalance(group.group_id, member)

    def unload(self) -> None:
        """Another node takes over: nobody waits for an answer here, and nobody is to be fenced here any more."""
        for group in self._consumer_groups():
            for member_id in group.members:
                self._drop_deadlines(group.group_id, member_id)

    def on_topics_changed(self, names: Collection[str]) -> None:
        """Topics were created, have grown or were deleted: their groups look at them with the next heartbeat."""
        self._topic_changes += 1
        for group in self._consumer_groups():
            if not group.subscribed_topics().isdisjoint(names):
                group.metadata_is_stale = True

    def _live(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerGroupHeartbeatResponse:
        group, inherited = self._find_or_create(request.group_id, create=request.member_epoch == JOINING)
        if len(group.members) >= self._settings.consumer_max_size and request.member_id not in group.members:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id} is full")
        environment = self._environment
        member_id = request.member_id or environment.new_id()
        settings = self._settings_of(group.group_id)
        around = Surroundings(environment.topics, settings, environment.now_ms(), self._topic_changes)
        heartbeat = Heartbeat(group, request, member_id, client, around)
        heartbeat.decide()
        self._write(heartbeat.changes, inherited)
        group = self._groups[group.group_id]
        group.metadata_is_stale = False
        self._set_session(group.group_id, member_id)
        if heartbeat.has_moved:
            self._set_rebalance(group.group_id, heartbeat.member)
        if heartbeat.must_resolve_regexes and not self._resolver.is_busy_with(group.group_id):
            group.regexes_tried_at = self._topic_changes
            self._resolver.start(group)
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=heartbeat.member.epoch,
            heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
            assignment=_told(heartbeat.member) if heartbeat.tells_assignment else None,
        )

    def _settings_of(self, group_id: str) -> GroupSettings:
        return self._settings.of_group(self._environment.configs_of(group_id))

    def _find_or_create(self, group_id: str, *, create: bool) -> tuple[ConsumerGroup, Sequence[LogRecord]]:
        """The group, which is not among the others yet if it is new, and what an empty classic one leaves to it."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, ()
        if not create or (group is not None and not group.is_empty):
            raise _not_found(group_id)
        return ConsumerGroup(group_id), () if group is None else self._delete_classic(group)

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_found(request.group_id)
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise unknown_member(request.member_id, group.group_id)
        else:
            member = check_static(group.static_member(request.instance_id), request.instance_id, request.member_id)
        if request.member_epoch == LEFT_FOR_A_WHILE:
            self._write([changes.member_moved(group.group_id, _paused(member))])
        else:
            self._fence(group, member)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _fence(self, group: ConsumerGroup, member: Member) -> None:
        """Removes a member; what it owned is free at once."""
        written = changes.member_gone(group.group_id, member.member_id)
        left = group.subscriptions.copy()
        left[member.subscription] -= 1
        subscriptions = [subscription for subscription, count in left.items() if count]
        regex = member.subscription.regex
        if regex and all(subscription.regex != regex for subscription in subscriptions):
            written.append(changes.regex_gone(group.group_id, regex))
        topics = metadata_hash(group.topics_of(subscriptions), self._environment.topics)
        written.append(changes.group_epoch(group.group_id, group.group_epoch + 1, topics))
        self._write(written)
        self._drop_deadlines(group.group_id, member.member_id)

    def _on_regexes_found(self, group_id: str, found: Found) -> None:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        now_ms = self._environment.now_ms()
        regexes = group.regexes()
        written = [changes.regex_resolved(group_id, regex, found[regex], now_ms) for regex in found if regex in regexes]
        differs = any(group.topics_of_regex(regex) != found[regex] for regex in found if regex in regexes)
        names = {name for subscription in group.subscriptions for name in subscription.names}
        names.update(*(found.get(regex, group.topics_of_regex(regex)) for regex in regexes))
        topics = metadata_hash(names, self._environment.topics)
        if differs or topics != group.metadata_hash:
            written.append(changes.group_epoch(group_id, group.group_epoch + 1, topics))
        try:
            self._write(written)
        except ApiError:
            group.regexes_tried_at = -1  # the next heartbeat tries again

    def _write(self, written: list[Change], inherited: Sequence[LogRecord] = ()) -> None:
        """All of it in one batch: after a crash there is all of a decision or nothing."""
        if not written:
            return
        self._environment.journal.append([*inherited, *_written(written)])
        for key, value in written:
            self.replay(key, value)

    def _set_session(self, group_id: str, member_id: str) -> None:
        self._deadline(
            ("consumer session", group_id, member_id),
            self._settings_of(group_id).consumer_session_timeout_ms,
            lambda: self._expire(group_id, member_id),
        )

    def _set_rebalance(self, group_id: str, member: Member) -> None:
        """A member that was told to give up partitions has its rebalance timeout to do so."""
        name = ("consumer rebalance", group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._deadline(
                name, member.rebalance_timeout_ms, lambda: self._expire(group_id, member.member_id, member.epoch)
            )
        else:
            self._environment.deadlines.drop(name)

    def _expire(self, group_id: str, member_id: str, epoch: int | None = None) -> None:
        """Fences a member that was silent for too long, or that is still in the epoch it should have left."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return
        member = group.members[member_id]
        if epoch not in {None, member.epoch}:
            return
        try:
            self._fence(group, member)
        except ApiError:
            name = ("consumer session" if epoch is None else "consumer rebalance", group_id, member_id)
            self._deadline(name, RETRY_MS, lambda: self._expire(group_id, member_id, epoch))

    def _deadline(self, name: tuple[str, str, str], after_ms: int, action: Callable[[], None]) -> None:
        self._environment.deadlines.set(name, self._environment.monotonic_ms() + after_ms, action)

    def _drop_deadlines(self, group_id: str, member_id: str) -> None:
        self._environment.deadlines.drop(("consumer session", group_id, member_id))
        self._environment.deadlines.drop(("consumer rebalance", group_id, member_id))

    def _consumer_groups(self) -> list[ConsumerGroup]:
        return [group for group in self._groups.values() if isinstance(group, ConsumerGroup)]


def _not_found(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")


def _written(written: Iterable[Change]) -> list[LogRecord]:
    return [record(key, value) for key, value in written]


def _paused(member: Member) -> Member:
    """A static member that left for a while keeps what it has, but not what it was giving up."""
    assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
    return msgspec.structs.replace(member, epoch=LEFT_FOR_A_WHILE, assigned=assigned, revoking={})


def _told(member: Member) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )
