"""What a request handler may touch: the parts of one broker, and who is asking."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from bifrost.broker.connection import ANONYMOUS, Connection
from bifrost.broker.controller_channel import ControllerChannel
from bifrost.broker.fetch_sessions import FetchSessions
from bifrost.broker.forwarding import Forwarding
from bifrost.broker.inspector import Inspector
from bifrost.broker.lifecycle import BrokerLifecycle
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.log_moves import LogMoves
from bifrost.broker.metadata_cache import MetadataCache
from bifrost.broker.odin import Odin
from bifrost.broker.producer_ids import ProducerIds
from bifrost.broker.quotas.client_quotas import ClientQuotas, Mutations
from bifrost.broker.replica_fetches import ReplicaFetches
from bifrost.broker.replica_session import CatchUpLimits
from bifrost.broker.waiters import Waiters
from bifrost.clock import Clock
from bifrost.controller.core.image import MetadataImage
from bifrost.coordinator.driver import GroupCoordinator
from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.log.manager import LogManager
from bifrost.metrics import Metrics
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.settings import Settings
from bifrost.types import NodeId, TopicPartition

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Broker:
    """The parts of one broker, put together by broker.node."""

    live: LiveSettings
    node_id: NodeId
    clock: Clock
    rng: random.Random
    loop: asyncio.AbstractEventLoop
    logs: LogManager
    odin: Odin
    channel: ControllerChannel
    lifecycle: BrokerLifecycle
    forwarding: Forwarding
    replicas: ReplicaManager
    waiters: Waiters
    metadata: MetadataCache
    producer_ids: ProducerIds
    catch_up_limits: CatchUpLimits
    groups: GroupCoordinator
    inspector: Inspector
    log_moves: LogMoves
    on_bug: Callable[[BaseException], None]
    """A promise of ours was broken: the node must stop before it writes anything else."""
    metrics: Metrics = field(default_factory=Metrics)
    quotas: ClientQuotas = field(init=False)
    sessions: FetchSessions = field(init=False)
    replica_fetches: ReplicaFetches = field(init=False)

    @property
    def image(self) -> MetadataImage:
        """The metadata that this node has heard of. Read it between two awaits; keep no reference to its parts."""
        return self.odin.replica.image

    @property
    def settings(self) -> Settings:
        """As they stand; do not keep them across an await."""
        return self.live.now

    def on_storage_error(self, error: StorageError) -> None:
        """A full disk refuses writes and nothing more; any other failure takes its log directory offline."""
        self.metrics.storage_errors += 1
        if isinstance(error, DiskFullError):
            _log.warning("write refused, disk full path=%s", error.path)
        else:
            self.logs.take_offline(error)

    def __post_init__(self) -> None:
        self.quotas = self.odin.quotas
        self.sessions = FetchSessions(self.settings.max_incremental_fetch_session_cache_slots, self.rng)
        self.replica_fetches = ReplicaFetches(
            self.find_partition,
            loop=self.loop,
            rng=self.rng,
            on_storage_error=self.on_storage_error,
            limits=self.catch_up_limits,
        )

    def rack_of(self, broker_id: NodeId) -> str | None:
        """Where that broker stands, if it says so."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    def find_partition(self, topic_id: bytes, index: int) -> Partition:
        """A partition that this node hosts, by the id of its topic."""
        name = self.metadata.topic_name(topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.replicas.get(TopicPartition(name, index))


class Host(Protocol):
    """What answers requests: a broker or a controller."""

    metrics: Metrics
    quotas: ClientQuotas

    @property
    def on_bug(self) -> Callable[[BaseException], None]: ...

    def on_storage_error(self, error: StorageError) -> None: ...


class Context(Protocol):
    """One request on its way: what answers it, and who asked."""

    version: int
    client_id: str | None

    @property
    def host(self) -> Host: ...


@dataclass(slots=True)
class RequestContext:
    """A request to a broker."""

    broker: Broker
    connection: Connection
    version: int
    client_id: str | None

    @property
    def host(self) -> Host:
        return self.broker


@dataclass(slots=True)
class ControllerContext:
    """A request to a controller, or for one; without a connection it comes from this very node."""

    odin: Odin
    connection: Connection | None
    version: int
    client_id: str | None

    @property
    def host(self) -> Host:
        return self.odin

    def mutations(self, *, strict_since: int) -> Mutations:
        """What the client may change of topics; nodes may all that they need."""
        user = ANONYMOUS if self.connection is None else self.connection.user
        return self.odin.quotas.mutations(user, self.client_id, strict=self.version >= strict_since)
