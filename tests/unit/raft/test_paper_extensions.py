"""What Raft needs besides its core, one test for each rule: pre-votes, leaders that go, snapshots, clients.

Sections are those of the extended paper; pre-votes are of KIP-996, check quorum of KIP-835, resignations of KIP-595.
"""

from __future__ import annotations

import pytest

from bifrost.errors import ErrorCode, StorageError
from bifrost.raft.core.messages import Answer, BeginEpoch, Divergence, EndEpoch, LogEnd, SnapshotId, Vote
from bifrost.raft.core.roles import Candidate, Follower, Prospective, Resigned, Unattached
from bifrost.types import NodeId
from tests.unit.raft.members import ListLog, serve
from tests.unit.raft.quorum import TIMING, Quorum

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
PATIENCE_MS = 1.5 * TIMING.fetch_timeout_ms


def pre_vote(epoch: int, candidate: NodeId, log: tuple[int, int]) -> Vote:
    return Vote(epoch, candidate, LogEnd(*log), is_pre_vote=True, is_newborn=False)


# 6 Servers that disturb, and KIP-996


def test_to_ask_whether_one_could_win_changes_nothing() -> None:
    """KIP-996: no epoch begins, no vote is spent, and nothing is to be kept."""
    quorum = Quorum()
    before = [member.stored for member in quorum.members.values()]
    quorum.tick(1)
    assert isinstance(quorum[1].alive.role, Prospective)
    for candidate in (TWO, THREE):
        answer, effects = quorum[1].alive.on_vote(
            Vote(0, candidate, LogEnd(0, 0), is_pre_vote=True, is_newborn=True), quorum.now_ms
        )
        assert answer.granted
        assert effects.persist is None
    assert [member.stored for member in quorum.members.values()] == before


def test_whoever_could_win_stands_at_once() -> None:
    """KIP-996: a majority that would vote for it is all that it waits for."""
    quorum = Quorum(5)
    quorum.tick(1)
    quorum.send(1, 2)
    assert isinstance(quorum[1].alive.role, Prospective)
    quorum.send(1, 3)
    assert isinstance(quorum[1].alive.role, Candidate)


def test_nobody_is_supported_by_who_hears_from_a_leader_or_is_one() -> None:
    """6 and KIP-996: who lost touch with the leader alone cannot depose it, nor does it raise the epoch."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.now_ms += TIMING.fetch_timeout_ms * 0.9
    quorum.fetch(2)
    quorum.tick(3)
    answers = quorum.send(3)
    assert [answer.granted for answer in answers.values()] == [False, False]
    assert quorum[3].alive.role == Follower(ONE, quorum.now_ms + TIMING.fetch_timeout_ms)
    assert [member.alive.epoch for member in quorum.members.values()] == [1, 1, 1]


def test_those_who_lost_the_leader_support_each_other() -> None:
    """KIP-996: they do not wait for a timeout if they know that it is dead."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.lose(1, 2, 3)
    quorum.tick(2)
    assert quorum.now_ms < TIMING.spread_ms + 100
    quorum.elect(2, 3)
    assert quorum[2].alive.epoch == 2


def test_who_has_not_heard_from_its_leader_yet_supports_others() -> None:
    """KIP-996: to know who leads is not enough; it may be gone, and nobody could be elected."""
    quorum = Quorum()
    quorum.elect(1)
    assert quorum[2].alive.leader == 1
    assert quorum[2].answer(Vote(1, THREE, LogEnd(0, 0), is_pre_vote=True, is_newborn=True), quorum.now_ms).granted


def test_a_pre_vote_is_refused_for_the_same_reasons_as_a_vote() -> None:
    """KIP-996 and 5.4.1: whoever lacks something could not win."""
    quorum = Quorum(logs={1: [1, 1]})
    assert not quorum[1].answer(pre_vote(1, TWO, (1, 1)), 0).granted
    assert quorum[1].answer(pre_vote(1, TWO, (1, 2)), 0).granted


def test_who_could_not_win_tries_again_later_and_later() -> None:
    """KIP-996: pauses grow, so that those who cannot win do not flood the others with questions."""
    quorum = Quorum(logs={1: [1], 2: [1, 1], 3: [1, 1]})
    pauses_ms: list[float] = []
    for _ in range(8):
        while not isinstance(quorum[1].alive.role, Prospective):
            quorum.tick(1)
        quorum.send(1)
        assert isinstance(quorum[1].alive.role, Unattached)
        pauses_ms.append(quorum[1].alive.deadline_ms() - quorum.now_ms)
    assert pauses_ms == sorted(pauses_ms)
    assert pauses_ms[0] < pauses_ms[-1] == TIMING.backoff_max_ms


# KIP-835: check quorum


@pytest.mark.parametrize(("size", "needed"), [(3, 1), (5, 2)])
def test_a_leader_steps_down_when_no_majority_fetches(size: int, needed: int) -> None:
    """6 and KIP-835: clients of a leader that is cut off do not wait for ever; itself counts to its majority."""
    quorum = Quorum(size)
    quorum.lead(1)
    elected_ms = quorum.now_ms
    quorum.now_ms += PATIENCE_MS - 1
    for follower in range(2, 2 + needed):
        quorum.fetch(follower)
    quorum[1].run(quorum[1].alive.on_tick(elected_ms + PATIENCE_MS))
    assert quorum[1].alive.leads
    assert quorum[1].alive.deadline_ms() == quorum.now_ms + PATIENCE_MS
    quorum.tick(1)
    assert isinstance(quorum[1].alive.role, Unattached)
    assert quorum[1].stored.leader is None
    assert quorum[1].stored.voted_for == 1


def test_observers_do_not_keep_a_leader_in_office() -> None:
    """KIP-835: a majority is of voters."""
    quorum = Quorum(observer=9)
    quorum.lead(1)
    deadline_ms = quorum[1].alive.deadline_ms()
    serve(NodeId(9), quorum[1], 1, 1, 1, quorum.now_ms + 100)
    assert quorum[1].alive.deadline_ms() == deadline_ms


def test_a_sole_voter_needs_nobody() -> None:
    """KIP-835: it is its own majority, for ever."""
    quorum = Quorum(1)
    quorum.tick(1)
    assert quorum[1].alive.leads
    assert quorum[1].alive.high_watermark == 1
    assert quorum[1].alive.deadline_ms() == float("inf")


# KIP-595: a leader that stops


def test_a_leader_that_stops_names_those_who_hold_most() -> None:
    """KIP-595: and tells everybody until they have heard it, or are gone."""
    quorum = Quorum(5)
    quorum.lead(1)
    quorum.append(1, "a")
    quorum.catch_up(4)
    quorum[1].run(quorum[1].alive.resign(quorum.now_ms))
    assert isinstance(quorum[1].alive.role, Resigned)
    assert quorum[1].alive.message_for(TWO, quorum.now_ms) == EndEpoch(1, ONE, (NodeId(4), TWO, THREE, NodeId(5)))
    quorum.send(1, 2, 3, 4)
    quorum[1].run(quorum[1].alive.on_peer_dead(NodeId(5), quorum.now_ms))
    assert [quorum[1].alive.message_for(peer, quorum.now_ms) for peer in quorum[1].voters] == [None] * 5


@pytest.mark.parametrize("has_stood", [False, True])
def test_whoever_stops_while_it_stands_for_election_counts_no_more_votes(has_stood: bool) -> None:
    """It led during its own stop, and others had to find out that nobody was there."""
    quorum = Quorum()
    quorum.tick(1)
    if has_stood:
        quorum.send(1, 2, 3)
    assert isinstance(quorum[1].alive.role, Candidate if has_stood else Prospective)
    asked = quorum[1].alive.message_for(TWO, quorum.now_ms)
    assert asked is not None
    answer = quorum[2].answer(asked, quorum.now_ms)
    quorum[1].run(quorum[1].alive.resign(quorum.now_ms))
    quorum[1].take_answer(TWO, asked, answer, quorum.now_ms)
    quorum.send(1)
    assert isinstance(quorum[1].alive.role, Unattached)


def test_whoever_is_named_first_does_not_wait() -> None:
    """KIP-595: the others do, each a little longer, and support it meanwhile."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.append(1, "a")
    quorum.catch_up(3)
    quorum[1].run(quorum[1].alive.resign(quorum.now_ms))
    quorum.send(1)
    waits_ms = {me: quorum[me].alive.deadline_ms() - quorum.now_ms for me in (2, 3)}
    assert waits_ms == {3: 0, 2: TIMING.spread_ms}
    quorum.elect(3)
    assert quorum[3].alive.epoch == 2
    assert quorum[3].alive.high_watermark >= 2


def test_whoever_resigned_leads_that_epoch_never_again() -> None:
    """5.2 and KIP-595: even if it goes on running, or starts again at once."""
    quorum = Quorum()
    quorum.lead(1)
    quorum[1].run(quorum[1].alive.resign(quorum.now_ms))
    fetched = serve(TWO, quorum[1], 1, 1, 1, quorum.now_ms)
    assert fetched.answer == Answer(1, None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    quorum.tick(1)
    assert isinstance(quorum[1].alive.role, Unattached)
    quorum.restart(1)
    quorum[1].answer(BeginEpoch(1, TWO), quorum.now_ms)
    assert not quorum[1].alive.leads


# 7 Log compaction


def test_who_is_too_far_behind_is_sent_a_snapshot() -> None:
    """7: and goes on from there; what a snapshot holds is committed."""
    quorum = Quorum()
    quorum.elect(1, 2)
    quorum.append(1, "a", "b")
    quorum.catch_up(2)
    quorum[1].log.compact(2)
    quorum.send(1, 3)
    fetched = quorum.fetch(3)
    assert fetched.snapshot == ListLog(start_offset=2, first_epoch=1)
    assert quorum[3].alive.high_watermark == 2
    quorum.fetch(3)
    assert quorum[3].log.entries == quorum[1].log.entries


def test_a_snapshot_that_is_older_than_what_is_committed_changes_nothing() -> None:
    """7: a follower that has more keeps it."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.append(1, "a")
    quorum.catch_up(2)
    effects = quorum[2].alive.on_snapshot(SnapshotId(1, 1))
    assert effects.high_watermark is None
    assert quorum[2].alive.high_watermark == 2


def test_a_log_whose_end_is_in_a_snapshot_is_continued_only_if_their_epochs_agree() -> None:
    """7 and 5.3: a snapshot ends in an epoch, too, and whoever ends there in another begins with the snapshot."""
    quorum = Quorum(logs={1: [1, 2, 2, 3], 2: [1, 2, 2, 3], 3: [1, 1, 1]})
    quorum[1].log.compact(3)
    quorum.elect(1, 2)
    epoch = quorum[1].alive.epoch
    assert serve(TWO, quorum[1], epoch, 3, 2, 0).snapshot is None
    assert serve(THREE, quorum[1], epoch, 3, 1, 0).snapshot is not None


@pytest.mark.parametrize("compacted", [0, 2])
def test_what_was_committed_is_never_cut(compacted: int) -> None:
    """5.4.3 and 7: a leader without it means that a majority has lost its disks. To stop is all that is left to do."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.append(1, "a")
    quorum.catch_up(2)
    if compacted:
        quorum[2].log.compact(compacted)
    quorum[2].answer(BeginEpoch(2, THREE), quorum.now_ms)
    with pytest.raises(StorageError, match="offsets 0 to 2 were committed, and the leader does not have them"):
        quorum[2].alive.on_fetch_answer(THREE, Answer(2, THREE), Divergence(0, 0), 0, quorum.now_ms)


# 8 Client interaction


def test_a_new_leader_begins_with_a_record_of_its_own() -> None:
    """8: before that is committed, it cannot tell what else is."""
    quorum = Quorum(logs={1: [1, 1], 2: [1, 1], 3: [1, 1]})
    quorum.elect(1)
    assert quorum.epochs(1) == [1, 1, 2]
    quorum.fetch(2)
    assert quorum[1].alive.high_watermark == 0
    quorum.fetch(2)
    assert quorum[1].alive.high_watermark == 3


def test_whoever_does_not_lead_says_who_does() -> None:
    """8: so that clients, and members that are new, find the leader."""
    quorum = Quorum(observer=9)
    quorum.lead(1)
    fetched = serve(NodeId(9), quorum[2], 0, 0, 0, quorum.now_ms)
    assert fetched.answer == Answer(1, ONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    observer = quorum[9]
    observer.run(observer.alive.on_fetch_answer(TWO, fetched.answer, None, 0, quorum.now_ms))
    assert observer.alive.fetches_from == 1


def test_a_leader_that_was_replaced_cannot_commit() -> None:
    """8: what it tells its clients from then on is not true, so it tells them nothing that needs a majority."""
    quorum = Quorum()
    quorum.lead(1)
    quorum[2].run(quorum[2].alive.on_peer_dead(ONE, quorum.now_ms))
    quorum[3].run(quorum[3].alive.on_peer_dead(ONE, quorum.now_ms))
    quorum.elect(2, 3)
    quorum.append(1, "lost")
    assert quorum[1].alive.leads
    for follower in (TWO, THREE):
        serve(follower, quorum[1], quorum[int(follower)].alive.epoch, 2, 1, quorum.now_ms)
    assert quorum[1].alive.high_watermark == 1
