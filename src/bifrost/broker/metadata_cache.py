"""The metadata image as clients ask for it: answers that are encoded once per change, not once per question.

After a failure every client asks for everything at once. A topic's bytes are kept, per version of the API, until the
topic or a broker changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final
from uuid import UUID

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.state import Partition, Topic
from bifrost.errors import ErrorCode
from bifrost.protocol.metadata import BrokerMetadata, PartitionMetadata, encode_topic
from bifrost.types import NodeId

_NOBODY = -1
_MOURNING_S: Final = 5.0
"""So long a broker that died is still listed. librdkafka gives up, until it next looks around, partitions that it is
just moving away from a broker which it does not find in the list any more: a second or two instead of milliseconds."""
_State = tuple[int, int]
"""When the topic and when any broker last changed: offsets of the metadata log."""


class MetadataCache:
    """Reads the image; never changes it, never keeps a reference into it."""

    def __init__(self, image: MetadataImage, node_id: NodeId, time_s: Callable[[], float]) -> None:
        self._image = image
        self._node_id = node_id
        self._time_s = time_s
        self._live: frozenset[int] = frozenset(image.live_brokers())
        self._died_at: dict[int, float] = {}
        self._encoded: dict[tuple[bytes, int], tuple[_State, bytes]] = {}

    @property
    def cluster_id(self) -> str:
        assert self._image.cluster_id is not None, "no client is served before the cluster has its id"
        return self._image.cluster_id

    @property
    def controller_id(self) -> int:
        """A live broker: clients send it what only a controller may decide, and look for it among the live ones."""
        live = self._image.live_brokers()
        return self._node_id if self._node_id in live else next(iter(live), _NOBODY)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name behind an id, if there is such a topic."""
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def brokers(self, listener: str) -> list[BrokerMetadata]:
        """Every live broker that clients of this listener can reach, where they can reach it."""
        return self._told(self._image.live_brokers(), listener)

    def listed_brokers(self, listener: str) -> list[BrokerMetadata]:
        """The same, and those who have just died."""
        if not self._died_at:
            return self.brokers(listener)
        since = self._time_s() - _MOURNING_S
        self._died_at = {broker: at for broker, at in self._died_at.items() if at > since}
        listed = {*self._image.live_brokers(), *(self._died_at.keys() & self._image.brokers.keys())}
        return self._told(sorted(listed), listener)

    def note_brokers(self) -> None:
        """Some broker has come or gone."""
        live = frozenset(self._image.live_brokers())
        self._died_at = {broker: at for broker, at in self._died_at.items() if broker not in live}
        self._died_at |= dict.fromkeys(self._live - live, self._time_s())
        self._live = live

    def fenced_brokers(self, listener: str) -> list[BrokerMetadata]:
        """Those that belong to the cluster and do not take part, where they were reached last."""
        return self._told(sorted(set(self._image.brokers) - set(self._image.live_brokers())), listener)

    def _told(self, broker_ids: Iterable[int], listener: str) -> list[BrokerMetadata]:
        found = []
        for broker_id in broker_ids:
            broker = self._image.brokers[broker_id]
            endpoint = broker.endpoint(listener)
            if endpoint is not None:
                found.append(BrokerMetadata(broker_id, endpoint.host, endpoint.port, broker.rack))
        return found

    def encoded_topic(self, topic: Topic, version: int) -> bytes:
        """The topic's part of a Metadata answer, without authorized operations."""
        key = (topic.topic_id, version)
        state = (topic.changed_at, self._image.brokers_changed_at)
        kept = self._encoded.get(key)
        if kept is not None and kept[0] == state:
            return kept[1]
        encoded = encode_topic(
            version,
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=UUID(bytes=topic.topic_id),
            is_internal=topic.is_internal,
            partitions=self.partitions(topic),
        )
        self._encoded[key] = (state, encoded)
        return encoded

    def partitions(self, topic: Topic) -> Sequence[PartitionMetadata]:
        """The topic's partitions as clients see them."""
        live = set(self._image.live_brokers())
        return [
            PartitionMetadata(
                ErrorCode.NONE if partition.has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
                index,
                partition.leader,
                partition.leader_epoch,
                partition.replicas,
                partition.isr,
                self._offline(partition, live),
            )
            for index, partition in enumerate(topic.partitions)
        ]

    def _offline(self, partition: Partition, live: Container[int]) -> Sequence[int]:
        """Replicas whose broker is away, or whose log directory has failed (KIP-858)."""
        if not partition.directories:
            return [replica for replica in partition.replicas if replica not in live]
        brokers = self._image.brokers
        return [
            replica
            for replica, directory in zip(partition.replicas, partition.directories)
            if replica not in live or not brokers[replica].has_online(directory)
        ]

    def forget(self, topic_id: bytes) -> None:
        """The topic was deleted."""
        for key in [key for key in self._encoded if key[0] == topic_id]:
            del self._encoded[key]
