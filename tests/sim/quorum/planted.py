"""Bugs to plant into the core, so that the simulation can prove that it would find them.

Each takes back one rule of Raft as the core has it, from outside. `test_planted.py` names seeds that find each; when a
change moves what seeds do, `python -m tests.sim.quorum.run --seeds 500 --planted NAME` tells which ones find it now.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

from bifrost.raft.core import newborn, node
from bifrost.raft.core.effects import Effects
from bifrost.raft.core.fetches import judge_fetch, shared_end
from bifrost.raft.core.messages import Answer, Divergence, ElectionState, FetchVerdict, LogEnd, LogView, Message, Vote
from bifrost.raft.core.newborn import has_caught_up
from bifrost.raft.core.node import RaftNode
from bifrost.raft.core.quorum import Tally, committed_offset
from bifrost.raft.core.roles import Leader, Prospective, Role, Unattached, owed_message
from bifrost.types import NodeId
from tests.sim.quorum import driver
from tests.sim.quorum.host import Host

Plant = AbstractContextManager[Any]


class Planted(NamedTuple):
    plant: Callable[[], Plant]
    shown_by: tuple[str, ...]
    """Anomalies of which one is seen: whichever comes first."""
    faults: tuple[str, ...] | None = None
    """Of the runs that show it best; drawn from their seeds if not given."""


# Elections


def vote_twice() -> Plant:
    """Whoever asks gets a vote, whether somebody else had it before or not."""

    def may_vote_for(_candidate: NodeId, role: Role, _state: ElectionState) -> bool:
        return isinstance(role, Unattached | Prospective)

    return patch.object(node, "may_vote_for", may_vote_for)


def forget_the_vote() -> Plant:
    """The voter answers, and its disk does not know."""
    on_vote = RaftNode.on_vote

    def answer_only(self: RaftNode, vote: Vote, now_ms: float) -> tuple[Answer, Effects]:
        answer, effects = on_vote(self, vote, now_ms)
        return answer, Effects() if answer.granted else effects

    return patch.object(RaftNode, "on_vote", answer_only)


def elect_anybody() -> Plant:
    """Voters do not look at the candidate's log."""

    def anybody(voter: ElectionState, own: LogEnd, candidate: LogEnd, *, is_newborn: bool) -> bool:
        return is_newborn == voter.is_newborn

    return patch.object(node, "may_elect", anybody)


def elect_by_length() -> Plant:
    """The longer log wins, whatever its epochs are."""

    def longer(voter: ElectionState, own: LogEnd, candidate: LogEnd, *, is_newborn: bool) -> bool:
        return candidate.offset >= own.offset and is_newborn == voter.is_newborn

    return patch.object(node, "may_elect", longer)


def win_with_less() -> Plant:
    """One vote less than a majority is enough."""

    def is_won(self: Tally) -> bool:
        return sum(answer is True for answer in self._answers.values()) >= self._needed - 1

    return patch.object(Tally, "is_won", property(is_won))


def lead_again() -> Plant:
    """Who led goes on leading after a restart."""
    init = RaftNode.__init__

    def init_as_leader(self: RaftNode, *args: Any, **rest: Any) -> None:
        init(self, *args, **rest)
        if self.state.leader == self.me:
            self.role = Leader.elected(self.voters, self.me, end_offset=self._log.end_offset, now_ms=rest["now_ms"])

    return patch.object(RaftNode, "__init__", init_as_leader)


def disturb() -> Plant:
    """Whoever asks may stand, although there is a leader."""
    return patch.object(node, "would_support", lambda role: True)


def lead_alone() -> Plant:
    """A leader does not mind that nobody fetches."""
    return patch.object(Leader, "heard_until_ms", lambda self, patience_ms: float("inf"))


def lead_in_secret() -> Plant:
    """A new leader tells nobody."""

    def silent(role: Role, peer: NodeId, **rest: Any) -> Message | None:
        return None if isinstance(role, Leader) else owed_message(role, peer, **rest)

    return patch.object(node, "owed_message", silent)


# Newborns


def elect_as_newborn() -> Plant:
    """Who has lost its disk votes as if it knew what it once promised."""
    return patch.object(node, "may_elect", lambda voter, own, candidate, *, is_newborn: candidate >= own)


def elect_an_empty_log() -> Plant:
    """Who has lost its disk takes an empty log for the sign of a new cluster, and is elected by whoever has nothing."""

    def empty(voter: ElectionState, own: LogEnd, candidate: LogEnd, *, is_newborn: bool) -> bool:
        return candidate >= own and (not voter.is_newborn or candidate.offset == 0)

    return patch.object(node, "may_elect", empty)


def stand_as_newborn() -> Plant:
    """Who catches up with what its disk has lost may be elected before it has."""
    ask = RaftNode._ask_for_support

    def ask_anyway(self: RaftNode, leader: NodeId | None, now_ms: float, effects: Effects) -> None:
        ask(self, leader, now_ms, effects)
        if self.is_voter and self.state.is_newborn and not isinstance(self.role, Prospective):
            self.role = Prospective(Tally(self.voters, granted_by=self.me), self._election_deadline(now_ms), leader)

    def whoever_has_something(voter: ElectionState, own: LogEnd, candidate: LogEnd, *, is_newborn: bool) -> bool:
        return candidate >= own and (not voter.is_newborn if candidate.offset else is_newborn == voter.is_newborn)

    stack = ExitStack()
    stack.enter_context(patch.object(node, "may_elect", whoever_has_something))
    stack.enter_context(patch.object(RaftNode, "_ask_for_support", ask_anyway))
    return stack


def catch_up_in_memory() -> Plant:
    """What was fetched counts before it is durable."""

    class Durable:
        def __init__(self, log: LogView) -> None:
            self._log = log

        def __getattr__(self, name: str) -> Any:
            return getattr(self._log, "end_offset" if name == "durable_offset" else name)

    def caught_up(log: LogView, epoch: int, high_watermark: int) -> bool:
        return has_caught_up(Durable(log), epoch, high_watermark)

    return patch.object(newborn, "has_caught_up", caught_up)


def catch_up_with_the_past() -> Plant:
    """A leader is believed that does not know yet what its predecessors committed."""

    def caught_up(log: LogView, epoch: int, high_watermark: int) -> bool:
        return log.last_epoch == epoch and log.durable_offset >= high_watermark

    return patch.object(newborn, "has_caught_up", caught_up)


def wait_for_a_commit() -> Plant:
    """In a new cluster nobody has a past before something is committed, although there is a leader that has one."""

    def caught_up(log: LogView, epoch: int, high_watermark: int) -> bool:
        return high_watermark > 0 and has_caught_up(log, epoch, high_watermark)

    return patch.object(newborn, "has_caught_up", caught_up)


# Logs


def continue_any_log() -> Plant:
    """The leader sends what follows, whatever came before."""

    def judge(log: LogView, answer: Answer, *, offset: int, last_epoch: int) -> FetchVerdict:
        if log.start_offset <= offset <= log.end_offset:
            return FetchVerdict(answer)
        return judge_fetch(log, answer, offset=offset, last_epoch=last_epoch)

    return patch.object(node, "judge_fetch", judge)


def compare_offsets_only() -> Plant:
    """A log that is no longer than the leader's counts as a part of it."""

    def judge(log: LogView, answer: Answer, *, offset: int, last_epoch: int) -> FetchVerdict:
        verdict = judge_fetch(log, answer, offset=offset, last_epoch=last_epoch)
        if verdict.divergence is not None and verdict.divergence.end_offset >= offset:
            return FetchVerdict(answer)
        return verdict

    return patch.object(node, "judge_fetch", judge)


def cut_everything() -> Plant:
    """A follower whose log diverges begins anew."""
    return patch.object(node, "shared_end", lambda log, divergence: log.start_offset)


def cut_nothing() -> Plant:
    """A follower whose log diverges keeps it."""
    return patch.object(node, "shared_end", lambda log, divergence: log.end_offset)


def cut_one_too_many() -> Plant:
    """The last entry that a follower shares with its leader goes, too."""

    def less(log: LogView, divergence: Divergence) -> int:
        return max(shared_end(log, divergence) - 1, log.start_offset)

    return patch.object(node, "shared_end", less)


# Commits


def count_old_epochs() -> Plant:
    """What a majority holds is committed, whoever wrote it."""

    def safe_offset(self: Leader, own_durable_offset: int) -> int:
        return committed_offset([own_durable_offset, *(follower.end_offset for follower in self.followers.values())])

    return patch.object(Leader, "safe_offset", safe_offset)


def count_own_memory() -> Plant:
    """A leader counts what it has appended and not synced."""

    def advance(self: RaftNode, effects: Effects) -> Effects:
        if isinstance(self.role, Leader):
            safe = self.role.safe_offset(self._log.end_offset)
            if safe > self.high_watermark:
                self.high_watermark = effects.high_watermark = safe
        return effects

    return patch.object(RaftNode, "_advance", advance)


def count_observers() -> Plant:
    """Whoever fetches is counted like a voter."""

    def safe_offset(self: Leader, own_durable_offset: int) -> int:
        ends = sorted(
            [own_durable_offset, *(one.end_offset for one in (*self.followers.values(), *self.observers.values()))]
        )
        safe = ends[-(len(self.followers) // 2 + 1)]
        return safe if safe > self.epoch_start else 0

    return patch.object(Leader, "safe_offset", safe_offset)


def count_a_minority() -> Plant:
    """One replica less than a majority is enough."""

    def safe_offset(self: Leader, own_durable_offset: int) -> int:
        ends = sorted([own_durable_offset, *(follower.end_offset for follower in self.followers.values())])
        safe = ends[-(len(self.followers) // 2)]
        return safe if safe > self.epoch_start else 0

    return patch.object(Leader, "safe_offset", safe_offset)


def _follow_watermark(choose: Callable[[RaftNode, int], int]) -> Plant:
    """A follower that sets its high watermark as it is told."""
    on_fetch_answer = RaftNode.on_fetch_answer

    def follow(
        self: RaftNode, peer: NodeId, answer: Answer, divergence: Divergence | None, high_watermark: int, now_ms: float
    ) -> Effects:
        effects = on_fetch_answer(self, peer, answer, divergence, high_watermark, now_ms)
        if self.fetches_from == peer and not answer.error and divergence is None:
            chosen = choose(self, high_watermark)
            if chosen != self.high_watermark:
                self.high_watermark = effects.high_watermark = chosen
        return effects

    return patch.object(RaftNode, "on_fetch_answer", follow)


def commit_beyond_the_log() -> Plant:
    """A follower's high watermark is the leader's, whatever it has."""
    return _follow_watermark(lambda self, high_watermark: max(self.high_watermark, high_watermark))


def take_commits_back() -> Plant:
    """A follower's high watermark is the leader's, even one that does not know yet what is committed."""
    return _follow_watermark(lambda self, high_watermark: min(high_watermark, self._log.end_offset))


def commit_silently() -> Plant:
    """Whoever waits for a commit is not told."""
    advance = RaftNode._advance

    def silent(self: RaftNode, effects: Effects) -> Effects:
        advance(self, effects)
        effects.high_watermark = None
        return effects

    return patch.object(RaftNode, "_advance", silent)


# Drivers


def acknowledge_memory() -> Plant:
    """A driver that fetches from the end of its log, before that is durable."""

    def end(host: Host) -> int:
        return host.log.end_offset

    return patch.object(driver, "acknowledged", end)


_DISKS = ("lose_a_disk", "slow_a_disk")

PLANTED = {
    "vote-twice": Planted(vote_twice, ("two votes", "two leaders")),
    "forget-the-vote": Planted(forget_the_vote, ("not kept",)),
    "elect-anybody": Planted(elect_anybody, ("incomplete leader",)),
    "elect-by-length": Planted(elect_by_length, ("incomplete leader",)),
    "win-with-less": Planted(win_with_less, ("two leaders", "incomplete leader", "needless election")),
    "lead-again": Planted(lead_again, ("two leaders",)),
    "disturb": Planted(disturb, ("needless election",)),
    "lead-alone": Planted(lead_alone, ("led alone",)),
    "lead-in-secret": Planted(lead_in_secret, ("not healed",)),
    "elect-as-newborn": Planted(elect_as_newborn, ("incomplete leader", "two leaders")),
    "elect-an-empty-log": Planted(elect_an_empty_log, ("incomplete leader",)),
    "stand-as-newborn": Planted(stand_as_newborn, ("incomplete leader",), _DISKS),
    "catch-up-in-memory": Planted(catch_up_in_memory, ("incomplete leader",), _DISKS),
    "catch-up-with-the-past": Planted(catch_up_with_the_past, ("incomplete leader",), _DISKS),
    "wait-for-a-commit": Planted(wait_for_a_commit, ("not healed",)),
    "continue-any-log": Planted(continue_any_log, ("logs do not match",)),
    "compare-offsets-only": Planted(compare_offsets_only, ("logs do not match",)),
    "cut-everything": Planted(cut_everything, ("taken back", "incomplete leader")),
    "cut-nothing": Planted(cut_nothing, ("not healed",)),
    "cut-one-too-many": Planted(cut_one_too_many, ("taken back", "incomplete leader")),
    "count-old-epochs": Planted(count_old_epochs, ("old epoch committed",)),
    "count-own-memory": Planted(count_own_memory, ("minority commit",)),
    "count-observers": Planted(count_observers, ("minority commit",)),
    "count-a-minority": Planted(count_a_minority, ("minority commit",)),
    "commit-beyond-the-log": Planted(commit_beyond_the_log, ("beyond the log",)),
    "take-commits-back": Planted(take_commits_back, ("watermark went back",)),
    "commit-silently": Planted(commit_silently, ("not told",)),
    "acknowledge-memory": Planted(acknowledge_memory, ("minority commit",)),
}
