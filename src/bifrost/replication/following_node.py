"""What a node tells its fetchers: who it is, whom they may reach, how much they ask for and how fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from bifrost.clock import Clock
from bifrost.errors import StorageError
from bifrost.peers.transport import Transport
from bifrost.replication.core.byte_budget import ByteBudget
from bifrost.replication.partition import Partition
from bifrost.types import NodeId


class Address(NamedTuple):
    """Where a broker listens for other brokers."""

    host: str
    port: int


@dataclass(slots=True, kw_only=True)
class FetchSettings:
    """How much is asked for at a time, and how patient a follower is (Kafka: replica.fetch.*, replica.socket.*)."""

    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    pause_max_ms: int
    timeout_ms: int


@dataclass(slots=True, kw_only=True)
class FollowingNode:
    """What the fetchers of a node share."""

    broker_id: NodeId
    broker_epoch: Callable[[], int]
    address_of: Callable[[NodeId], Address | None]
    transport: Transport
    clock: Clock
    settings: FetchSettings
    on_storage_error: Callable[[StorageError], None]
    budget: ByteBudget = field(default_factory=ByteBudget)
    is_throttled: Callable[[Partition], bool] = lambda _partition: False
    """Whether the partition spends from the budget: it catches up, and its topic wants that to be throttled."""
