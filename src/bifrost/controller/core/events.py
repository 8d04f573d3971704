"""What happened, told in the words of whoever watches a cluster. Pure: the events of a change follow from it alone.

An event is named by the offset of its change in the metadata log and its place within that change, counted from 1. As
the log is the same everywhere, so is the name: whoever has seen an event can ask any Odin, at any later time, for those
behind it. So nothing may go into an event that is not in the log or in the image before it: no clock, no node's own
opinion. What this function makes of a record must not change either, or names would shift between versions; new kinds
of events come behind those of the same change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from bifrost.controller.core.configs import RESOURCES
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import (
    DIED,
    LEFT,
    NO_LEADER,
    UNSAID,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)
from bifrost.controller.core.state import Partition
from bifrost.raft.metadata_log import EpochBegun
from bifrost.settings import Kind
from bifrost.settings.broker import keys


class EventId(NamedTuple):
    """Where an event is in the metadata log. Place 0 is before the first event of its offset."""

    offset: int
    place: int

    @classmethod
    def parse(cls, text: str) -> EventId:
        """ValueError if it is no id that an Odin has ever given."""
        offset, dot, place = text.strip().partition(".")
        if not dot or not _is_number(offset) or not _is_number(place):
            raise ValueError(f"{text!r} is no id of an event; expected OFFSET.PLACE, such as 42.1")
        return cls(int(offset), int(place))

    def __str__(self) -> str:
        return f"{self.offset}.{self.place}"


class Event(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """One thing that happened; what does not belong to its kind is not there."""

    kind: str
    at_ms: int = -1  # when its change was appended, by the clock of the controller that did
    cluster_id: str | UnsetType = UNSET
    controller: int | UnsetType = UNSET
    epoch: int | UnsetType = UNSET  # of a controller, or of a broker's registration
    broker: int | UnsetType = UNSET
    fenced: bool | UnsetType = UNSET
    endpoints: tuple[str, ...] | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    topic_id: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    first_partition: int | UnsetType = UNSET
    leaders: tuple[int | None, ...] | UnsetType = UNSET  # of new partitions, in order
    leader: int | UnsetType | None = UNSET
    leader_before: int | UnsetType | None = UNSET
    leader_epoch: int | UnsetType = UNSET
    is_unclean: bool | UnsetType = UNSET
    replicas: tuple[int, ...] | UnsetType = UNSET
    isr: tuple[int, ...] | UnsetType = UNSET
    isr_before: tuple[int, ...] | UnsetType = UNSET
    resource: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    config: str | UnsetType = UNSET
    value: str | UnsetType | None = UNSET


KINDS = {
    "cluster.created": "The cluster got its id.",
    "controller.changed": "Another Odin is active, in a new epoch; or the same one was elected again.",
    "broker.registered": "A broker has started. It serves nobody before it has joined.",
    "broker.joined": "A broker takes part: it may lead and be in sync.",
    "broker.leaving": "A broker has asked to stop, and gives its leaderships away.",
    "broker.left": "A broker has stopped in good order.",
    "broker.died": "A broker's process is gone: its connection closed, and nobody listens where it did.",
    "broker.fenced": "A broker takes part no more for another reason: it hangs, cannot be reached, or asked for it.",
    "broker.unregistered": "A broker is not expected back.",
    "topic.created": "A topic exists, with these leaders.",
    "topic.deleted": "A topic is gone.",
    "partitions.created": "A topic has more partitions, with these leaders.",
    "leader.elected": "A partition has a leader, in a new leader epoch.",
    "leader.lost": "A partition has no leader; nobody can write to it or read from it.",
    "isr.changed": "Other replicas of a partition are in sync.",
    "replicas.changed": "Other brokers hold a partition.",
    "config.changed": "A config was set; without a value: removed.",
}
"""Every kind of event. Those of a stream itself, `reset`, `state` and `state.end`, are told by no record."""


def events_of(
    image: MetadataImage, change: Sequence[MetadataRecord] | EpochBegun, *, offset: int, at_ms: int
) -> list[tuple[EventId, Event]]:
    """What the records of one change, which is at `offset`, make happen to the image as it was before it."""
    found = (_controller_changed(change),) if isinstance(change, EpochBegun) else _Teller(image).tell(change)
    told = []
    for place, event in enumerate(found, start=1):
        event.at_ms = at_ms
        told.append((EventId(offset, place), event))
    return told


class _Teller:
    """Remembers what the records so far have changed, as the image does not know of it yet."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._names: dict[bytes, str] = {}
        self._partitions: dict[tuple[bytes, int], Partition] = {}

    def tell(self, change: Sequence[MetadataRecord]) -> Iterator[Event]:
        created = self._created(change)
        for record in change:
            match record:
                case PartitionChanged():  # first, for there may be tens of thousands
                    yield from self._partition_changed(record)
                case ClusterCreated():
                    yield Event(kind="cluster.created", cluster_id=record.cluster_id)
                case TopicCreated(name=name, topic_id=topic_id):
                    self._names[topic_id] = name
                    leaders = tuple(_told(one.leader) for one in created.pop(topic_id, ()))
                    yield Event(kind="topic.created", topic=name, topic_id=topic_id.hex(), leaders=leaders)
                case TopicDeleted(topic_id=topic_id):
                    yield Event(kind="topic.deleted", topic=self._name(topic_id), topic_id=topic_id.hex())
                case PartitionCreated(topic_id=topic_id):
                    self._remember(record)
                    more = created.pop(topic_id, None)
                    if more:
                        yield Event(
                            kind="partitions.created", topic=self._name(topic_id), first_partition=record.partition,
                            leaders=tuple(_told(one.leader) for one in more),
                        )  # fmt: skip
                case ConfigChanged():
                    yield _config_changed(record)
                case _:
                    yield from self._broker_changed(record)

    def _created(self, change: Sequence[MetadataRecord]) -> dict[bytes, list[PartitionCreated]]:
        """New partitions by topic: one event tells of them all."""
        found: dict[bytes, list[PartitionCreated]] = {}
        for record in change:
            if isinstance(record, PartitionCreated):
                found.setdefault(record.topic_id, []).append(record)
        return found

    def _remember(self, record: PartitionCreated) -> None:
        self._partitions[record.topic_id, record.partition] = Partition(
            record.replicas, record.isr, record.leader, record.leader_epoch, record.partition_epoch
        )

    def _name(self, topic_id: bytes) -> str:
        return self._names.get(topic_id) or self._image.topics_by_id[topic_id].name

    def _broker_changed(self, record: MetadataRecord) -> Iterator[Event]:
        match record:
            case BrokerRegistered(broker_id=broker, endpoints=endpoints, fenced=fenced):
                where = tuple(f"{one.listener}://{one.address}" for one in endpoints)
                yield Event(kind="broker.registered", broker=broker, endpoints=where, fenced=fenced)
                if not fenced:
                    yield Event(kind="broker.joined", broker=broker)
            case BrokerUnfenced(broker_id=broker):
                yield Event(kind="broker.joined", broker=broker)
            case BrokerShuttingDown(broker_id=broker):
                yield Event(kind="broker.leaving", broker=broker)
            case BrokerFenced(broker_id=broker):
                yield Event(kind=self._why(record), broker=broker)
            case BrokerUnregistered(broker_id=broker):
                yield Event(kind="broker.unregistered", broker=broker)

    def _why(self, record: BrokerFenced) -> str:
        if record.reason == UNSAID:  # of an earlier version, and its event keeps the kind that it was told with
            return "broker.left" if self._image.brokers[record.broker_id].shutting_down else "broker.fenced"
        return {LEFT: "broker.left", DIED: "broker.died"}.get(record.reason, "broker.fenced")

    def _partition_changed(self, record: PartitionChanged) -> Iterator[Event]:
        key = record.topic_id, record.partition
        before = self._partitions.get(key) or self._image.topics_by_id[record.topic_id].partitions[record.partition]
        after = Partition(
            replicas=before.replicas if record.replicas is None else record.replicas,
            isr=before.isr if record.isr is None else record.isr,
            leader=before.leader if record.leader is None else record.leader,
            leader_epoch=before.leader_epoch + (record.leader is not None),
            partition_epoch=before.partition_epoch + 1,
        )
        self._partitions[key] = after
        where: dict[str, Any] = {"topic": self._name(record.topic_id), "partition": record.partition}
        if record.leader is not None:
            yield Event(
                kind="leader.elected" if after.has_leader else "leader.lost",
                leader=_told(after.leader), leader_before=_told(before.leader), leader_epoch=after.leader_epoch,
                isr=after.isr, is_unclean=after.has_leader and after.leader not in before.isr, **where,
            )  # fmt: skip
        if after.isr != before.isr:
            yield Event(kind="isr.changed", leader=_told(after.leader), isr=after.isr, isr_before=before.isr, **where)
        if after.replicas != before.replicas:
            yield Event(kind="replicas.changed", replicas=after.replicas, **where)


def _controller_changed(begun: EpochBegun) -> Event:
    return Event(kind="controller.changed", controller=begun.leader_id, epoch=begun.epoch)


def _config_changed(record: ConfigChanged) -> Event:
    key = keys().get(record.name)
    hidden = key is not None and key.kind is Kind.PASSWORD
    return Event(
        kind="config.changed",
        resource=RESOURCES[record.resource_type],
        name=record.resource_name,
        config=record.name,
        value=None if hidden else record.value,
    )


def _told(leader: int) -> int | None:
    return None if leader == NO_LEADER else leader


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
