"""What `Admin` returns: plain, frozen facts about a cluster at the moment of the question.

Their fields are also the fields of the command line's `--json`, so a name that is here once stays. Things that follow
from the fields are properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bifrost.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Broker:
    """One node of the cluster, with the address that it tells clients."""

    id: int
    host: str
    port: int
    rack: str | None

    def __str__(self) -> str:
        return f"{self.id} ({self.host}:{self.port})"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers that are up, and which of them answers for the controller."""

    id: str
    controller: int | None
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker, whether it takes part, and its share of the partitions."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    """It belongs to the cluster, and the controllers count it out: it died, hangs, or is only starting."""
    controller: bool
    """Whether it is the one that clients are told to send a controller's work to."""
    leaders: int
    """Partitions that it leads."""
    replicas: int
    """Partitions that it holds, those that it leads among them."""


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """One that votes, or that follows without a vote, as the leader of the quorum sees it."""

    id: int
    end_offset: int
    lag: int
    """Records that the leader has and this one has not asked beyond yet."""
    last_fetch_ms: int | None
    """Milliseconds since 1970; None if the leader has not heard of it yet, or does not tell."""
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controllers: who decides, since which epoch, and how far everybody is with what was decided."""

    leader: int
    epoch: int
    high_watermark: int
    """Everything below this offset is committed: no failure of a minority undoes it."""
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in a list."""

    name: str
    partitions: int
    replication_factor: int
    internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Where a partition is, and what it holds."""

    partition: int
    leader: int | None
    """None: no replica that may lead is alive, so nothing can be written or read."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start_offset: int | None = None
    """The first offset that can be read; None when it was not asked for, or there is no leader to ask."""
    end_offset: int | None = None
    """The offset that the next message gets (of those that are replicated)."""

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with all its partitions."""

    name: str
    id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)

    def listing(self) -> TopicListing:
        return TopicListing(self.name, len(self.partitions), self.replication_factor, self.internal)


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting of a topic or a broker, and where its value comes from."""

    name: str
    value: str | None
    """None when it has none, and when it is secret."""
    source: str
    """`topic`, `broker`, `cluster`, `group`, `static` (the broker's file) or `default`."""
    read_only: bool
    sensitive: bool

    @property
    def is_set(self) -> bool:
        """Whether it was set for this very topic or broker, and can thus be unset."""
        return self.source in {"topic", "broker"}


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets that a partition holds: from `start` up to, and without, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A consumer group in a list."""

    name: str
    state: str
    """Kafka's word: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Dead."""
    protocol: str
    """`classic`, or `consumer` for KIP-848."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer in a group, where it runs, and the partitions it owns."""

    id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group has come in a partition."""

    topic: str
    partition: int
    committed: int | None
    """Where the group goes on; None when it has committed nothing here."""
    start: int | None
    end: int | None
    """None when the partition is gone or has no leader."""
    member: str | None
    """The id of the member that owns the partition."""

    @property
    def lag(self) -> int | None:
        """Messages that are still to come; None when that cannot be told."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members and how far it has come."""

    name: str
    state: str
    protocol: str
    assignor: str
    coordinator: int | None
    members: tuple[GroupMember, ...]
    offsets: tuple[GroupOffset, ...]

    @property
    def lag(self) -> int | None:
        """Messages that are still to come, in all partitions where that can be told; None if it can in none of them."""
        known = [each.lag for each in self.offsets if each.lag is not None]
        return sum(known) if known or not self.offsets else None

    @property
    def untold(self) -> int:
        """Partitions that `lag` leaves out: nothing is committed there, or nobody knows where they end."""
        return sum(each.lag is None for each in self.offsets)


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """One line of a plan: where the group is, and where it will be."""

    topic: str
    partition: int
    current: int | None
    new: int
    note: str = ""
    """Why it is not what was asked for, if it is not."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Messages that are deleted from the beginning of a partition: it begins at `new_start` instead of `start`."""

    topic: str
    partition: int
    start: int
    new_start: int
    end: int

    @property
    def count(self) -> int:
        """Offsets that go; compaction may have taken some of their messages before."""
        return self.new_start - self.start

    def counted_from(self, start: int) -> Deletion:
        """The same, of a partition that began at `start` when somebody looked before."""
        return Deletion(self.topic, self.partition, start, self.new_start, self.end)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What `Admin.plan_reset` would do to a group, for `Admin.reset_offsets` to do."""

    group: str
    state: str
    """Of the group when the plan was made. Dead: there is no such group, and the reset makes it."""
    changes: tuple[OffsetChange, ...]


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A directory that a broker keeps logs in."""

    broker: int
    path: str
    error: str | None
    """Why it is offline; None while it is not."""
    replicas: int
    future_replicas: int
    """On their way here from another directory of the same broker."""
    size_bytes: int
    """Of all of them."""
    total_bytes: int | None
    usable_bytes: int | None
    """Of the volume; None if the broker does not tell."""
    cordoned: bool
    """No new replica is put here."""


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """The directory that a broker keeps a replica in."""

    broker: int
    path: str
    size_bytes: int
    future_path: str | None = None
    """Where it is going, while it moves."""
    offset_lag: int = 0
    """How many offsets the copy there is behind."""


@dataclass(frozen=True, slots=True)
class Feature:
    """What all nodes of a cluster agree to do (KIP-584)."""

    name: str
    level: int
    """What counts now; 0: it is switched off, or was never on."""
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True)
class Health:
    """What keeps a cluster from being well; nothing, if `healthy`."""

    brokers: tuple[Broker, ...]
    controller: int | None
    partitions: int
    leaderless: tuple[TopicPartition, ...]
    """Can be neither written nor read."""
    under_replicated: tuple[TopicPartition, ...]
    """Would survive fewer failures than they should."""
    offline_brokers: tuple[int, ...]
    """Hold replicas, but are not there."""

    @property
    def healthy(self) -> bool:
        return self.controller is not None and not (self.leaderless or self.under_replicated or self.offline_brokers)


def judge(cluster: ClusterDescription, topics: Iterable[TopicDescription]) -> Health:
    """The health of a cluster with these topics."""
    pairs = [(TopicPartition(topic.name, each.partition), each) for topic in topics for each in topic.partitions]
    needed = {replica for _, each in pairs for replica in each.replicas}
    return Health(
        brokers=cluster.brokers,
        controller=cluster.controller,
        partitions=len(pairs),
        leaderless=tuple(place for place, each in pairs if each.leader is None),
        under_replicated=tuple(place for place, each in pairs if each.under_replicated),
        offline_brokers=tuple(sorted(needed - {broker.id for broker in cluster.brokers})),
    )
