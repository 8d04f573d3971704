"""The part of `Admin` that knows consumer groups: who is in them, how far they are, and where they go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bifrost.client.admin_session import only
from bifrost.client.descriptions import (
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOffset,
    Offsets,
    ResetPlan,
)
from bifrost.client.errors import (
    GroupNotEmptyError,
    UnknownGroupError,
    UnknownTopicError,
    from_kafka,
    nearest,
)
from bifrost.client.options import names_of
from bifrost.client.reset import Target, changes_of
from bifrost.client.topic_admin import TopicAdmin
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_RESETTABLE = {"Empty", "Dead"}


class GroupAdmin(TopicAdmin):
    """Consumer groups: list, describe, reset, delete."""

    def groups(self) -> list[GroupListing]:
        """All consumer groups by name."""
        found = self._ask(lambda client: client.list_consumer_groups(**self._limits()))
        if found.errors:
            raise from_kafka(found.errors[0], bootstrap=self.bootstrap)
        listed = [GroupListing(each.group_id, _state(each), _protocol(each)) for each in found.valid]
        return sorted(listed, key=lambda each: each.name)

    def group(self, name: str) -> GroupDescription:
        """A group with its members, what they own, and how far it has come.

        >>> admin.group("billing").lag
        0
        """
        found = self._described(name)
        if _state(found) == "Dead":
            raise self._unknown_group(name)
        members = tuple(sorted(map(_member, found.members), key=lambda each: (each.client_id, each.id)))
        owners = {place: member.id for member in members for place in member.partitions}
        committed = self._committed(name)
        return GroupDescription(
            name=name,
            state=_state(found),
            protocol=_protocol(found),
            assignor=found.partition_assignor or "",
            coordinator=found.coordinator.id if found.coordinator is not None else None,
            members=members,
            offsets=self._progress(committed, owners),
        )

    def plan_reset(
        self,
        group: str,
        topics: str | Iterable[str] | Mapping[str, Iterable[int] | None] | None = None,
        *,
        to: Target | None = None,
        shift_by: int | None = None,
    ) -> ResetPlan:
        """What a reset would change; changes nothing.

        `topics` are names, or names with the partitions that are meant (None: all of them); without it, every
        partition in which the group has committed. `to` is `"earliest"`, `"latest"`, an offset, a datetime, a timedelta
        before now, or a mapping of places to offsets; `shift_by` moves each partition forwards, or back if negative.
        Offsets outside of what a partition holds become its first or next one, as Kafka's own tool does it.

        >>> plan = admin.plan_reset("billing", ["readings"], to="earliest")
        >>> admin.reset_offsets(plan)
        """
        state = _state(self._described(group))
        committed = self._committed(group) if state != "Dead" else {}
        if isinstance(to, Mapping):
            topics = _scope_of(to)
        if topics is None and not committed:
            raise self._unknown_group(group)
        wanted = self._scope(topics, committed)
        held = {name: self.offsets(name) for name in wanted}
        at: dict[str, dict[int, int]] = {}
        if isinstance(to, timedelta):
            to = datetime.now().astimezone() - to
        if isinstance(to, datetime):
            at = {name: self.offsets_at(name, to) for name in wanted}
        return ResetPlan(group, state, changes_of(wanted, committed, held, to=to, shift_by=shift_by, at=at))

    def reset_offsets(self, plan: ResetPlan) -> None:
        """Do what `plan_reset` planned. Refused while the group has members: they would go on where they are."""
        from confluent_kafka import ConsumerGroupTopicPartitions
        from confluent_kafka import TopicPartition as Place

        if not plan.changes:
            return
        state = _state(self._described(plan.group))
        if state not in _RESETTABLE:
            raise GroupNotEmptyError(
                f"group {plan.group} has members (it is {state})", "Stop its consumers first, then reset it."
            )
        places = [Place(each.topic, each.partition, each.new) for each in plan.changes]
        request = ConsumerGroupTopicPartitions(plan.group, places)

        def call(client: AdminClient) -> Future[Any]:
            return only(client.alter_consumer_group_offsets([request], **self._limits()))

        for place in self._ask(call, group=plan.group).topic_partitions:
            if place.error is not None:
                raise from_kafka(
                    place.error,
                    topic=place.topic,
                    partition=place.partition,
                    group=plan.group,
                    bootstrap=self.bootstrap,
                )

    def delete_group(self, name: str, *, missing_ok: bool = False) -> bool:
        """Delete a group with the offsets it has committed. Returns whether it was there."""
        try:
            self._ask(lambda client: only(client.delete_consumer_groups([name], **self._limits())), group=name)
        except UnknownGroupError as error:
            if missing_ok:
                return False
            raise self._unknown_group(name) from error
        return True

    def _described(self, group: str) -> Any:
        return self._ask(lambda client: only(client.describe_consumer_groups([group], **self._limits())), group=group)

    def _unknown_group(self, name: str) -> UnknownGroupError:
        hint = nearest(name, [each.name for each in self.groups()]) or "See which there are: `bifrost group list`."
        return UnknownGroupError(f"group {name} does not exist", hint, code="GROUP_ID_NOT_FOUND")

    def _committed(self, group: str) -> dict[TopicPartition, int]:
        """Only for a group that was described just now: librdkafka 2.16 crashes on the answer of a coordinator that is
        still loading, while a description is refused in good order, and then asked for again until it has loaded.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions

        request = ConsumerGroupTopicPartitions(group)

        def call(client: AdminClient) -> Future[Any]:
            return only(client.list_consumer_group_offsets([request], **self._limits()))

        places = self._ask(call, group=group).topic_partitions
        return {TopicPartition(each.topic, each.partition): each.offset for each in places if each.offset >= 0}

    def _progress(
        self, committed: Mapping[TopicPartition, int], owners: Mapping[TopicPartition, str]
    ) -> tuple[GroupOffset, ...]:
        places = sorted({*committed, *owners})
        held: dict[str, dict[int, Offsets]] = {}
        for topic in {place.topic for place in places}:
            try:
                held[topic] = self.offsets(topic)
            except UnknownTopicError:  # deleted; the group still remembers it
                held[topic] = {}
        rows = []
        for place in places:
            offsets = held[place.topic].get(place.partition)
            start, end = (offsets.start, offsets.end) if offsets is not None else (None, None)
            rows.append(GroupOffset(*place, committed.get(place), start, end, owners.get(place)))
        return tuple(rows)

    def _scope(
        self,
        topics: str | Iterable[str] | Mapping[str, Iterable[int] | None] | None,
        committed: Iterable[TopicPartition],
    ) -> dict[str, list[int]]:
        """The partitions that are meant, all of which exist."""
        if topics is None:
            topics = _scope_of(committed)
        elif not isinstance(topics, Mapping):
            topics = dict.fromkeys(names_of(topics))
        wanted: dict[str, list[int]] = {}
        for name, partitions in topics.items():
            topic = self._known(name)
            listed = [each.partition for each in topic.partitions] if partitions is None else sorted(set(partitions))
            self._check_partitions(topic, listed)
            wanted[name] = listed
        return wanted


def _scope_of(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    scope: dict[str, list[int]] = {}
    for place in sorted(places):
        scope.setdefault(place.topic, []).append(place.partition)
    return scope


def _member(member: Any) -> GroupMember:
    owned = sorted(TopicPartition(each.topic, each.partition) for each in member.assignment.topic_partitions)
    host = member.host.removeprefix("/")  # Kafka prints a Java InetAddress
    return GroupMember(member.member_id, member.client_id, host, member.group_instance_id or None, tuple(owned))


def _state(group: Any) -> str:
    """Kafka's word: librdkafka's PREPARING_REBALANCING is PreparingRebalance."""
    return "".join(word.capitalize() for word in group.state.name.split("_")).replace("Rebalancing", "Rebalance")


def _protocol(group: Any) -> str:
    return str(group.type.name.lower())
