"""One member of the metadata quorum: when it votes, leads, follows and commits. Pure. Kafka: KafkaRaftClient.

Raft, pulled instead of pushed (KIP-595): followers fetch from the leader, and the offset that they fetch from is their
acknowledgement. Pre-votes keep a member that merely cannot reach the leader from disturbing the others (KIP-996).

Time is the driver's, in milliseconds that only go forward. Each input returns `Effects`. What has to be said to a peer
is not an effect but a question, `message_for`: its answer follows from the role alone, so nothing is lost when a
message is.

Must never: vote twice in an epoch, lead an epoch twice, or let the high watermark go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from bifrost.errors import ErrorCode, StorageError
from bifrost.raft.core.effects import Effects, Timing
from bifrost.raft.core.fetches import judge_fetch, shared_end
from bifrost.raft.core.messages import (
    Answer,
    BeginEpoch,
    Divergence,
    ElectionState,
    EndEpoch,
    FetchVerdict,
    LogEnd,
    LogView,
    Message,
    SnapshotId,
    Vote,
)
from bifrost.raft.core.newborn import grown_up, may_elect
from bifrost.raft.core.quorum import Tally
from bifrost.raft.core.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    may_vote_for,
    owed_message,
    would_support,
)
from bifrost.types import NodeId

_PATIENCE: Final = 1.5
"""A leader that a majority has not fetched from for so many fetch timeouts steps down (KIP-835: check quorum)."""


class RaftNode:
    """Decides for one voter, or for one observer: a node that is not among the voters."""

    def __init__(
        self,
        me: NodeId,
        voters: Iterable[NodeId],
        timing: Timing,
        log: LogView,
        state: ElectionState,
        *,
        high_watermark: int,
        random: Callable[[], float],
        now_ms: float,
    ) -> None:
        self.me = me
        self.voters = tuple(sorted(voters))
        self.state = state
        self.high_watermark = high_watermark
        self._timing = timing
        self._log = log
        self._random = random
        self._attempts = 0
        if state.leader is not None and state.leader != me:
            self.role: Role = Follower(state.leader, now_ms + timing.fetch_timeout_ms)
        else:
            # An epoch that it led is over: what it had appended and not committed may be gone.
            self.role = Unattached(now_ms if self.voters == (me,) else now_ms + random() * timing.spread_ms)

    # Questions

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader(self) -> NodeId | None:
        """Who leads the current epoch, as far as this node knows; nobody, if it knows that the leader is dead."""
        match self.role:
            case Leader():
                return self.me
            case Follower(leader=leader, is_leader_lost=False):
                return leader
            case _:
                return None

    @property
    def fetches_from(self) -> NodeId | None:
        """The leader that a follower asks, even one that seems to be dead: it may be back."""
        return self.role.leader if isinstance(self.role, Follower) else None

    @property
    def is_voter(self) -> bool:
        return self.me in self.voters

    @property
    def leads(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def log_end(self) -> LogEnd:
        return LogEnd(self._log.last_epoch, self._log.end_offset)

    def deadline_ms(self) -> float:
        """When `on_tick` is next worth calling."""
        match self.role:
            case Leader() as leader:
                return leader.heard_until_ms(_PATIENCE * self._timing.fetch_timeout_ms)
            case role:
                return role.deadline_ms

    def message_for(self, peer: NodeId, now_ms: float) -> Message | None:
        """What this voter has to be told now, again and again until it answers."""
        return owed_message(self.role, peer, state=self.state, me=self.me, log_end=self.log_end, now_ms=now_ms)

    # Inputs

    def on_tick(self, now_ms: float) -> Effects:
        """Time has passed; act if it was too much."""
        before, effects = self.state, Effects()
        if now_ms >= self.deadline_ms():
            match self.role:
                case Unattached():
                    self._ask_for_support(None, now_ms, effects)
                case Follower(leader=leader):
                    self._ask_for_support(leader, now_ms, effects)
                case Prospective(leader=leader):
                    self._step_back(leader, now_ms)
                case Candidate():
                    self._step_back(None, now_ms)
                case Leader() | Resigned():
                    self._detach(self.epoch, now_ms)
        return self._done(effects, before)

    def on_vote(self, vote: Vote, now_ms: float) -> tuple[Answer, Effects]:
        """Somebody asks for a vote, or whether it could win one."""
        before = self.state
        if not self.is_voter or vote.candidate not in self.voters or vote.candidate == self.me:
            return self.answer(ErrorCode.INCONSISTENT_VOTER_SET), Effects()
        if vote.epoch < self.epoch:
            return self.answer(ErrorCode.FENCED_LEADER_EPOCH), Effects()
        if vote.epoch > self.epoch:
            self._detach(vote.epoch, now_ms)
        granted = may_elect(self.state, self.log_end, vote.log_end, is_newborn=vote.is_newborn) and (
            would_support(self.role) if vote.is_pre_vote else may_vote_for(vote.candidate, self.role, self.state)
        )
        if granted and not vote.is_pre_vote:
            self.state = self.state._replace(voted_for=vote.candidate)
            self.role = Unattached(self._election_deadline(now_ms))
        return self.answer(granted=granted), self._done(Effects(), before)

    def on_vote_answer(self, peer: NodeId, vote: Vote, answer: Answer, now_ms: float) -> Effects:
        """What a voter said to one of `message_for`."""
        before, effects = self.state, Effects()
        self._observe(answer, now_ms)
        match self.role:
            case Prospective(tally=tally, leader=leader) if vote.is_pre_vote and vote.epoch == self.epoch:
                tally.count(peer, answer.granted)
                if tally.is_won:
                    self._stand(now_ms, effects)
                elif tally.is_lost:
                    self._step_back(leader, now_ms)
            case Candidate(tally=tally, deadline_ms=end_ms) if not vote.is_pre_vote and vote.epoch == self.epoch:
                if now_ms <= end_ms:  # later its voter may have lost its disk, and have voted again (`core.newborn`)
                    tally.count(peer, answer.granted)
                if tally.is_won:
                    self._lead(now_ms, effects)
                elif tally.is_lost:
                    self._step_back(None, now_ms)
        return self._done(effects, before)

    def on_begin_epoch(self, begin: BeginEpoch, now_ms: float) -> tuple[Answer, Effects]:
        """Somebody says that it leads."""
        before = self.state
        if begin.leader not in self.voters or begin.leader == self.me:
            return self.answer(ErrorCode.INCONSISTENT_VOTER_SET), Effects()
        if begin.epoch < self.epoch:
            return self.answer(ErrorCode.FENCED_LEADER_EPOCH), Effects()
        self._observe(Answer(begin.epoch, begin.leader), now_ms)
        return self.answer(), self._done(Effects(), before)

    def on_end_epoch(self, end: EndEpoch, now_ms: float) -> tuple[Answer, Effects]:
        """The leader goes. Whoever it likes best campaigns at once, the others a little later, each in its turn."""
        before = self.state
        if end.leader not in self.voters:
            return self.answer(ErrorCode.INCONSISTENT_VOTER_SET), Effects()
        if end.epoch < self.epoch:
            return self.answer(ErrorCode.FENCED_LEADER_EPOCH), Effects()
        self._observe(Answer(end.epoch, None if end.leader == self.me else end.leader), now_ms)
        if isinstance(self.role, Follower) and self.role.leader == end.leader:
            turn = end.successors.index(self.me) if self.me in end.successors else len(end.successors)
            self.state = self.state._replace(leader=None)
            self.role = Unattached(now_ms + turn * self._timing.spread_ms)
        return self.answer(), self._done(Effects(), before)

    def on_told(self, peer: NodeId, message: BeginEpoch | EndEpoch, answer: Answer, now_ms: float) -> Effects:
        """A voter has answered an announcement."""
        before = self.state
        self._observe(answer, now_ms)
        match self.role:
            case Leader(followers=followers) if message.epoch == self.epoch and peer in followers:
                followers[peer].announce_at_ms = now_ms + self._timing.fetch_timeout_ms / 2
            case Resigned(untold=untold) if message.epoch == self.epoch:
                untold.pop(peer, None)
        return self._done(Effects(), before)

    def on_fetch(
        self, replica: NodeId, *, epoch: int, offset: int, last_epoch: int, now_ms: float, life: bytes = b""
    ) -> tuple[FetchVerdict, Effects]:
        """A replica, in this life of it, asks for what follows `offset`; all before it holds durably."""
        if not isinstance(self.role, Leader):
            return FetchVerdict(self.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)), Effects()
        if epoch != self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
            return FetchVerdict(self.answer(error)), Effects()
        progress = self.role.heard_of(replica, now_ms)
        if not progress.is_of(life):
            return FetchVerdict(self.answer(ErrorCode.INVALID_VOTER_KEY)), Effects()
        verdict = judge_fetch(self._log, self.answer(), offset=offset, last_epoch=last_epoch)
        progress.announce_at_ms = now_ms + self._timing.fetch_timeout_ms / 2
        if verdict.is_readable:
            progress.end_offset = offset
            if offset >= self._log.end_offset:
                progress.caught_up_at_ms = now_ms
        return verdict, self._advance(Effects())

    def on_snapshot_fetch(self, replica: NodeId, now_ms: float) -> None:
        """A replica asks for a piece of a snapshot: it is not far yet, but it is there."""
        if isinstance(self.role, Leader):
            self.role.heard_of(replica, now_ms)

    def on_fetch_answer(
        self, peer: NodeId, answer: Answer, divergence: Divergence | None, high_watermark: int, now_ms: float
    ) -> Effects:
        """The leader has answered a fetch, and what it sent is in the log by now.

        StorageError if it asks to take back what was committed: a majority of the voters has lost its disks.
        """
        before, effects = self.state, Effects()
        self._observe(answer, now_ms)
        role = self.role
        if not isinstance(role, Follower) or role.leader != peer or answer.epoch < self.epoch:
            return self._done(effects, before)
        if answer.error is not ErrorCode.NONE:
            if answer.leader != peer:
                self._lose_leader(role, now_ms)  # it was started again, and does not lead any more
            return self._done(effects, before)
        role.deadline_ms = now_ms + self._timing.fetch_timeout_ms
        role.has_fetched, role.is_leader_lost = True, False
        self._attempts = 0
        if divergence is not None:
            effects.truncate_to = shared_end(self._log, divergence)
            if effects.truncate_to < self.high_watermark:
                lost = f"{effects.truncate_to} to {self.high_watermark}"
                raise StorageError("metadata", f"offsets {lost} were committed, and the leader does not have them")
            return self._done(effects, before)
        role.leader_high_watermark = high_watermark
        self.state = grown_up(self.state, self._log, high_watermark)
        if min(high_watermark, self._log.end_offset) > self.high_watermark:
            self.high_watermark = effects.high_watermark = min(high_watermark, self._log.end_offset)
        return self._done(effects, before)

    def on_snapshot(self, snapshot: SnapshotId) -> Effects:
        """The log begins anew behind a snapshot that the leader has sent, and snapshots hold what is committed."""
        if snapshot.end_offset <= self.high_watermark:
            return Effects()
        self.high_watermark = snapshot.end_offset
        return Effects(high_watermark=self.high_watermark)

    def on_durable(self) -> Effects:
        """More of this node's own log is durable."""
        before = self.state
        if isinstance(self.role, Follower):
            self.state = grown_up(self.state, self._log, self.role.leader_high_watermark)
        return self._done(self._advance(Effects()), before)

    def on_peer_dead(self, peer: NodeId, now_ms: float) -> Effects:
        """The connection to a voter broke, or could not be made, because nobody listens there: its process is gone."""
        before = self.state
        match self.role:
            case Follower(leader=leader) as follower if leader == peer:
                self._lose_leader(follower, now_ms)
            case Prospective(tally=tally) | Candidate(tally=tally):
                tally.count(peer, granted=False)
                if tally.is_lost:  # or two who stand against each other would wait for the dead one
                    self._step_back(getattr(self.role, "leader", None), now_ms)
            case Resigned(untold=untold):
                untold.pop(peer, None)
        return self._done(Effects(), before)

    def resign(self, now_ms: float) -> Effects:
        """This node stops. A leader names as successors those who hold most, if any. A candidate gives up."""
        before = self.state
        if isinstance(self.role, Leader) and (held := self.role.followers):
            successors = tuple(sorted(held, key=lambda voter: (-held[voter].end_offset, voter)))
            self.state = self.state._replace(leader=None)
            self.role = Resigned(self._election_deadline(now_ms), successors, dict.fromkeys(successors))
        elif isinstance(self.role, Prospective | Candidate):
            self._detach(self.epoch, now_ms)
        return self._done(Effects(), before)

    # Transitions

    def _ask_for_support(self, leader: NodeId | None, now_ms: float, effects: Effects) -> None:
        if not self.is_voter:
            self._detach(self.epoch, now_ms)
            return
        if self.state.is_newborn and self._log.end_offset > 0 and len(self.voters) > 1:
            self._step_back(leader, now_ms)  # it has not caught up: nobody may elect it, not even itself
            return
        tally = Tally(self.voters, granted_by=self.me)
        self.role = Prospective(tally, self._election_deadline(now_ms), leader)
        if tally.is_won:
            self._stand(now_ms, effects)

    def _stand(self, now_ms: float, effects: Effects) -> None:
        tally = Tally(self.voters, granted_by=self.me)
        self.state = self.state._replace(epoch=self.epoch + 1, voted_for=self.me, leader=None)
        self.role = Candidate(tally, self._election_deadline(now_ms))
        if tally.is_won:
            self._lead(now_ms, effects)

    def _lead(self, now_ms: float, effects: Effects) -> None:
        self._attempts = 0
        self.state = self.state._replace(leader=self.me, is_newborn=False)
        self.role = Leader.elected(self.voters, self.me, end_offset=self._log.end_offset, now_ms=now_ms)
        effects.begin_epoch = self.epoch

    def _step_back(self, leader: NodeId | None, now_ms: float) -> None:
        """An election was not won, or would not have been. Try again after a pause that grows with each attempt."""
        pause_ms = self._timing.pause_ms(self._attempts)
        self._attempts += 1
        if leader is None:
            self.role = Unattached(now_ms + pause_ms * (0.5 + self._random()))
        else:
            self._follow(leader, now_ms)

    def _detach(self, epoch: int, now_ms: float) -> None:
        """No leader is known in this epoch."""
        voted_for = self.state.voted_for if epoch == self.epoch else None
        self.state = self.state._replace(epoch=epoch, voted_for=voted_for, leader=None)
        self.role = Unattached(self._election_deadline(now_ms))

    def _follow(self, leader: NodeId, now_ms: float) -> None:
        self.state = self.state._replace(leader=leader)
        self.role = Follower(leader, now_ms + self._timing.fetch_timeout_ms)

    def _lose_leader(self, follower: Follower, now_ms: float) -> None:
        """There is no use in waiting for its next answer. A voter campaigns soon, an observer asks somebody else."""
        if not self.is_voter:
            self._detach(self.epoch, now_ms)
        elif not follower.is_leader_lost:
            follower.is_leader_lost = True
            follower.deadline_ms = min(follower.deadline_ms, now_ms + self._random() * self._timing.spread_ms)

    def _observe(self, answer: Answer, now_ms: float) -> None:
        """Believe whoever knows of a newer epoch, or of the leader of this one."""
        leader = answer.leader if answer.leader in self.voters and answer.leader != self.me else None
        if answer.epoch > self.epoch:
            self._detach(answer.epoch, now_ms)
        if answer.epoch == self.epoch and leader is not None:
            match self.role:
                case Unattached() | Candidate():
                    self._follow(leader, now_ms)
                case Prospective(leader=lost) if lost != leader:  # that others still believe in the lost one is no news
                    self._follow(leader, now_ms)

    # Rules

    def _advance(self, effects: Effects) -> Effects:
        if isinstance(self.role, Leader):
            safe = self.role.safe_offset(self._log.durable_offset)
            if safe > self.high_watermark:
                self.high_watermark = effects.high_watermark = safe
        return effects

    def _election_deadline(self, now_ms: float) -> float:
        return now_ms + self._timing.election_timeout_ms * (1 + self._random())

    def answer(self, error: ErrorCode = ErrorCode.NONE, *, granted: bool = False) -> Answer:
        return Answer(self.epoch, self.leader, error, granted)

    def _done(self, effects: Effects, before: ElectionState) -> Effects:
        assert self.state.epoch >= before.epoch, f"epoch {self.state.epoch} after {before.epoch}"
        if self.state != before:
            effects.persist = self.state
        return effects
