"""What a request handler may touch: the parts of one broker, and who is asking."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from bifrost.broker.connection import Connection
from bifrost.broker.fetch_sessions import FetchSessions
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.metadata_cache import MetadataCache
from bifrost.broker.producer_ids import ProducerIds
from bifrost.broker.waiters import Waiters
from bifrost.clock import Clock
from bifrost.controller.driver import Controller
from bifrost.coordinator.driver import GroupCoordinator
from bifrost.errors import DiskFullError, StorageError
from bifrost.log.manager import LogManager
from bifrost.metrics import Metrics
from bifrost.replication.manager import ReplicaManager
from bifrost.settings import Settings
from bifrost.types import NodeId

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
    controller: Controller
    replicas: ReplicaManager
    waiters: Waiters
    metadata: MetadataCache
    producer_ids: ProducerIds
    groups: GroupCoordinator
    on_bug: Callable[[BaseException], None]
    """A promise of ours was broken: the node must stop before it writes anything else."""
    metrics: Metrics = field(default_factory=Metrics)
    sessions: FetchSessions = field(init=False)

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
        self.sessions = FetchSessions(self.settings.max_incremental_fetch_session_cache_slots, self.rng)


@dataclass(slots=True)
class RequestContext:
    """One request on its way: the broker that answers it, and the client that asked."""

    broker: Broker
    connection: Connection
    version: int
    client_id: str | None
