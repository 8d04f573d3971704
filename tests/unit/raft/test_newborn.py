"""Voters that began with an empty disk: what they may decide, and when they are like the others."""

from __future__ import annotations

import pytest

from bifrost.errors import ErrorCode
from bifrost.raft.core.messages import ElectionState, FetchVerdict, LogEnd, Vote
from bifrost.raft.core.newborn import has_caught_up, may_elect
from bifrost.raft.core.roles import Follower, Leader, Progress, Prospective, Unattached
from bifrost.types import NodeId
from tests.unit.raft.members import Entry, ListLog
from tests.unit.raft.quorum import TIMING, Quorum


def log_of(*epochs: int, durable: int | None = None) -> ListLog:
    entries = [Entry(epoch, "") for epoch in epochs]
    return ListLog(entries, durable_offset=len(entries) if durable is None else durable)


@pytest.mark.parametrize(
    ("voter_is_newborn", "own", "candidate_is_newborn", "candidate", "granted"),
    [
        (True, (0, 0), True, (0, 0), True),
        (True, (0, 0), False, (0, 0), False),
        (True, (0, 0), False, (3, 9), False),
        (True, (3, 5), False, (3, 9), False),
        (True, (0, 0), True, (3, 9), False),
        (False, (0, 0), True, (0, 0), False),
        (False, (0, 0), False, (0, 0), True),
        (False, (3, 5), False, (3, 9), True),
        (False, (3, 5), True, (3, 9), False),
    ],
)
def test_those_with_a_past_elect_each_other_and_so_do_those_without(
    voter_is_newborn: bool,
    own: tuple[int, int],
    candidate_is_newborn: bool,
    candidate: tuple[int, int],
    granted: bool,
) -> None:
    voter = ElectionState(3, is_newborn=voter_is_newborn)
    assert may_elect(voter, LogEnd(*own), LogEnd(*candidate), is_newborn=candidate_is_newborn) is granted


@pytest.mark.parametrize(
    ("log", "high_watermark", "caught_up"),
    [
        (log_of(1, 1, 2), 3, True),
        (log_of(1, 1, 2), 2, False),
        (log_of(1, 1, 2), 0, False),
        (log_of(1, 1, 2), 4, False),
        (log_of(1, 1, 2, durable=2), 3, False),
        (log_of(1, 1, 1), 3, False),
        (log_of(2, 2), 0, True),
        (log_of(2, 2), -1, False),
        (log_of(2, 2, durable=0), 0, True),
        (log_of(2, 2, durable=0), 1, False),
        (log_of(), 0, False),
        (ListLog(start_offset=4, first_epoch=2, durable_offset=4), 4, True),
        (ListLog(start_offset=4, first_epoch=1, durable_offset=4), 4, False),
        (ListLog([Entry(2, "")], start_offset=4, first_epoch=1, durable_offset=5), 5, True),
        (ListLog([Entry(2, "")], start_offset=4, first_epoch=1, durable_offset=5), 4, False),
    ],
)
def test_what_a_leader_of_epoch_2_has_committed_tells_of_its_past(
    log: ListLog, high_watermark: int, caught_up: bool
) -> None:
    """Once a record of its own epoch is among it, unless there was nothing before. Only what is durable counts."""
    assert has_caught_up(log, 2, high_watermark) is caught_up


@pytest.mark.parametrize("size", [3, 5])
def test_a_new_cluster_survives_its_first_leader(size: int) -> None:
    """Everybody has its first record, nobody knows yet that it is committed; and everybody is started again."""
    quorum = Quorum(size)
    quorum.elect(1)
    for follower in range(2, size + 1):
        quorum.fetch(follower)
    for me in quorum.members:
        quorum.restart(me)
    quorum.elect(1)
    assert quorum[1].alive.epoch == 2


@pytest.mark.parametrize("size", [3, 5])
def test_a_new_cluster_survives_a_loss_of_power_before_anything_was_synced(size: int) -> None:
    """They all know of a leader, and have nothing. That is a past as well: they have promised nothing."""
    quorum = Quorum(size)
    quorum.elect(1)
    for follower in range(2, size + 1):
        quorum.fetch(follower, sync=False)
    for me, member in quorum.members.items():
        member.log.durable_offset = 0
        quorum.restart(me)
        assert not member.log.entries
    quorum.elect(1)


def test_whoever_catches_up_is_not_elected_before_it_has() -> None:
    """Nodes 1 and 2 have committed what 3 lacks, and 2 has lost its disk and copied a part of it again."""
    quorum = Quorum(logs={1: [1] * 9, 3: [1] * 3})
    member = quorum[2]
    member.log.entries = quorum[1].log.entries[:6]
    member.log.durable_offset = 6
    quorum.lose(1, 2, 3)
    for _ in range(5):
        quorum.tick(2)
        assert isinstance(member.alive.role, Unattached)
        assert quorum.send(2) == {}


def test_whoever_catches_up_goes_on_fetching_from_its_leader() -> None:
    """It need not be told again who leads when it was late."""
    quorum = Quorum(logs={1: [1] * 9, 3: [1] * 9})
    quorum.elect(1)
    quorum.fetch(2)
    assert quorum[2].alive.state.is_newborn
    quorum.tick(2)
    assert quorum[2].alive.role == Follower(quorum[1].me, quorum.now_ms + TIMING.fetch_timeout_ms)
    quorum.catch_up(2, 3)
    assert not quorum[2].stored.is_newborn


def test_whoever_has_all_on_disk_need_not_hear_of_the_leader_again() -> None:
    """The leader hangs while the last of a new cluster still syncs what it has sent: the other two elect one."""
    quorum = Quorum(3)
    quorum.elect(1)
    quorum.catch_up(2)
    quorum.fetch(3, sync=False)
    assert quorum[3].alive.state.is_newborn
    quorum[3].sync()
    assert not quorum[3].stored.is_newborn
    quorum.tick(3)
    quorum.elect(2, 3)


def test_a_sole_voter_may_begin_with_a_log_that_it_does_not_know() -> None:
    """Such as one that was written before there was a quorum: nobody else could know more."""
    quorum = Quorum(1)
    quorum[1].log.entries = [Entry(0, "old")]
    quorum[1].log.durable_offset = 1
    quorum.tick(1)
    assert quorum[1].alive.leads
    assert quorum[1].alive.high_watermark == 2


def test_a_voter_without_a_disk_asks_and_learns_who_leads() -> None:
    quorum = Quorum(logs={1: [1], 3: [1]})
    quorum.elect(1, 3)
    quorum.tick(2)
    assert isinstance(quorum[2].alive.role, Prospective)
    quorum.send(2)
    assert quorum[2].alive.leader == 1


def test_what_an_earlier_life_acknowledged_counts_no_more() -> None:
    """Nodes 1 and 2 hold the record. 2 is started again, with an empty disk, before 1 could sync; then 1 does."""
    quorum = Quorum(logs={1: [1] * 3, 2: [1] * 3, 3: [1] * 3})
    quorum.elect(1)
    leader = quorum[1].alive
    epoch = leader.epoch

    def fetch(offset: int, last_epoch: int, life: bytes) -> FetchVerdict:
        told = {"epoch": epoch, "offset": offset, "last_epoch": last_epoch, "life": life, "now_ms": quorum.now_ms}
        verdict, _ = leader.on_fetch(NodeId(2), **told)  # type: ignore[arg-type]
        return verdict

    quorum[1].append("not synced here")
    assert fetch(5, epoch, b"first").answer.error is ErrorCode.NONE
    assert fetch(0, 0, b"second").answer.error is ErrorCode.NONE
    assert fetch(5, epoch, b"first").answer.error is ErrorCode.INVALID_VOTER_KEY, "it was under way for long"
    quorum[1].sync()
    assert leader.high_watermark == 4
    fetch(5, epoch, b"second")
    assert leader.high_watermark == 5


def test_a_newborn_that_is_sent_a_snapshot_takes_back_what_it_acknowledged() -> None:
    quorum = Quorum(logs={1: [1] * 3, 2: [1] * 3, 3: [1] * 3})
    quorum[1].log.compact(2)
    quorum.elect(1)
    leader = quorum[1].alive
    told = {"epoch": leader.epoch, "now_ms": quorum.now_ms}
    leader.on_fetch(NodeId(2), offset=4, last_epoch=leader.epoch, life=b"first", **told)  # type: ignore[arg-type]
    assert isinstance(leader.role, Leader)
    verdict, _ = leader.on_fetch(NodeId(2), offset=0, last_epoch=0, life=b"second", **told)  # type: ignore[arg-type]
    assert verdict.snapshot is not None
    assert leader.role.followers[NodeId(2)].end_offset == -1


def test_a_vote_that_comes_too_late_is_not_counted() -> None:
    """Who gave it may have lost its disk in the meantime, and may have voted again."""
    quorum = Quorum(logs={1: [1], 2: [1], 3: [1]})
    while not isinstance(quorum[1].alive.role, Prospective):
        quorum.tick(1)
    quorum.send(1, 2)
    candidate = quorum[1].alive
    vote = candidate.message_for(NodeId(2), quorum.now_ms)
    assert isinstance(vote, Vote)
    answer = quorum[2].answer(vote, quorum.now_ms)
    assert answer.granted
    quorum[1].take_answer(NodeId(2), vote, answer, candidate.deadline_ms() + 1)
    assert not candidate.leads


def test_observers_are_bounded_and_the_silent_are_forgotten() -> None:
    leader = Leader.elected([NodeId(1)], NodeId(1), end_offset=0, now_ms=0)
    leader.heard_of(NodeId(-1), 0)
    assert not leader.observers, "who only looks is nobody"
    for number in range(10, 2_000):
        leader.heard_of(NodeId(number), number)
    assert len(leader.observers) == 1_000
    assert min(leader.observers) == 1_000, "those that were silent for longest went"
    leader.heard_of(NodeId(1_500), 300_500)
    leader.forget_silent(300_000 + 1_600)
    assert list(leader.observers)[:2] == [1_500, 1_600]


def test_past_lives_are_bounded() -> None:
    progress = Progress()
    for number in range(500):
        assert progress.is_of(b"%d" % number)
    assert not progress.is_of(b"498")
    assert len(progress.past_lives) == 64
