"""The cluster's metadata as it stands: what every committed record so far adds up to.

The image changes in `apply` and nowhere else, and `apply` decides nothing: replaying the same records at the same
offsets gives an equal image on every node. Readers look at it between two awaits and keep no reference to what can
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bifrost.controller.core.delta import Delta
from bifrost.controller.core.partition_index import PartitionIndex, partitions_of
from bifrost.controller.core.records import (
    BrokerDirectoriesChanged,
    BrokerFenced,
    BrokerRegistered,
    BrokerRestored,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterCreated,
    ConfigChanged,
    FeatureLevelChanged,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    QuotaEntity,
    SnapshotEnded,
    TopicCreated,
    TopicDeleted,
    TopicRestored,
)
from bifrost.controller.core.state import NEVER_FENCED, NOT_SHUTTING_DOWN, Broker, Partition, Topic

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
EVERY_BROKER: Final = ""

_NO_CONFIGS: Mapping[str, str] = {}
_NO_QUOTAS: Mapping[str, float] = {}


class Located(NamedTuple):
    """A partition, and where it was found."""

    topic: Topic
    partition: int
    state: Partition


class MetadataImage:
    """Brokers, topics, configs and quotas. Attributes are for reading."""

    __slots__ = (
        "_collisions",
        "_directory_sets",
        "_own_topics",
        "_replica_sets",
        "brokers",
        "brokers_changed_at",
        "cluster_id",
        "configs",
        "features",
        "index",
        "next_producer_id",
        "offset",
        "partitions_created",
        "quotas",
        "topics",
        "topics_by_id",
    )

    def __init__(self) -> None:
        self.offset = -1  # of the last applied change
        self.cluster_id: str | None = None
        self.brokers: dict[int, Broker] = {}
        self.brokers_changed_at = -1
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.index = PartitionIndex()
        self.next_producer_id = 0
        self.partitions_created = 0  # ever, so that placement goes on where it stopped
        self._collisions: dict[str, str] = {}
        self._replica_sets: dict[tuple[int, ...], tuple[int, ...]] = {}  # one object for each distinct set
        self._directory_sets: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
        self._own_topics: set[bytes] = set()  # those that no copy of this image shares

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetadataImage) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def partition(self, name: str, partition: int) -> Partition | None:
        """The partition, or None when the topic or the partition is unknown."""
        topic = self.topics.get(name)
        return topic.partitions[partition] if topic and 0 <= partition < len(topic.partitions) else None

    def live_brokers(self) -> list[int]:
        """The ids of brokers that clients can reach, in order; one that shuts down is still among them."""
        return sorted(broker_id for broker_id, broker in self.brokers.items() if not broker.fenced)

    def active_brokers(self) -> frozenset[int]:
        """The brokers that may lead and be in sync."""
        return frozenset(broker_id for broker_id, broker in self.brokers.items() if broker.active)

    def locate(self, bits: Mapping[bytes, int]) -> Iterator[Located]:
        """The partitions that the index names, in an order that does not depend on how they got there."""
        for topic_id, marked in sorted(bits.items()):
            topic = self.topics_by_id[topic_id]
            for partition in partitions_of(marked):
                yield Located(topic, partition, topic.partitions[partition])

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The overrides of one topic."""
        return self.configs.get((TOPIC_RESOURCE, name), _NO_CONFIGS)

    def broker_configs(self, name: str) -> Mapping[str, str]:
        """What is stored for one broker, by its id, or for every broker (`EVERY_BROKER`)."""
        return self.configs.get((BROKER_RESOURCE, name), _NO_CONFIGS)

    def group_configs(self, name: str) -> Mapping[str, str]:
        """What is stored for one group, which need not exist."""
        return self.configs.get((GROUP_RESOURCE, name), _NO_CONFIGS)

    def colliding_topic(self, name: str) -> str | None:
        """The topic whose name differs from this one only in `.` and `_`, which metric names cannot tell apart."""
        return self._collisions.get(name.replace(".", "_"))

    def copy(self) -> MetadataImage:
        """An equal image that changes on its own. Topics and configs are shared until one of the two changes them."""
        self._own_topics.clear()
        twin = MetadataImage()
        twin.offset = self.offset
        twin.cluster_id = self.cluster_id
        twin.brokers = self.brokers.copy()
        twin.brokers_changed_at = self.brokers_changed_at
        twin.topics = self.topics.copy()
        twin.topics_by_id = self.topics_by_id.copy()
        twin.index = self.index.copy()
        twin.configs = self.configs.copy()
        twin.features = self.features.copy()
        twin.quotas = self.quotas.copy()
        twin.next_producer_id = self.next_producer_id
        twin.partitions_created = self.partitions_created
        twin._collisions = self._collisions.copy()
        twin._replica_sets = self._replica_sets.copy()
        twin._directory_sets = self._directory_sets.copy()
        return twin

    def become(self, other: MetadataImage) -> None:
        """Hold what another image holds, which nobody uses any more."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def apply(self, record: MetadataRecord, offset: int, delta: Delta) -> None:
        """Take in one committed record; `delta` learns what it changed."""
        assert offset >= self.offset, f"offset {offset} was applied before {self.offset}"
        self.offset = offset
        _APPLY[type(record)](self, record, delta)

    def _content(self) -> tuple[object, ...]:
        return (
            self.offset,
            self.cluster_id,
            self.brokers,
            self.brokers_changed_at,
            self.topics,
            self.topics_by_id,
            self.configs,
            self.features,
            self.quotas,
            self.next_producer_id,
            self.partitions_created,
            self._collisions,
            self.index,
        )

    def _cluster_created(self, record: ClusterCreated, _delta: Delta) -> None:
        assert self.cluster_id is None, "a cluster is created once"
        self.cluster_id = record.cluster_id

    def _broker_registered(self, record: BrokerRegistered, delta: Delta) -> None:
        broker = Broker(
            record.broker_id,
            self.offset,
            record.incarnation,
            record.endpoints,
            record.rack,
            record.fenced,
            directories=record.directories,
        )
        self._set_broker(broker, delta)

    def _broker_fenced(self, record: BrokerFenced, delta: Delta) -> None:
        self._change_broker(record.broker_id, delta, fenced=True, fenced_at=self.offset)

    def _broker_unfenced(self, record: BrokerUnfenced, delta: Delta) -> None:
        self._change_broker(record.broker_id, delta, fenced=False)

    def _broker_shutting_down(self, record: BrokerShuttingDown, delta: Delta) -> None:
        assert self.brokers[record.broker_id].active, f"broker {record.broker_id} has gone already"
        self._change_broker(record.broker_id, delta, shutdown_offset=self.offset)

    def _broker_directories_changed(self, record: BrokerDirectoriesChanged, delta: Delta) -> None:
        known = self.brokers[record.broker_id]
        self._set_broker(msgspec.structs.replace(known, directories=record.directories), delta)

    def _broker_unregistered(self, record: BrokerUnregistered, delta: Delta) -> None:
        broker = self.brokers.pop(record.broker_id)
        assert broker.epoch == record.epoch, f"broker {record.broker_id} has registered again"
        self.brokers_changed_at = self.offset
        delta.brokers[record.broker_id] = None

    def _topic_created(self, record: TopicCreated, delta: Delta) -> None:
        assert record.name not in self.topics, f"topic {record.name} is created twice"
        assert record.topic_id not in self.topics_by_id, f"topic id of {record.name} is used twice"
        assert self.colliding_topic(record.name) is None, f"topic {record.name} collides with another"
        topic = Topic(record.name, record.topic_id, [], self.offset)
        self._set_topic(topic)
        self._collisions[record.name.replace(".", "_")] = record.name
        delta.topics_created[record.topic_id] = topic

    def _topic_deleted(self, record: TopicDeleted, delta: Delta) -> None:
        topic = self.topics_by_id.pop(record.topic_id)
        self._own_topics.discard(record.topic_id)
        del self.topics[topic.name]
        del self._collisions[topic.name.replace(".", "_")]
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        self.index.on_topic_deleted(topic.topic_id, topic.partitions)
        delta.on_topic_deleted(topic)

    def _partition_created(self, record: PartitionCreated, delta: Delta) -> None:
        topic = self._own_topic(record.topic_id)
        assert record.partition == len(topic.partitions), f"{topic.name}-{record.partition} is out of order"
        after = Partition(
            self._share(record.replicas),
            self._share(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            self._share(record.adding),
            self._share(record.removing),
            self._share_directories(record.directories),
        )
        topic.partitions.append(after)
        topic.changed_at = self.offset
        self.index.on_created(topic.topic_id, record.partition, after)
        self.partitions_created += 1
        delta.on_partition(topic, record.partition, None, after)

    def _partition_changed(self, record: PartitionChanged, delta: Delta) -> None:
        topic = self._own_topic(record.topic_id)
        before = topic.partitions[record.partition]
        after = Partition(
            before.replicas if record.replicas is None else self._share(record.replicas),
            before.isr if record.isr is None else self._share(record.isr),
            before.leader if record.leader is None else record.leader,
            before.leader_epoch if record.leader is None else before.leader_epoch + 1,
            before.partition_epoch + 1,
            before.adding if record.adding is None else self._share(record.adding),
            before.removing if record.removing is None else self._share(record.removing),
            self._share_directories(directories_after(before, record)),
        )
        topic.partitions[record.partition] = after
        topic.changed_at = self.offset
        self.index.on_changed(topic.topic_id, record.partition, before, after)
        delta.on_partition(topic, record.partition, before, after)

    def _config_changed(self, record: ConfigChanged, delta: Delta) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = dict(self.configs.get(resource, _NO_CONFIGS))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        self.configs[resource] = configs
        if not configs:
            del self.configs[resource]
        delta.configs[resource] = None

    def _client_quota_changed(self, record: ClientQuotaChanged, delta: Delta) -> None:
        quotas = dict(self.quotas.get(record.entity, _NO_QUOTAS))
        if record.value is None:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        self.quotas[record.entity] = quotas
        if not quotas:
            del self.quotas[record.entity]
        delta.quotas[record.entity] = None

    def _feature_level_changed(self, record: FeatureLevelChanged, delta: Delta) -> None:
        self.features[record.name] = record.level
        delta.features[record.name] = None

    def _producer_ids_allocated(self, record: ProducerIdsAllocated, _delta: Delta) -> None:
        assert record.next_producer_id > self.next_producer_id, "producer ids are given out once"
        self.next_producer_id = record.next_producer_id

    def _broker_restored(self, record: BrokerRestored, delta: Delta) -> None:
        broker = Broker(
            record.broker_id,
            record.epoch,
            record.incarnation,
            record.endpoints,
            record.rack,
            record.fenced,
            record.shutdown_offset,
            record.fenced_at,
            record.directories,
        )
        self._set_broker(broker, delta)

    def _topic_restored(self, record: TopicRestored, _delta: Delta) -> None:
        self._own_topic(record.topic_id).changed_at = record.changed_at

    def _snapshot_ended(self, record: SnapshotEnded, _delta: Delta) -> None:
        self.brokers_changed_at = record.brokers_changed_at
        self.next_producer_id = record.next_producer_id
        self.partitions_created = record.partitions_created

    def _change_broker(
        self,
        broker_id: int,
        delta: Delta,
        *,
        fenced: bool = False,
        shutdown_offset: int = NOT_SHUTTING_DOWN,
        fenced_at: int = NEVER_FENCED,
    ) -> None:
        """A broker takes part, is fenced or shuts down: one of the three."""
        changed = msgspec.structs.replace(
            self.brokers[broker_id], fenced=fenced, shutdown_offset=shutdown_offset, fenced_at=fenced_at
        )
        self._set_broker(changed, delta)

    def _set_broker(self, broker: Broker, delta: Delta) -> None:
        self.brokers[broker.broker_id] = broker
        self.brokers_changed_at = self.offset
        delta.brokers[broker.broker_id] = None

    def _set_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self._own_topics.add(topic.topic_id)

    def _own_topic(self, topic_id: bytes) -> Topic:
        """The topic, to be changed: no copy of this image sees that."""
        topic = self.topics_by_id[topic_id]
        if topic_id not in self._own_topics:
            topic = topic.copy()
            self._set_topic(topic)
        return topic

    def _share(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        return self._replica_sets.setdefault(replicas, replicas)

    def _share_directories(self, directories: tuple[bytes, ...]) -> tuple[bytes, ...]:
        return self._directory_sets.setdefault(directories, directories)


def directories_after(before: Partition, record: PartitionChanged) -> tuple[bytes, ...]:
    """The directories of a partition's replicas. Where replicas change and nobody says, those that stay stay where they
    are (Kafka: PartitionRegistration.merge)."""
    if record.directories is not None:
        return record.directories
    if record.replicas is None or not before.directories:
        return before.directories
    return tuple(before.directory_of(broker) for broker in record.replicas)


_APPLY: dict[type[MetadataRecord], Callable[[MetadataImage, Any, Delta], None]] = {
    ClusterCreated: MetadataImage._cluster_created,
    BrokerRegistered: MetadataImage._broker_registered,
    BrokerFenced: MetadataImage._broker_fenced,
    BrokerUnfenced: MetadataImage._broker_unfenced,
    TopicCreated: MetadataImage._topic_created,
    TopicDeleted: MetadataImage._topic_deleted,
    PartitionCreated: MetadataImage._partition_created,
    PartitionChanged: MetadataImage._partition_changed,
    ConfigChanged: MetadataImage._config_changed,
    ProducerIdsAllocated: MetadataImage._producer_ids_allocated,
    BrokerUnregistered: MetadataImage._broker_unregistered,
    BrokerShuttingDown: MetadataImage._broker_shutting_down,
    BrokerRestored: MetadataImage._broker_restored,
    TopicRestored: MetadataImage._topic_restored,
    SnapshotEnded: MetadataImage._snapshot_ended,
    ClientQuotaChanged: MetadataImage._client_quota_changed,
    FeatureLevelChanged: MetadataImage._feature_level_changed,
    BrokerDirectoriesChanged: MetadataImage._broker_directories_changed,
}
