"""The replication of one broker, put together: what it follows, and what it proposes about who is in sync.

Knows the metadata image, which the parts do not, and joins them to the node's clock, network and controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bifrost.broker.controller_channel import ControllerChannel
from bifrost.broker.directory_assignments import DirectoryAssignments
from bifrost.broker.lifecycle import BrokerLifecycle
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.replica_session import CatchUpLimits
from bifrost.broker.waiters import Waiters
from bifrost.clock import Clock
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import StorageError
from bifrost.peers.transport import Transport
from bifrost.protocol.messages.replicas import AlterPartitionResponse, AssignReplicasToDirsResponse
from bifrost.replication.core.byte_budget import ByteBudget
from bifrost.replication.followers import Followers, Spawn
from bifrost.replication.following_node import Address, FetchSettings, FollowingNode
from bifrost.replication.isr_changes import IsrChanges
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.settings import Settings
from bifrost.settings.fields import LONG_MAX
from bifrost.types import NodeId

_MS: Final = 1000.0
_THROTTLED_FOLLOWERS: Final = "follower.replication.throttled.replicas"
_THROTTLED_LEADERS: Final = "leader.replication.throttled.replicas"
_ALL: Final = "*"


class Replication:
    """`around` is what partitions are made with, `followers` who fetches for those that others lead, `assignments` what
    the controller is told of where replicas are."""

    def __init__(
        self,
        live: LiveSettings,
        image: MetadataImage,
        lifecycle: BrokerLifecycle,
        channel: ControllerChannel,
        *,
        replicas: ReplicaManager,
        waiters: Waiters,
        transport: Transport,
        clock: Clock,
        on_storage_error: Callable[[StorageError], None],
        spawn: Spawn,
    ) -> None:
        settings = live.now
        self._live = live
        self._image = image
        self._me = settings.node_id
        self._listener = settings.inter_broker_listener
        self._replicas = replicas
        replicas.exists = lambda tp: image.partition(*tp) is not None
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        broker_id = NodeId(settings.node_id)
        self._isr_changes = IsrChanges(
            lambda request: channel.ask(request, AlterPartitionResponse),
            broker_id=broker_id,
            broker_epoch=lambda: lifecycle.epoch,
        )
        self.assignments = DirectoryAssignments(
            lambda request: channel.ask(request, AssignReplicasToDirsResponse),
            broker_id=broker_id,
            broker_epoch=lambda: lifecycle.epoch,
        )
        node = FollowingNode(
            broker_id=broker_id,
            broker_epoch=lambda: lifecycle.epoch,
            address_of=self._address_of,
            transport=transport,
            clock=clock,
            settings=FetchSettings(
                max_wait_ms=settings.replica_fetch_wait_max_ms,
                max_bytes=settings.replica_fetch_response_max_bytes,
                partition_max_bytes=settings.replica_fetch_max_bytes,
                pause_max_ms=settings.replica_fetch_backoff_ms,
                timeout_ms=settings.replica_socket_timeout_ms,
            ),
            on_storage_error=on_storage_error,
            budget=ByteBudget(),
            is_throttled=self._is_throttled,
        )
        self.catch_up_limits = CatchUpLimits(
            time_percent=lambda: live.now.replica_catch_up_time_percent,
            is_listed=lambda partition: self._is_listed(partition, _THROTTLED_LEADERS),
        )
        self.followers = Followers(node, spawn)
        self.around = Surroundings(
            me=broker_id,
            wake=waiters.wake,
            nudge=waiters.nudge,
            propose=self._isr_changes.propose,
            on_synced=self.followers.on_synced,
            on_start_stored=self.followers.on_start_stored,
        )

    def start(self, stops_within: Callable[[float], Awaitable[bool]]) -> None:
        """Propose and watch, until the node stops."""
        self._live.follow(self._set_rates)
        self._spawn(self._isr_changes.run(), "isr changes")
        self._spawn(self.assignments.run(), "directory assignments")
        self._spawn(self._watch(stops_within), "isr watch")

    def close(self) -> None:
        self.followers.close()
        self._isr_changes.close()
        self.assignments.close()

    async def _watch(self, stops_within: Callable[[float], Awaitable[bool]]) -> None:
        """Look now and then for followers that are behind; as often as Kafka does."""
        live = self._live
        while not await stops_within(live.now.replica_lag_time_max_ms / 2 / _MS):
            self._replicas.on_tick(self._loop.time() * _MS, live.now.replica_lag_time_max_ms)

    def _set_rates(self, settings: Settings) -> None:
        now_ms = self._loop.time() * _MS
        self.followers.set_rate(_rate(settings.follower_replication_throttled_rate), now_ms)
        budget, rate = self.catch_up_limits.budget, _rate(settings.leader_replication_throttled_rate)
        if rate != budget.rate:
            budget.set_rate(rate, now_ms)

    def _is_throttled(self, partition: Partition) -> bool:
        """Whoever is in sync is not: writes wait for it."""
        state = self._image.partition(*partition.tp)
        if state is None or self._me in state.isr:
            return False
        return self._is_listed(partition, _THROTTLED_FOLLOWERS)

    def _is_listed(self, partition: Partition, config: str) -> bool:
        topic, index = partition.tp
        listed = self._image.topic_configs(topic).get(config, "").split(",")
        return _ALL in listed or f"{index}:{self._me}" in listed

    def _address_of(self, broker_id: NodeId) -> Address | None:
        broker = self._image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)


def _rate(setting: int) -> int | None:
    return None if setting == LONG_MAX else setting
