"""Carries out what the quorum's core decides: stores, sends, waits, and tells others what is committed.

Tasks of one member: a clock that lets the core notice that time has passed, a voice for each other voter that says what
the core has to say to it, and an ear that fetches from the leader. The server's side is in `serving.py`.

Effects are carried out in one place, `run`, in the order that they are written in. Whoever waits for anything to
change waits for the next `run`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from bifrost.clock import Clock
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.peers.connection import PeerError
from bifrost.peers.names import node_name
from bifrost.peers.transport import Transport
from bifrost.protocol.control_records import LeaderChange, VoterId, control_batch
from bifrost.protocol.messages.quorum import BeginQuorumEpochResponse, EndQuorumEpochResponse, VoteResponse
from bifrost.raft import wire
from bifrost.raft.core.effects import Effects, Timing
from bifrost.raft.core.messages import Answer, BeginEpoch, EndEpoch, Message, Vote
from bifrost.raft.core.node import RaftNode
from bifrost.raft.fetching import Fetcher, LoadSnapshot
from bifrost.raft.links import Links, VoterAddress
from bifrost.raft.storage import RaftStorage
from bifrost.types import NodeId

_log = logging.getLogger(__name__)

_MS: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Who votes, and how patient everybody is."""

    voters: Mapping[NodeId, VoterAddress]
    timing: Timing
    request_timeout_ms: float = 2000
    retry_backoff_ms: float = 20
    fetch_wait_ms: int = 500
    fetch_bytes_max: int = 8 << 20
    snapshot_bytes_max: int = 1 << 20


class QuorumMember:
    """One voter, or one observer. Everything happens on its loop."""

    def __init__(
        self,
        me: NodeId,
        settings: QuorumSettings,
        storage: RaftStorage,
        *,
        transport: Transport,
        clock: Clock,
        rng: Random,
        on_commit: Callable[[int], int],
        load_snapshot: LoadSnapshot,
        on_change: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.me = me
        self.life = rng.randbytes(16)
        """Tells this start from others, so that nobody counts what an earlier one has said."""
        self.settings = settings
        self.storage = storage
        self.cluster_id: str | None = None
        """Sent along once it is known, so that nobody votes in somebody else's cluster."""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._on_commit = on_commit  # applies what is committed, or a part of it, and says how far it has come
        self._applied = 0
        self._is_applying = False
        self._on_change = on_change
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []
        self._pulse: asyncio.Future[None] = self._loop.create_future()
        self.stopping = False
        self._has_resigned = False
        self._unstored: StorageError | None = None
        snapshot = storage.snapshot
        self.core = RaftNode(
            me,
            settings.voters,
            settings.timing,
            storage,
            storage.election,
            high_watermark=0 if snapshot is None else snapshot.end_offset,
            random=rng.random,
            now_ms=self.now_ms(),
        )
        timeout_s = settings.request_timeout_ms / _MS
        self._voices = Links(transport, settings.voters, node_name(me), timeout_s=timeout_s)
        ear = Links(transport, settings.voters, node_name(me, "fetch"), timeout_s=timeout_s)
        self._fetcher = Fetcher(self, ear, rng, load_snapshot)

    def now_ms(self) -> float:
        return self._loop.time() * _MS

    def start(self) -> None:
        """Begin to take part. A quorum of one leads when this returns."""
        self.storage.start(self._loop, self._on_durable, self._on_failure)
        self.run(self.core.on_tick(self.now_ms()))
        self._spawn(self._watch_time(), "quorum clock")
        if self.core.is_voter:
            for voter in self.core.voters:
                if voter != self.me:
                    self._spawn(self._speak(voter), f"quorum voice to {voter}")
        if self.core.voters != (self.me,):
            self._spawn(self._fetcher.run(), "quorum fetcher")

    async def resign(self) -> None:
        """Do not lead any more, and wait a little for the others to have heard who should.

        Before the node's doors close: those who find them closed take it for dead, and all of them campaign.
        """
        if self.stopping or self._has_resigned:
            return
        self._has_resigned = True
        try:
            self.run(self.core.resign(self.now_ms()))
        except StorageError as error:  # those who fetch will notice that nobody answers
            _log.warning("resignation not stored path=%s detail=%s", error.path, error.detail)
        deadline = self._loop.time() + self.settings.request_timeout_ms / _MS / 4
        while not self.stopping and self._owes_words() and self._loop.time() < deadline:
            await self.changed(deadline - self._loop.time())

    async def stop(self, *, clean: bool) -> None:
        """Leave. In good order, a leader resigns first."""
        if clean:
            await self.resign()
        self.stopping = True
        self.wake()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._voices.close()
        self._fetcher.close()

    def run(self, effects: Effects) -> None:
        """Carry out what the core asks for.

        StorageError if it could not write down what it decided about an election, now or ever: the core believes in a
        vote that no disk knows of, so it may neither give nor ask for any other, nor say anything else.
        """
        if self._unstored is not None:
            raise self._unstored
        if effects.persist is not None:
            try:
                self.storage.store_election(effects.persist)
            except StorageError as error:
                self._unstored, self.stopping = error, True  # its voices fall silent before anybody stops the node
                self.wake()
                raise
            _log.info("quorum epoch=%d leader=%s role=%s", self.core.epoch, self.core.leader,
                      type(self.core.role).__name__.lower())  # fmt: skip
        if effects.truncate_to is not None:
            self.storage.truncate(effects.truncate_to)
        if effects.begin_epoch is not None:
            voters = [VoterId(voter_id=voter) for voter in self.core.voters]
            record = LeaderChange(leader_id=self.me, voters=voters, granting_voters=[])
            batch = control_batch(record, base_offset=0, leader_epoch=0, timestamp=self._clock.now_ms())
            self.storage.append_batch(batch, effects.begin_epoch)
        if effects.high_watermark is not None and not self._is_applying and not self._apply():
            return
        self._on_change()
        self.wake()

    def _on_durable(self) -> None:
        if self._unstored is None:
            self.run(self.core.on_durable())

    def _apply(self) -> bool:
        """Let some of what is committed be applied, and the rest when others have had a turn; False if it cannot be."""
        try:
            self._applied = self._on_commit(self.core.high_watermark)
        except StorageError as error:
            self._on_failure(error)
            return False
        self._is_applying = self._applied < self.core.high_watermark
        if self._is_applying:
            self._loop.call_soon(self._apply_more)
        return True

    def _apply_more(self) -> None:
        if not self.stopping and self._apply():
            self._on_change()
            self.wake()

    async def changed(self, timeout_s: float | None = None) -> None:
        """Returns when something has changed, or when time is over."""
        try:
            await asyncio.wait_for(asyncio.shield(self._pulse), timeout_s)
        except TimeoutError:
            pass

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def end_offset(self) -> int:
        return self.storage.end_offset

    async def append(self, values: Sequence[bytes], epoch: int) -> int:
        """Add values as the leader of `epoch`, and wait until they are committed and applied.

        ApiError(NOT_CONTROLLER): the epoch is over. The values may still be committed by whoever leads next.
        """
        offset = self.propose(values, epoch)
        while self._applied < offset + len(values):
            if self.stopping or not self.core.leads or self.core.epoch != epoch:
                raise ApiError(ErrorCode.NOT_CONTROLLER, f"epoch {epoch} is over")
            await self.changed()
        return offset

    def propose(self, values: Sequence[bytes], epoch: int) -> int:
        """Add values as the leader of `epoch`; they are committed once the high watermark has passed them.

        ApiError(NOT_CONTROLLER) if this node does not lead that epoch any more.
        """
        if not self.core.leads or self.core.epoch != epoch:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"epoch {epoch} is over")
        offset = self.storage.append(values, epoch)
        self.wake()
        return offset

    def wake(self) -> None:
        """Let everybody look again who waits for a change."""
        pulse, self._pulse = self._pulse, self._loop.create_future()
        pulse.set_result(None)

    def _owes_words(self) -> bool:
        return any(self.core.message_for(voter, self.now_ms()) for voter in self.core.voters)

    async def _watch_time(self) -> None:
        while not self.stopping:
            deadline_ms = float("inf") if self._has_resigned else self.core.deadline_ms()  # who goes does not campaign
            wait_ms = deadline_ms - self.now_ms()
            if wait_ms > 0:
                await self.changed(None if wait_ms == float("inf") else wait_ms / _MS)
            else:
                self.run(self.core.on_tick(self.now_ms()))

    async def _speak(self, voter: NodeId) -> None:
        """Say to one voter what has to be said, one thing at a time, until there is nothing."""
        while not self.stopping:
            message = self.core.message_for(voter, self.now_ms())
            if message is None:
                await self.changed(self.settings.timing.fetch_timeout_ms / 4 / _MS)
                continue
            try:
                answer = await self._say(voter, message)
            except PeerError as error:
                if error.refused:
                    self.run(self.core.on_peer_dead(voter, self.now_ms()))
                await asyncio.sleep(self.settings.retry_backoff_ms / _MS)
            except ApiError as error:
                _log.warning("quorum message refused voter=%d error=%s", voter, error.code.name)
                await asyncio.sleep(self.settings.timing.backoff_max_ms / _MS)
            else:
                if isinstance(message, Vote):
                    self.run(self.core.on_vote_answer(voter, message, answer, self.now_ms()))
                else:
                    self.run(self.core.on_told(voter, message, answer, self.now_ms()))

    async def _say(self, voter: NodeId, message: Message) -> Answer:
        link = await self._voices.to(voter)
        timeout_s = self.settings.request_timeout_ms / _MS
        match message:
            case Vote():
                request = wire.vote_request(message, voter, self.cluster_id)
                return wire.read_vote_answer(await link.ask(request, VoteResponse, timeout_s=timeout_s))
            case BeginEpoch():
                begin = wire.begin_request(message, voter, self.cluster_id)
                return wire.read_epoch_answer(await link.ask(begin, BeginQuorumEpochResponse, timeout_s=timeout_s))
            case EndEpoch():
                end = wire.end_request(message, self.cluster_id)
                return wire.read_epoch_answer(await link.ask(end, EndQuorumEpochResponse, timeout_s=timeout_s))

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_failure(error)
