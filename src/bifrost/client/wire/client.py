"""The wire client as its users see it: one object for a cluster, whatever they move."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Self
from weakref import WeakSet

from bifrost.client.clusters import resolve, split_address
from bifrost.client.descriptions import BrokerDescription, Feature, LogDirectory, Quorum, ReplicaPlace
from bifrost.client.errors import InvalidRequestError
from bifrost.client.wire.brokers import describe_brokers
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.connection import Address
from bifrost.client.wire.features import describe_features
from bifrost.client.wire.fetching import FetchStream
from bifrost.client.wire.group_commits import commit_offsets
from bifrost.client.wire.log_dirs import describe_log_dirs, move_replica, replica_places
from bifrost.client.wire.offsets import OffsetAndTimestamp, list_offsets
from bifrost.client.wire.producer import IN_FLIGHT_MAX, BatchProducer
from bifrost.client.wire.quorum import describe_quorum
from bifrost.client.wire.quota_admin import QuotaAdmin
from bifrost.client.wire.replica_admin import ReplicaAdmin
from bifrost.client.wire.settings import isolation_number, read_settings
from bifrost.types import TopicPartition

DEFAULT_PORT: Final = 9092
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class WireClient:
    """Thread-safe; one for each process and cluster is enough. After a fork, parent and child may both go on.

    Nothing is connected before it is needed. `settings` go by the names of Kafka's clients.
    """

    def __init__(self, bootstrap: str | Sequence[str], settings: Mapping[str, object] = _NOTHING) -> None:
        self.settings = read_settings(settings)
        self.bootstrap = resolve(bootstrap).bootstrap
        self._cluster = Cluster([_address(each) for each in self.bootstrap.split(",")], self.settings)
        _alive.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<WireClient of {self.bootstrap}>"

    def close(self) -> None:
        """Closes connections; producers and fetches that are still open end with an error."""
        self._cluster.close()

    def topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, with those that the cluster made for itself or without."""
        found = self._cluster.topics(self._cluster.call_deadline())
        return sorted(name for name, is_internal in found.items() if internal or not is_internal)

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, as the cluster knows them now. UnknownTopicError if there is no such topic."""
        return sorted(self._cluster.topic(topic, self._cluster.call_deadline(), fresh=True).leaders)

    def brokers(self) -> list[BrokerDescription]:
        """Every broker, also those that are fenced if the cluster tells of them."""
        return describe_brokers(self._cluster, self._cluster.call_deadline())

    def quorum(self) -> Quorum:
        """Who leads the controllers, and how far they are. NoQuorumLeaderError if nobody does for too long."""
        return describe_quorum(self._cluster, self._cluster.call_deadline())

    def features(self) -> list[Feature]:
        """What the cluster's nodes agree to do, at which levels."""
        return describe_features(self._cluster, self._cluster.call_deadline())

    def log_dirs(self, brokers: Iterable[int]) -> list[LogDirectory]:
        """What brokers keep where."""
        return describe_log_dirs(self._cluster, brokers, self._cluster.call_deadline())

    def replica_places(self, broker: int) -> dict[TopicPartition, ReplicaPlace]:
        """In which directory a broker keeps each of its replicas."""
        return replica_places(self._cluster, broker, self._cluster.call_deadline())

    def move_replica(self, broker: int, partition: TopicPartition, path: str) -> None:
        """Begin to move a replica to another directory of its broker; `replica_places` tells how far it is."""
        move_replica(self._cluster, broker, partition, path, self._cluster.call_deadline())

    @property
    def replicas(self) -> ReplicaAdmin:
        """Where replicas are, and how to move them."""
        return ReplicaAdmin(self._cluster)

    @property
    def quotas(self) -> QuotaAdmin:
        """What clients may use."""
        return QuotaAdmin(self._cluster)

    def list_offsets(
        self, wanted: Mapping[tuple[str, int], int], isolation: str | None = None
    ) -> dict[tuple[str, int], OffsetAndTimestamp | None]:
        """For each partition the offset of `EARLIEST`, `LATEST`, or the first record at or after a time in ms.

        None: every record of the partition is older.
        """
        level = isolation_number(isolation or self.settings.isolation_level)
        return list_offsets(self._cluster, wanted, level, self._cluster.call_deadline())

    def fetch(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int | None = None,
        *,
        isolation: str | None = None,
        max_bytes: int | None = None,
        max_wait_ms: int | None = None,
    ) -> FetchStream:
        """Slices of the partition's log from `start` on: up to `end`, which is not included, or for ever.

        The next slice is asked for before one is handed out. A slice is empty when nothing came within `max_wait_ms`.
        A batch of more than `max_bytes` arrives nevertheless.
        """
        if start < 0 or partition < 0:
            raise InvalidRequestError(
                f"{topic}-{partition} cannot be read from {start} on", "Look up where to start with `list_offsets`."
            )
        settings = self.settings
        return FetchStream(
            self._cluster,
            topic,
            partition,
            start,
            end,
            isolation=isolation_number(isolation or settings.isolation_level),
            max_bytes=min(settings.fetch_bytes if max_bytes is None else max(1, max_bytes), settings.fetch_bytes_max),
            max_wait_ms=settings.fetch_wait_ms if max_wait_ms is None else max_wait_ms,
        )

    def producer(self, acks: int = -1, idempotent: bool = True, max_in_flight: int = IN_FLIGHT_MAX) -> BatchProducer:
        """A producer of complete record batches. Close it, or use it in a `with` block."""
        return BatchProducer(self._cluster, acks=acks, idempotent=idempotent, max_in_flight=max_in_flight)

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Sets where a group goes on, from outside of it: nobody may be reading in it."""
        commit_offsets(self._cluster, group, offsets, self._cluster.call_deadline())

    def after_fork(self) -> None:
        """In the child: leave the parent's connections alone."""
        self._cluster.forget_connections()


_alive: WeakSet[WireClient] = WeakSet()


def _after_fork() -> None:
    for client in _alive:
        client.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _address(text: str) -> Address:
    host, port = split_address(text)
    return Address(host, int(port) if port else DEFAULT_PORT)
