"""What a run of records changed, netted: the one thing that subscribers of the image act on.

A topic that was created and deleted within the run is not mentioned. Whoever acts on a delta deletes before it creates,
because a topic may have been deleted and created again under the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bifrost.controller.core.records import QuotaEntity
from bifrost.controller.core.state import Partition, Topic

if TYPE_CHECKING:
    from bifrost.controller.core.image import MetadataImage


class PartitionChange(NamedTuple):
    """One partition before and after; there is no `before` for a new one."""

    topic: Topic
    partition: int
    before: Partition | None
    after: Partition


@dataclass(slots=True)
class Delta:
    """Dictionaries instead of sets: their order is the order of the log, on every run."""

    topics_deleted: dict[bytes, Topic] = field(default_factory=dict)
    topics_created: dict[bytes, Topic] = field(default_factory=dict)
    partitions: dict[tuple[bytes, int], PartitionChange] = field(default_factory=dict)  # of new topics too
    configs: dict[tuple[int, str], None] = field(default_factory=dict)  # (resource type, resource name)
    brokers: dict[int, None] = field(default_factory=dict)
    quotas: dict[QuotaEntity, None] = field(default_factory=dict)
    features: dict[str, None] = field(default_factory=dict)

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> Delta:
        """What is different, where nobody knows the records that made it so."""
        delta = cls()
        for topic_id, topic in before.topics_by_id.items():
            if topic_id not in after.topics_by_id:
                delta.topics_deleted[topic_id] = topic
        for topic_id, topic in after.topics_by_id.items():
            known = before.topics_by_id.get(topic_id)
            if known is None:
                delta.topics_created[topic_id] = topic
            earlier: list[Partition | None] = [] if known is None else [*known.partitions]
            earlier += [None] * (len(topic.partitions) - len(earlier))
            for partition, (was, state) in enumerate(zip(earlier, topic.partitions)):
                if was != state:
                    delta.partitions[topic_id, partition] = PartitionChange(topic, partition, was, state)
        for resource in {**before.configs, **after.configs}:
            if before.configs.get(resource) != after.configs.get(resource):
                delta.configs[resource] = None
        for broker_id in {**before.brokers, **after.brokers}:
            if before.brokers.get(broker_id) != after.brokers.get(broker_id):
                delta.brokers[broker_id] = None
        for entity in {**before.quotas, **after.quotas}:
            if before.quotas.get(entity) != after.quotas.get(entity):
                delta.quotas[entity] = None
        for name in {**before.features, **after.features}:
            if before.features.get(name) != after.features.get(name):
                delta.features[name] = None
        return delta

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def on_topic_deleted(self, topic: Topic) -> None:
        for partition in range(len(topic.partitions)):
            self.partitions.pop((topic.topic_id, partition), None)
        if self.topics_created.pop(topic.topic_id, None) is None:
            self.topics_deleted[topic.topic_id] = topic

    def on_partition(self, topic: Topic, partition: int, before: Partition | None, after: Partition) -> None:
        earlier = self.partitions.get((topic.topic_id, partition))
        first = before if earlier is None else earlier.before
        self.partitions[topic.topic_id, partition] = PartitionChange(topic, partition, first, after)
