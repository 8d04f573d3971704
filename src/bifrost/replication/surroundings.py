"""Whom a partition tells of what happens to it: the node that it is on, and followers that wait for more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bifrost.replication.core.leader import Member
from bifrost.types import NodeId

if TYPE_CHECKING:
    from bifrost.replication.partition import Partition


class Watcher(Protocol):
    """A follower that may be waiting for what comes next."""

    def on_append(self, partition: Partition) -> None:
        """There is more to fetch, or another leader to fetch it from."""

    def on_committed(self, partition: Partition) -> None:
        """The high watermark has moved."""

    def on_start_moved(self, partition: Partition) -> None:
        """The log begins later than it did."""


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What every partition of a node shares."""

    me: NodeId
    wake: Callable[[Partition], None]
    """Somebody may wait for what has just become safe, or for a leader that has gone."""
    nudge: Callable[[Partition], None] = lambda _partition: None
    """Nobody can read more than before, but this disk has synced what some wait for alone (acks=1), or a replica has
    deleted records."""
    propose: Callable[[Partition, tuple[Member, ...]], None] = lambda _partition, _isr: None
    """Ask the controller for another ISR."""
    on_synced: Callable[[Partition], None] = lambda _partition: None
    """What was fetched for a partition that this node follows is on disk."""
    on_start_stored: Callable[[Partition], None] = lambda _partition: None
    """It is on disk where the log of a partition begins that this node follows: its leader may be told."""
    live: dict[NodeId, int] = field(default_factory=dict)
    """The epochs of all brokers that may be in sync; one object for the life of the node."""
