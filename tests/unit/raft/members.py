"""Cores of a quorum on a table: somebody delivers or drops what they say, and moves time by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bifrost.errors import ErrorCode
from bifrost.raft.core.effects import Effects, Timing
from bifrost.raft.core.messages import (
    Answer,
    BeginEpoch,
    Divergence,
    ElectionState,
    EndEpoch,
    LogEnd,
    Message,
    SnapshotId,
    Vote,
)
from bifrost.raft.core.node import RaftNode
from bifrost.types import NodeId


class Entry(NamedTuple):
    epoch: int
    text: str


@dataclass
class ListLog:
    """A log as a list. What lies beyond `durable_offset` is lost in a crash."""

    entries: list[Entry] = field(default_factory=list)
    start_offset: int = 0
    first_epoch: int = 0
    durable_offset: int = 0

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else self.first_epoch

    @property
    def snapshot(self) -> SnapshotId | None:
        return SnapshotId(self.start_offset, self.first_epoch) if self.start_offset else None

    def epoch_end(self, epoch: int) -> Divergence:
        for index in range(len(self.entries), 0, -1):
            if self.entries[index - 1].epoch <= epoch:
                return Divergence(self.entries[index - 1].epoch, self.start_offset + index)
        return Divergence(self.first_epoch, self.start_offset)

    def truncate(self, offset: int) -> None:
        del self.entries[max(offset - self.start_offset, 0) :]
        self.durable_offset = min(self.durable_offset, self.end_offset)

    def compact(self, offset: int) -> None:
        """A snapshot takes the place of everything below `offset`."""
        gone = offset - self.start_offset
        self.first_epoch = self.entries[gone - 1].epoch
        del self.entries[:gone]
        self.start_offset = offset

    def crash(self) -> None:
        self.truncate(self.durable_offset)


class Member:
    """One node: what is on its disk, and the core that runs on it while it lives."""

    def __init__(self, me: int, voters: Sequence[int], timing: Timing, random: Callable[[], float]) -> None:
        self.me = NodeId(me)
        self.voters = tuple(map(NodeId, voters))
        self.timing = timing
        self.random = random
        self.log = ListLog()
        self.stored = ElectionState()
        self.kept_watermark = 0
        self.core: RaftNode | None = None

    def start(self, now_ms: float, core: type[RaftNode] = RaftNode) -> None:
        self.core = core(
            self.me,
            self.voters,
            self.timing,
            self.log,
            self.stored,
            high_watermark=self.log.start_offset,
            random=self.random,
            now_ms=now_ms,
        )

    def crash(self) -> None:
        self.core = None
        self.log.crash()

    @property
    def alive(self) -> RaftNode:
        assert self.core is not None, f"{self.me} is down"
        return self.core

    def run(self, effects: Effects) -> None:
        """Carry out what the core asks for, as a driver does; the disk is as fast as `sync` is called."""
        if effects.persist is not None:
            self.stored = effects.persist
        if effects.truncate_to is not None:
            self.log.truncate(effects.truncate_to)
        if effects.begin_epoch is not None:
            self.log.entries.append(Entry(effects.begin_epoch, "lead"))
            self.sync()

    def append(self, text: str) -> None:
        assert self.alive.leads, f"{self.me} does not lead"
        self.log.entries.append(Entry(self.alive.epoch, text))

    def sync(self) -> None:
        self.log.durable_offset = self.log.end_offset
        if self.core is not None:
            self.run(self.core.on_durable())

    def answer(self, message: Message, now_ms: float) -> Answer:
        match message:
            case Vote():
                answer, effects = self.alive.on_vote(message, now_ms)
            case BeginEpoch():
                answer, effects = self.alive.on_begin_epoch(message, now_ms)
            case EndEpoch():
                answer, effects = self.alive.on_end_epoch(message, now_ms)
        self.run(effects)
        return answer

    def take_answer(self, peer: NodeId, message: Message, answer: Answer, now_ms: float) -> None:
        if isinstance(message, Vote):
            self.run(self.alive.on_vote_answer(peer, message, answer, now_ms))
        else:
            self.run(self.alive.on_told(peer, message, answer, now_ms))


class Fetched(NamedTuple):
    """The answer to a fetch, on its way."""

    leader: NodeId
    answer: Answer
    divergence: Divergence | None
    snapshot: ListLog | None
    offset: int
    entries: list[Entry]
    high_watermark: int


def ask(follower: Member, leader: Member, now_ms: float) -> Fetched:
    """A fetch arrives at the leader."""
    core, log = follower.alive, follower.log
    return serve(follower.me, leader, core.epoch, log.durable_offset, log.last_epoch, now_ms)


def serve(replica: NodeId, leader: Member, epoch: int, offset: int, last_epoch: int, now_ms: float) -> Fetched:
    verdict, effects = leader.alive.on_fetch(replica, epoch=epoch, offset=offset, last_epoch=last_epoch, now_ms=now_ms)
    leader.run(effects)
    log = leader.log
    entries = log.entries[offset - log.start_offset :] if verdict.is_readable else []
    snapshot = None
    if verdict.snapshot is not None:
        snapshot = ListLog(start_offset=log.start_offset, first_epoch=log.first_epoch)
    return Fetched(
        leader.me, verdict.answer, verdict.divergence, snapshot, offset, list(entries), leader.alive.high_watermark
    )


def take(follower: Member, fetched: Fetched, now_ms: float, *, sync: bool = True) -> None:
    """The answer arrives: records are stored first, as a driver does, unless the log has changed in the meantime."""
    log, core = follower.log, follower.alive
    follows = core.fetches_from == fetched.leader and core.epoch == fetched.answer.epoch
    if fetched.answer.error is ErrorCode.NONE and follows and log.end_offset == fetched.offset:
        if fetched.snapshot is not None:
            log.entries.clear()
            log.start_offset, log.first_epoch = fetched.snapshot.start_offset, fetched.snapshot.first_epoch
            log.durable_offset = log.start_offset
            follower.run(core.on_snapshot(SnapshotId(log.start_offset, log.first_epoch)))
        log.entries += fetched.entries
    elif fetched.answer.error is ErrorCode.NONE:
        return
    follower.run(
        core.on_fetch_answer(fetched.leader, fetched.answer, fetched.divergence, fetched.high_watermark, now_ms)
    )
    if sync:
        follower.sync()


def end_of(member: Member) -> LogEnd:
    return LogEnd(member.log.last_epoch, member.log.end_offset)
