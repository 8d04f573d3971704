"""What a member of the quorum is at the moment, and what it has to remember as long as it is that. Pure.

    Unattached   knows the epoch and no leader                    -> any other role
    Prospective  asks whether it could win an election (KIP-996)  -> Candidate, Follower, Unattached
    Candidate    asks for votes in an epoch of its own            -> Leader, Follower, Unattached, Prospective
    Follower     fetches from the leader                          -> Prospective, Unattached
    Leader       appends, and counts who has fetched what         -> Resigned, Unattached, Follower
    Resigned     was the leader, and tells everybody that it goes -> Unattached, Follower

`core.node` decides about every transition; observers are only ever Unattached or Follower.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bifrost.raft.core.messages import BeginEpoch, ElectionState, EndEpoch, LogEnd, Message, Vote
from bifrost.raft.core.quorum import Tally, committed_offset, majority
from bifrost.types import NodeId

_OBSERVER_SILENCE_MS: Final = 300_000
"""Kafka: LeaderState.OBSERVER_SESSION_TIMEOUT_MS."""
_OBSERVERS_MAX: Final = 1_000
_LIVES_MAX: Final = 64


@dataclass(slots=True)
class Unattached:
    """Waits to be told of a leader; a voter campaigns at the deadline."""

    deadline_ms: float


@dataclass(slots=True)
class Prospective:
    """`leader` is whom it followed, and will follow again if nobody else has lost that leader."""

    tally: Tally
    deadline_ms: float
    leader: NodeId | None


@dataclass(slots=True)
class Candidate:
    tally: Tally
    deadline_ms: float


@dataclass(slots=True)
class Follower:
    """Until the deadline the leader has to answer a fetch."""

    leader: NodeId
    deadline_ms: float
    has_fetched: bool = False
    is_leader_lost: bool = False
    """Its connection broke and nobody listens at its address: it is dead, not late."""
    leader_high_watermark: int = -1
    """As the leader of this epoch told it last."""


@dataclass(slots=True)
class Progress:
    """What the leader knows of a replica, from its fetches."""

    end_offset: int = -1
    fetched_at_ms: float = float("-inf")
    caught_up_at_ms: float = float("-inf")
    announce_at_ms: float = float("-inf")
    """When it has to be told (again) who leads, unless it fetches before."""
    life: bytes | None = None
    """Which start of the replica this is about; each has a name that it never had before."""
    past_lives: dict[bytes, None] = field(default_factory=dict)

    def is_of(self, life: bytes) -> bool:
        """Whether a fetch is of the replica as it is now; False for one that an earlier life of it left under way.

        A replica that was started again may have lost its disk: what it acknowledged before does not count any more.
        """
        if life in self.past_lives:
            return False
        if life != self.life:
            if self.life is not None:
                self.past_lives[self.life] = None
            if len(self.past_lives) > _LIVES_MAX:
                del self.past_lives[next(iter(self.past_lives))]
            self.life, self.end_offset = life, -1
        return True


@dataclass(slots=True)
class Leader:
    """Leads since `epoch_start`, the offset of the record with which its epoch begins."""

    epoch_start: int
    followers: dict[NodeId, Progress]
    elected_at_ms: float
    observers: dict[NodeId, Progress] = field(default_factory=dict)

    @classmethod
    def elected(cls, voters: Iterable[NodeId], me: NodeId, *, end_offset: int, now_ms: float) -> Leader:
        return cls(end_offset, {voter: Progress() for voter in voters if voter != me}, now_ms)

    def heard_of(self, replica: NodeId, now_ms: float) -> Progress:
        """A replica, voter or not, has just asked for something."""
        progress = self.followers.get(replica, self.observers.get(replica))
        if progress is None:
            progress = Progress()
            if replica >= 0:  # others only look
                self.forget_silent(now_ms)
                if len(self.observers) >= _OBSERVERS_MAX:
                    del self.observers[min(self.observers, key=lambda one: self.observers[one].fetched_at_ms)]
                self.observers[replica] = progress
        progress.fetched_at_ms = now_ms
        return progress

    def forget_silent(self, now_ms: float) -> None:
        """Observers come and go without a word; those that were not heard of for long are gone."""
        silent = [one for one, told in self.observers.items() if told.fetched_at_ms < now_ms - _OBSERVER_SILENCE_MS]
        for one in silent:
            del self.observers[one]

    def safe_offset(self, own_durable_offset: int) -> int:
        """What a majority holds durably; nothing before a record of this epoch does (Raft, section 5.4.2)."""
        ends = [own_durable_offset, *(follower.end_offset for follower in self.followers.values())]
        safe = committed_offset(ends)
        return safe if safe > self.epoch_start else 0

    def heard_until_ms(self, patience_ms: float) -> float:
        """Until when a majority, itself included, has been heard of recently enough."""
        if not self.followers:
            return float("inf")
        heard = [max(follower.fetched_at_ms, self.elected_at_ms) for follower in self.followers.values()]
        needed = majority(len(heard) + 1) - 1
        return sorted(heard, reverse=True)[needed - 1] + patience_ms


@dataclass(slots=True)
class Resigned:
    """`untold` are the voters who have not heard of it yet."""

    deadline_ms: float
    successors: tuple[NodeId, ...]
    untold: dict[NodeId, None]


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned


def would_support(role: Role) -> bool:
    """Whether somebody else should have a try: not while this node hears from a leader, or is one (KIP-996)."""
    match role:
        case Leader():
            return False
        case Follower(has_fetched=has_fetched, is_leader_lost=is_lost):
            return is_lost or not has_fetched
        case _:
            return True


def may_vote_for(candidate: NodeId, role: Role, state: ElectionState) -> bool:
    """One vote for each epoch, and none once somebody leads it."""
    return isinstance(role, Unattached | Prospective) and state.leader is None and state.voted_for in (None, candidate)


def owed_message(
    role: Role, peer: NodeId, *, state: ElectionState, me: NodeId, log_end: LogEnd, now_ms: float
) -> Message | None:
    """What a node in this role has to tell another voter now."""
    match role:
        case Prospective(tally=tally) | Candidate(tally=tally) if tally.is_open(peer):
            return Vote(state.epoch, me, log_end, isinstance(role, Prospective), state.is_newborn)
        case Leader(followers=followers) if peer in followers and followers[peer].announce_at_ms <= now_ms:
            return BeginEpoch(state.epoch, me)
        case Resigned(successors=successors, untold=untold) if peer in untold:
            return EndEpoch(state.epoch, me, successors)
        case _:
            return None
