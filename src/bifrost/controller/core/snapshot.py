"""The image as records, from which an equal image is made: what a log may forget once this is stored.

A snapshot holds what is, in as few records as can say it, and goes through `apply` like everything else. All of it is
applied at one offset, that of the last change it contains; epochs and marks of earlier ones are in the records. Where
an image has an order it is kept, so that whoever goes on from a snapshot decides what others decide.

An image must not change while its records are read: hand in a copy if anything is awaited in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import (
    BrokerRestored,
    ClientQuotaChanged,
    ClusterCreated,
    ConfigChanged,
    FeatureLevelChanged,
    MetadataRecord,
    PartitionCreated,
    SnapshotEnded,
    TopicCreated,
    TopicRestored,
    UnreadableChangeError,
)
from bifrost.controller.core.state import Broker, Topic

RECORDS_PER_CHANGE = 100  # what is encoded, or applied, before others get a turn: well below a millisecond


def image_records(image: MetadataImage, *, records_max: int = RECORDS_PER_CHANGE) -> Iterator[list[MetadataRecord]]:
    """Changes of bounded size that `restore` makes an equal image of, given its offset."""
    change: list[MetadataRecord] = []
    for record in _records(image):
        change.append(record)
        if len(change) == records_max:
            yield change
            change = []
    if change:
        yield change


class Restoration:
    """An image that is made of a snapshot up to `offset`, change by change."""

    def __init__(self, offset: int, delta: Delta | None = None) -> None:
        self._image = MetadataImage()
        self._offset = offset
        self._delta = Delta() if delta is None else delta
        self._last: MetadataRecord | None = None

    def apply(self, change: Sequence[MetadataRecord]) -> None:
        for record in change:
            self._image.apply(record, self._offset, self._delta)
            self._last = record

    def image(self) -> MetadataImage:
        """What came of it; UnreadableChangeError if the snapshot's end is missing."""
        if not isinstance(self._last, SnapshotEnded):
            raise UnreadableChangeError("the snapshot has no end: it was not written completely, or it is damaged")
        return self._image


def restore(changes: Iterable[Sequence[MetadataRecord]], offset: int, delta: Delta | None = None) -> MetadataImage:
    """The image that a snapshot up to `offset` was made of; UnreadableChangeError if its end is missing."""
    restoration = Restoration(offset, delta)
    for change in changes:
        restoration.apply(change)
    return restoration.image()


def _records(image: MetadataImage) -> Iterator[MetadataRecord]:
    if image.cluster_id is not None:
        yield ClusterCreated(image.cluster_id)
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for topic in image.topics.values():
        yield from _topic_records(topic)
    for (resource_type, resource_name), configs in image.configs.items():
        for name, value in configs.items():
            yield ConfigChanged(resource_type, resource_name, name, value)
    for entity, quotas in image.quotas.items():
        for key, limit in quotas.items():
            yield ClientQuotaChanged(entity, key, limit)
    for name, level in image.features.items():
        yield FeatureLevelChanged(name, level)
    yield SnapshotEnded(image.brokers_changed_at, image.next_producer_id, image.partitions_created)


def _broker_record(broker: Broker) -> BrokerRestored:
    return BrokerRestored(
        broker.broker_id,
        broker.epoch,
        broker.incarnation,
        broker.endpoints,
        broker.rack,
        broker.fenced,
        broker.shutdown_offset,
        broker.fenced_at,
        broker.directories,
    )


def _topic_records(topic: Topic) -> Iterator[MetadataRecord]:
    yield TopicCreated(topic.name, topic.topic_id)
    for partition, state in enumerate(topic.partitions):
        yield PartitionCreated(
            topic.topic_id,
            partition,
            state.replicas,
            state.isr,
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.adding,
            state.removing,
            state.directories,
        )
    yield TopicRestored(topic.topic_id, topic.changed_at)
