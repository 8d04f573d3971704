"""Odin's half of a node: its place in the quorum, the metadata that it follows, and the controller when it leads.

A broker that does not vote has this half too, as an observer: it follows the same log to the same image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Final

from bifrost.broker.connection import Connection
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.quotas.client_quotas import ClientQuotas
from bifrost.clock import Clock
from bifrost.controller.broker_links import BrokerLinks
from bifrost.controller.broker_watch import BrokerWatch
from bifrost.controller.core.brokers import Registration
from bifrost.controller.core.heartbeats import Heartbeat, HeartbeatAnswer, heartbeat
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.driver import Controller
from bifrost.controller.leader_balance import LeaderBalance
from bifrost.controller.lost_partitions import LostPartitions
from bifrost.controller.replica import MetadataReplica
from bifrost.controller.snapshots import SnapshotTaker
from bifrost.errors import StorageError
from bifrost.log.checkpoints import encode_uuid
from bifrost.log.disk import Disk
from bifrost.log.log_directory import new_directory_id
from bifrost.metrics import Metrics
from bifrost.peers.connection import PeerConnection, PeerError, connect
from bifrost.peers.names import node_name
from bifrost.peers.transport import Transport
from bifrost.protocol.messages.quorum import DescribeQuorumResponse, QuorumNode
from bifrost.protocol.messages.voters import Endpoint
from bifrost.raft.confirming import LeadershipCheck
from bifrost.raft.core.effects import Timing
from bifrost.raft.core.roles import Leader
from bifrost.raft.driver import QuorumMember, QuorumSettings
from bifrost.raft.links import VoterAddress
from bifrost.raft.serving import QuorumService
from bifrost.raft.storage import RaftStorage
from bifrost.settings import Settings
from bifrost.types import NodeId

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_FETCH_WAIT_MS: Final = 500
"""So long a leader that has nothing to tell keeps a fetch: Kafka's, and less if the follower would take it for dead."""
_APPLY_BYTES: Final = 16 << 10
"""So much is applied before others get a turn: some hundred records, a millisecond or two."""
_APPLY_BYTES_BROKER: Final = 1 << 10
"""A broker makes files for each partition that is new, a millisecond or so: some ten of them."""

Forward = Callable[[bytes, str], Awaitable[bytes]]
"""Brings a request from that client, header and all, to the active controller, and its answer back."""


class Odin:
    """Made by `open`, from what is on disk. `image` is read by everybody; `controller` answers while it is active."""

    forward: Forward
    """What is asked of this node while another one leads. Given by the node, which has the connections for it."""

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
        self.metrics, self.on_bug = metrics, on_failure
        self._settings, self._clock, self._transport, self._rng = settings, clock, transport, rng
        self._storage = storage
        self._failure: BaseException | None = None
        self._known_leader: NodeId | None = None
        self._leader_followers: list[Callable[[], None]] = []
        self._beats: dict[int, Connection | None] = {}  # by broker: where it was last heard; None: in this process
        self.replica = MetadataReplica(storage)
        if storage.snapshot is not None:
            self.replica.on_snapshot(storage.snapshots.changes(storage.snapshot), storage.snapshot.end_offset)
        self._snapshots = SnapshotTaker(
            self.replica,
            storage,
            clock,
            bytes_between=settings.metadata_log_max_record_bytes_between_snapshots,
            interval_ms=settings.metadata_log_max_snapshot_interval_ms,
        )
        self.member = QuorumMember(
            NodeId(settings.node_id),
            quorum_settings(settings),
            storage,
            transport=transport,
            clock=clock,
            rng=rng,
            on_commit=self._on_commit,
            load_snapshot=self.replica.load_snapshot,
            on_change=self._on_change,
            on_failure=self._on_failure,
        )
        self.service = QuorumService(self.member)
        self._check = LeadershipCheck(self.member, transport)
        self.controller = Controller(self.member, self.replica, settings, rng, on_failure=self._on_failure)
        self.live = LiveSettings(settings, self.replica.image)
        self.replica.subscribe(self.live.on_change)  # before anybody else acts on a change, for they read them
        self.quotas = ClientQuotas(settings, self.replica.image, metrics, asyncio.get_running_loop().time)
        self.replica.subscribe(self.quotas.on_change)
        self._watch = BrokerWatch(
            self.controller,
            asyncio.get_running_loop(),
            self._is_gone,
            session_timeout_ms=settings.broker_session_timeout_ms,
        )
        self._balance = LeaderBalance(
            self.controller,
            enabled=settings.auto_leader_rebalance_enable,
            interval_s=settings.leader_imbalance_check_interval_seconds,
        )
        links = BrokerLinks(
            lambda: self.replica.image,
            transport,
            node_name(settings.node_id, "controller"),
            listener=settings.inter_broker_listener_name,
            timeout_s=settings.controller_quorum_request_timeout_ms / 1000,
        )
        self.lost = LostPartitions(self.controller, links, settings)
        self.replica.subscribe(self.lost.on_change)
        self._apply_bytes = _APPLY_BYTES_BROKER if "broker" in settings.process_roles else _APPLY_BYTES
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
        """StorageError if what was committed cannot be read, and nobody else has it."""
        has_others = any(voter != settings.node_id for voter in quorum_settings(settings).voters)
        storage = RaftStorage.open(disk, settings.metadata_directory, settings, clock, has_others=has_others)
        return cls(settings, storage, transport=transport, clock=clock, rng=rng, metrics=metrics, on_failure=on_failure)

    async def wait_for_candidates(self) -> None:
        """If this node may have voted, and cannot remember: nobody may count that vote any more when it votes again."""
        if self._storage.is_vote_lost:
            await asyncio.sleep(2 * self.member.settings.timing.election_timeout_ms / 1000)

    def start(self) -> None:
        """Take part in the quorum."""
        self.member.start()

    async def run(self) -> None:
        """Lead when it is this node's turn, until `stop`."""
        await asyncio.gather(
            self.controller.run(),
            self._watch.run(),
            self._watch.look_around(),
            self._balance.run(),
            self._snapshots.run(),
            self.lost.run(),
        )

    async def until_founded(self) -> None:
        """Wait until the cluster has an id, which the first controller of a new one gives it.

        A voter also waits until it may elect others: whoever finds all of them started may take one away.
        """
        core = self.member.core
        while self.replica.image.cluster_id is None or (core.is_voter and core.state.is_newborn):
            if self._failure is not None:
                raise self._failure
            if self.controller.is_active and self.replica.image.cluster_id is None:
                await self.controller.open_cluster(encode_uuid(new_directory_id(self._rng)))
            else:
                await self.member.changed()
        self.member.cluster_id = self.replica.image.cluster_id

    def stop_waiting(self, reason: BaseException) -> None:
        """Who waits here for what others decide gets the reason why that is over."""
        self._failure = self._failure or reason
        self.member.wake()

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
        """A broker lives, for as long as the connection does that it last said so on. An earlier start of it is refused
        first: else the end of the right connection would be taken for that of one that was given up. So it would by
        words that were long on their way, on a connection that the broker has left for another."""
        self._watch.check(asked)
        if self._broker_is_alone and asked.broker_id == self.member.me:  # it speaks up when a directory fails
            return await self.controller.submit(lambda image: heartbeat(image, asked, {}))
        known = self._beats.get(asked.broker_id)
        if connection is None or known is None or connection.opened_at >= known.opened_at:
            self._beats[asked.broker_id] = connection
        if connection is not None:
            silence = partial(self._on_silence, connection, asked.broker_id, asked.broker_epoch)
            connection.when_lost["heartbeats"] = silence
        return await self._watch.heartbeat(asked)

    @property
    def voters(self) -> dict[NodeId, VoterAddress]:
        """Where those who vote are reached; nobody, if this node is alone and was not told where."""
        found = {voter: address for voter, address in self.member.settings.voters.items() if address.port}
        own = next((one for one in self._settings.controller_listeners if one.port), None)
        if not found and own is not None:
            host = own.host if own.host not in ("", "0.0.0.0", "::") else self._transport.host_name()
            found[self.member.me] = VoterAddress(host, own.port)
        return found

    async def describe_quorum(self) -> DescribeQuorumResponse:
        """How far everybody is. The high watermark in it counts: a majority has just confirmed that this node leads."""
        await self._check.confirm()
        return self.describe_followers()

    def describe_followers(self) -> DescribeQuorumResponse:
        """The same by this node's word alone; ApiError if it does not lead."""
        answer = self.service.describe(self._clock.now_ms())
        name = self._settings.controller_listener_names[0]
        answer.nodes = [
            QuorumNode(node_id=voter, listeners=[Endpoint(name=name, host=host, port=port)])
            for voter, (host, port) in self.voters.items()
        ]
        return answer

    def on_storage_error(self, error: StorageError) -> None:
        self.metrics.storage_errors += 1
        self._on_failure(error)

    async def resign(self) -> None:
        """Let somebody else lead the quorum, before this node's doors close."""
        await self.member.resign()

    async def stop(self, *, clean: bool) -> None:
        self._watch.close()
        self._balance.close()
        self.lost.close()
        self._snapshots.close()
        self.controller.close()
        self._check.close()
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
        self.on_bug(error)

    async def _is_gone(self, broker_id: int) -> bool | None:
        """Whether nobody listens at any of the broker's addresses, for which somebody must be there to say so; None if
        one of them cannot be reached."""
        broker = self.replica.image.brokers.get(broker_id)
        for endpoint in () if broker is None else broker.endpoints:
            door = PeerConnection(node_name(self.member.me, "look"), answer_bytes_max=0)
            try:
                await connect(self._transport, endpoint.host, endpoint.port, door, timeout_s=_LOOK_S)
            except PeerError as error:
                if not error.refused:
                    return None
            else:
                door.close()
                return False
        return None if broker is None else True

    def _on_silence(self, connection: Connection, broker_id: int, broker_epoch: int) -> None:
        """A connection has ended that heartbeats came on. The broker may have given it up itself, for another."""
        if self._beats.get(broker_id) is connection:
            del self._beats[broker_id]
            self._watch.on_connection_lost(broker_id, broker_epoch)

    def _on_commit(self, end_offset: int) -> int:
        applied = self.replica.on_commit(end_offset, self._apply_bytes)
        self._snapshots.on_commit()
        return applied

    def _on_change(self) -> None:
        """Take the controller's chair once everything from before is known, and leave it when somebody else leads."""
        core = self.member.core
        if isinstance(core.role, Leader):
            if not self.controller.is_active_in(core.epoch) and self.replica.next_offset > core.role.epoch_start:
                self._beats.clear()  # brokers may have left these connections for others while nobody led here
                self.controller.activate(core.epoch)
                self.lost.on_active()
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
        fetch_wait_ms=min(_FETCH_WAIT_MS, settings.controller_quorum_fetch_timeout_ms // 2),
        fetch_bytes_max=settings.controller_quorum_fetch_max_bytes,
        snapshot_bytes_max=settings.controller_quorum_fetch_snapshot_max_bytes,
    )
