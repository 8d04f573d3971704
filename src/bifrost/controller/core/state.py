"""What the metadata image is made of: brokers, topics and partitions.

`Partition` and `Broker` are values: a change makes a new one. `Topic` is changed in place, by the image alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from bifrost.controller.core.records import NO_LEADER, Endpoint

# Topics that the cluster keeps for itself; Metadata marks them as internal.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"
NOT_SHUTTING_DOWN: Final = -1
NEVER_FENCED: Final = -1

# Log directories have ids. The first hundred are no directory's (Kafka: DirectoryId).
UNKNOWN_DIRECTORY: Final = bytes(16)
"""In Kafka: of replicas from before directories had ids. Nothing is held against it."""
UNASSIGNED_DIRECTORY: Final = (1).to_bytes(16)
"""Where the replica is, its broker has yet to say."""
LOST_DIRECTORY: Final = (2).to_bytes(16)
"""One that is certain to be offline."""
RESERVED_DIRECTORIES: Final = 100


class Partition(msgspec.Struct, frozen=True, gc=False):
    """Who holds a partition and who leads it.

    While replicas move (KIP-455) `replicas` are all that there are: those that stay or come, in the order that they are
    to have, then those that go. A replica may both come and go, if a move was overtaken by another.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()  # of the replicas, in their order; empty while no broker has told (KIP-858)

    def directory_of(self, broker_id: int) -> bytes:
        """Which of the broker's directories holds its replica, as far as the cluster knows."""
        if not self.directories or broker_id not in self.replicas:
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(broker_id)]

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def is_moving(self) -> bool:
        """Whether replicas come or go."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it shall have in the end."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas that it has if the move is given up."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)


class Broker(msgspec.Struct, frozen=True, gc=False):
    """A registered broker; `epoch` tells one start of it from another."""

    broker_id: int
    epoch: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    shutdown_offset: int = NOT_SHUTTING_DOWN  # the others must have seen this change before it may go
    fenced_at: int = NEVER_FENCED  # it must have seen this change before it takes part again
    directories: tuple[bytes, ...] = ()  # the ids of those of its log directories that work; empty: it has never told

    @property
    def shutting_down(self) -> bool:
        return self.shutdown_offset != NOT_SHUTTING_DOWN

    @property
    def active(self) -> bool:
        """Whether it may lead and be in sync (Kafka: ClusterControlManager.isActive)."""
        return not self.fenced and self.shutdown_offset == NOT_SHUTTING_DOWN

    def has_online(self, directory: bytes) -> bool:
        """Whether this directory works; one of which nothing is known does (Kafka: DirectoryId.isOnline)."""
        return is_online(directory, self.directories)

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where to reach it through the listener of that name."""
        return next((one for one in self.endpoints if one.listener == listener), None)


def is_online(directory: bytes, working: Collection[bytes]) -> bool:
    """Whether a replica's directory is one of those that work on its broker, as far as anybody knows."""
    if directory == LOST_DIRECTORY:
        return False
    return directory in (UNASSIGNED_DIRECTORY, UNKNOWN_DIRECTORY) or not working or directory in working


class Topic(msgspec.Struct):
    """A topic and its partitions, by index. `changed_at` is the offset of the last change to any of it.

    (topic_id, changed_at) therefore names one state of the topic, which is what a cache of encoded answers needs.
    """

    name: str
    topic_id: bytes
    partitions: list[Partition]
    changed_at: int

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def copy(self) -> Topic:
        return Topic(self.name, self.topic_id, self.partitions.copy(), self.changed_at)
