"""Odin's half of a node: its place in the quorum, the metadata that it follows, and the controller when it leads.

A broker that does not vote has this half too, as an observer: it follows the same log to the same image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random

from bifrost.broker.connection import Connection
from bifrost.broker.live_settings import LiveSettings
from bifrost.clock import Clock
from bifrost.controller.broker_watch import BrokerWatch
from bifrost.controller.core.brokers import Registration
from bifrost.controller.core.heartbeats import Heartbeat, HeartbeatAnswer
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.driver import Controller
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import StorageError
from bifrost.log.checkpoints import encode_uuid
from bifrost.log.disk import Disk
from bifrost.log.log_directory import new_directory_id
from bifrost.metrics import Metrics
from bifrost.peers.transport import Transport
from bifrost.protocol.messages.quorum import DescribeQuorumResponse
from bifrost.raft.core.effects import Timing
from bifrost.raft.core.messages import SnapshotId
from bifrost.raft.core.roles import Leader
from bifrost.raft.driver import QuorumMember, QuorumSettings
from bifrost.raft.links import VoterAddress
from bifrost.raft.serving import QuorumService
from bifrost.raft.storage import RaftStorage
from bifrost.settings import Settings
from bifrost.types import NodeId

_log = logging.getLogger(__name__)


class Odin:
    """Made by `open`, from what is on disk. `image` is read by everybody; `controller` answers while it is active."""

    def __init__(
        self,
        settings: Settings,
        storage: RaftStorage,
        *,
        transport: Transport,
        clock: Clock,
        rng: Random,
        metrics: Metrics,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.metrics = metrics
        self.on_bug = on_failure
        self._clock = clock
        self._rng = rng
        self._storage = storage
        self._failure: BaseException | None = None
        self._known_leader: NodeId | None = None
        self._leader_followers: list[Callable[[], None]] = []
        self._tell_failure = on_failure
        self.replica = MetadataReplica(storage)
        if storage.snapshot is not None:
            self._restore(storage.snapshot)
        self.member = QuorumMember(
            NodeId(settings.node_id),
            quorum_settings(settings),
            storage,
            transport=transport,
            clock=clock,
            rng=rng,
            on_commit=self.replica.on_commit,
            on_snapshot=self._restore,
            on_change=self._on_change,
            on_failure=self._on_failure,
        )
        self.service = QuorumService(self.member)
        self.controller = Controller(self.member, self.replica, settings, rng, on_failure=self._on_failure)
        self.live = LiveSettings(settings, self.replica.image)
        self.replica.subscribe(self.live.on_change)  # before anybody else acts on a change, for they read them
        self._watch = BrokerWatch(
            self.controller, asyncio.get_running_loop(), session_timeout_ms=settings.broker_session_timeout_ms
        )
        self._broker_is_alone = self.member.core.voters == (self.member.me,) and "broker" in settings.process_roles

    @classmethod
    def open(
        cls,
        settings: Settings,
        disk: Disk,
        *,
        transport: Transport,
        clock: Clock,
        rng: Random,
        metrics: Metrics,
        on_failure: Callable[[BaseException], None],
    ) -> Odin:
        """StorageError if what was committed cannot be read."""
        storage = RaftStorage.open(disk, settings.metadata_directory, settings, clock)
        return cls(settings, storage, transport=transport, clock=clock, rng=rng, metrics=metrics, on_failure=on_failure)

    def start(self) -> None:
        """Take part in the quorum."""
        self.member.start()

    async def run(self) -> None:
        """Lead when it is this node's turn, until `stop`."""
        await asyncio.gather(self.controller.run(), self._watch.run())

    async def until_founded(self) -> None:
        """Wait until the cluster has an id, which the first controller of a new one gives it."""
        while self.replica.image.cluster_id is None:
            if self._failure is not None:
                raise self._failure
            if self.controller.is_active:
                await self.controller.open_cluster(encode_uuid(new_directory_id(self._rng)))
            else:
                await self.member.changed()
        self.member.cluster_id = self.replica.image.cluster_id

    def follow_leader(self, follower: Callable[[], None]) -> None:
        """Call `follower` whenever somebody else leads the quorum, or nobody."""
        self._leader_followers.append(follower)

    @property
    def watches_nobody_else(self) -> bool:
        """Whether this node is the whole quorum and its only broker does not have to say that it lives."""
        return self._broker_is_alone

    async def until_applied(self, offset: int) -> None:
        """Wait until the change at `offset` is in this node's image."""
        await self.until(lambda _: self.replica.next_offset > offset)

    async def until(self, condition: Callable[[MetadataImage], bool]) -> None:
        """Wait until this node's image is so."""
        while not condition(self.replica.image):
            if self._failure is not None:
                raise self._failure
            await self.member.changed()

    async def register(self, asked: Registration) -> int:
        """The epoch of a broker that starts. The broker of a node that is the whole quorum takes part at once: nobody
        else could notice that it does not live."""
        own = self._broker_is_alone and asked.broker_id == self.member.me
        return await self._watch.register(asked, fenced=not own)

    async def heartbeat(self, asked: Heartbeat, connection: Connection | None) -> HeartbeatAnswer:
        """A broker lives, for as long as the connection does that it says so on."""
        if connection is not None:
            connection.on_lost = partial(self._watch.on_connection_lost, asked.broker_id, asked.broker_epoch)
        return await self._watch.heartbeat(asked)

    def describe_quorum(self) -> DescribeQuorumResponse:
        return self.service.describe(self._clock.now_ms())

    def on_storage_error(self, error: StorageError) -> None:
        self.metrics.storage_errors += 1
        self._on_failure(error)

    async def stop(self, *, clean: bool) -> None:
        self._watch.close()
        self.controller.close()
        await self.member.stop(clean=clean)

    def close(self) -> None:
        """Let go of the files, in order."""
        try:
            self._storage.close()
        except StorageError as error:
            _log.warning("metadata log not closed in order error=%r", str(error))

    def _on_failure(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.member.wake()
        self._tell_failure(error)

    def _restore(self, snapshot: SnapshotId) -> None:
        self.replica.on_snapshot(self._storage.snapshots.changes(snapshot), snapshot.end_offset)

    def _on_change(self) -> None:
        """Take the controller's chair once everything from before is known, and leave it when somebody else leads."""
        core = self.member.core
        if isinstance(core.role, Leader):
            if not self.controller.is_active_in(core.epoch) and self.replica.next_offset > core.role.epoch_start:
                self.controller.activate(core.epoch)
                self._watch.on_active(self.member.me if self._broker_is_alone else None)
        else:
            self.controller.deactivate()
        if core.leader != self._known_leader:
            self._known_leader = core.leader
            for follower in self._leader_followers:
                follower()


def quorum_settings(settings: Settings) -> QuorumSettings:
    """Who votes: those that the settings name, or this node alone."""
    voters: dict[NodeId, VoterAddress] = {}
    for voter in settings.controller_quorum_voters:
        node_id, _, address = voter.partition("@")
        host, _, port = address.rpartition(":")
        voters[NodeId(int(node_id))] = VoterAddress(host.strip("[]"), int(port))
    if not voters:
        voters[NodeId(settings.node_id)] = VoterAddress("", 0)
    return QuorumSettings(
        voters=voters,
        timing=Timing(
            election_timeout_ms=settings.controller_quorum_election_timeout_ms,
            backoff_max_ms=settings.controller_quorum_election_backoff_max_ms,
            fetch_timeout_ms=settings.controller_quorum_fetch_timeout_ms,
        ),
        request_timeout_ms=settings.controller_quorum_request_timeout_ms,
        retry_backoff_ms=settings.controller_quorum_retry_backoff_ms,
        fetch_bytes_max=settings.controller_quorum_fetch_max_bytes,
        snapshot_bytes_max=settings.controller_quorum_fetch_snapshot_max_bytes,
    )
