"""What the metadata image is made of: brokers, topics and partitions.

`Partition` and `Broker` are values: a change makes a new one. `Topic` is changed in place, by the image alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bifrost.controller.core.records import NO_LEADER, Endpoint

# Topics that the cluster keeps for itself; Metadata marks them as internal.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"
NOT_SHUTTING_DOWN: Final = -1
NEVER_FENCED: Final = -1


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

    @property
    def shutting_down(self) -> bool:
        return self.shutdown_offset != NOT_SHUTTING_DOWN

    @property
    def active(self) -> bool:
        """Whether it may lead and be in sync (Kafka: ClusterControlManager.isActive)."""
        return not self.fenced and self.shutdown_offset == NOT_SHUTTING_DOWN

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where to reach it through the listener of that name."""
        return next((one for one in self.endpoints if one.listener == listener), None)


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
