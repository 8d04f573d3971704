"""The rules of Raft, one test for each, as far as they apply where followers pull.

Sections are those of "In Search of an Understandable Consensus Algorithm (Extended Version)" by Ongaro and Ousterhout.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from bifrost.errors import ErrorCode
from bifrost.raft.core.effects import Effects
from bifrost.raft.core.messages import Answer, BeginEpoch, ElectionState, EndEpoch, LogEnd, Message, Vote
from bifrost.raft.core.roles import Candidate, Follower, Prospective, Unattached
from bifrost.types import NodeId
from tests.unit.raft.members import Member, serve
from tests.unit.raft.quorum import TIMING, Quorum

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def vote(
    epoch: int, candidate: NodeId, log: tuple[int, int] = (0, 0), *, pre: bool = False, newborn: bool = True
) -> Vote:
    return Vote(epoch, candidate, LogEnd(*log), pre, newborn)


# 5.1 Raft basics


@pytest.mark.parametrize(
    "message", [vote(1, THREE, (9, 9), newborn=False), BeginEpoch(1, THREE), EndEpoch(1, THREE, (TWO,))], ids=str
)
def test_requests_of_an_epoch_that_is_over_are_refused(message: Message) -> None:
    """5.1: who is behind is told so, and changes nothing."""
    quorum = Quorum(logs={1: [1, 2]})
    core = quorum[1].alive
    quorum[1].answer(BeginEpoch(2, TWO), 0)
    state, role = core.state, core.role
    assert quorum[1].answer(message, 0) == Answer(2, TWO, ErrorCode.FENCED_LEADER_EPOCH)
    assert (core.state, core.role) == (state, role)


def test_a_fetch_of_another_epoch_is_refused() -> None:
    """5.1: followers of an old epoch hear of the new one; the leader of an old one does not count those of the new."""
    quorum = Quorum()
    quorum.lead(1)
    for epoch, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        quorum.append(1, "more")
        fetched = serve(TWO, quorum[1], epoch, quorum[1].log.end_offset, 1, quorum.now_ms)
        assert fetched.answer == Answer(1, ONE, error)
        assert quorum[1].alive.high_watermark == 1


def test_an_answer_of_an_epoch_that_is_over_is_of_no_use() -> None:
    """5.1: what a leader said before it was elected again does not tell what it says now."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.restart(1, 2, 3)
    quorum.lead(1)
    late = Answer(1, None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    quorum[2].run(quorum[2].alive.on_fetch_answer(ONE, late, None, 0, quorum.now_ms))
    assert quorum[2].alive.leader == 1


@pytest.mark.parametrize("role", ["leader", "candidate", "follower"])
@pytest.mark.parametrize("way", ["vote", "begin", "answer"])
def test_a_newer_epoch_is_adopted_by_everybody(role: str, way: str) -> None:
    """5.1: whatever tells of it, and whatever one was, one is nothing more than a follower in it."""
    quorum = Quorum()
    me = quorum[1]
    if role == "leader":
        quorum.elect(1)
    elif role == "candidate":
        quorum.tick(1)
        quorum.send(1)
        assert isinstance(me.alive.role, Candidate)
    else:
        quorum.elect(2)
    if way == "vote":
        me.answer(vote(7, THREE), quorum.now_ms)
    elif way == "begin":
        me.answer(BeginEpoch(7, THREE), quorum.now_ms)
    else:
        me.run(
            me.alive.on_told(THREE, BeginEpoch(1, ONE), Answer(7, THREE, ErrorCode.FENCED_LEADER_EPOCH), quorum.now_ms)
        )
    assert me.alive.epoch == me.stored.epoch == 7
    assert isinstance(me.alive.role, Unattached if way == "vote" else Follower)


# 5.2 Leader election


def test_a_follower_waits_as_long_as_it_hears_from_its_leader() -> None:
    """5.2: an election begins when a follower has heard nothing for the timeout, not before."""
    quorum = Quorum()
    quorum.lead(1)
    for _ in range(5):
        quorum.now_ms += TIMING.fetch_timeout_ms * 0.9
        quorum.fetch(2)
        quorum[2].run(quorum[2].alive.on_tick(quorum.now_ms))
        assert isinstance(quorum[2].alive.role, Follower)
    quorum.tick(2)
    assert isinstance(quorum[2].alive.role, Prospective)


def test_a_candidate_votes_for_itself_in_a_new_epoch_and_keeps_that_before_it_asks() -> None:
    """5.2: the epoch is one more than the last, and the first vote in it is its own."""
    quorum = Quorum()
    quorum.tick(1)
    message = quorum[1].alive.message_for(TWO, 0)
    assert isinstance(message, Vote)
    answer = quorum[2].answer(message, 0)
    effects = quorum[1].alive.on_vote_answer(TWO, message, answer, 0)
    assert effects.persist == ElectionState(epoch=1, voted_for=ONE)
    assert quorum[1].alive.message_for(TWO, 0) == vote(1, ONE)


def test_one_vote_an_epoch_for_whoever_asks_first() -> None:
    """5.2: and the next one in the next epoch."""
    quorum = Quorum()
    assert quorum[1].answer(vote(1, TWO), 0).granted
    assert not quorum[1].answer(vote(1, THREE), 0).granted
    assert quorum[1].answer(vote(2, THREE), 0).granted


def test_whoever_asks_again_is_answered_again() -> None:
    """5.2 and 5.5: a candidate whose answer was lost may repeat its question."""
    quorum = Quorum()
    assert quorum[1].answer(vote(1, TWO), 0).granted
    assert quorum[1].answer(vote(1, TWO), 0).granted


def test_a_vote_is_on_disk_before_it_is_given() -> None:
    """5.2 and figure 2: whoever crashes after its vote remembers it."""
    quorum = Quorum()
    answer, effects = quorum[1].alive.on_vote(vote(1, TWO), 0)
    assert answer.granted
    assert effects.persist == ElectionState(epoch=1, voted_for=TWO)
    quorum[1].run(effects)
    quorum.restart(1)
    assert not quorum[1].answer(vote(1, THREE), 0).granted
    assert quorum[1].answer(vote(1, TWO), 0).granted


@pytest.mark.parametrize(("size", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_candidate_leads_with_the_votes_of_a_majority(size: int, needed: int) -> None:
    """5.2: no fewer, its own among them; nobody has to be waited for after that."""
    quorum = Quorum(size)
    quorum.tick(1)
    quorum.send(1)
    for peer in range(2, needed):
        quorum.send(1, peer)
    assert quorum[1].alive.leads == (needed == 1)
    if needed > 1:
        quorum.send(1, needed)
    assert quorum[1].alive.leads


def test_an_answer_that_comes_twice_counts_once() -> None:
    """5.2: a majority is of voters, not of answers."""
    quorum = Quorum(5)
    quorum.tick(1)
    quorum.send(1)
    message = quorum[1].alive.message_for(TWO, 0)
    assert isinstance(message, Vote)
    answer = quorum[2].answer(message, 0)
    for _ in range(3):
        quorum[1].take_answer(TWO, message, answer, 0)
    assert not quorum[1].alive.leads


def test_a_new_leader_says_so_until_everybody_fetches() -> None:
    """5.2: so that nobody else begins an election. Where followers pull, it tells them where to."""
    quorum = Quorum()
    quorum.elect(1, 2)
    assert quorum[1].alive.message_for(THREE, quorum.now_ms) == BeginEpoch(1, ONE)
    quorum.send(1)
    quorum.catch_up(2, 3)
    assert quorum[1].alive.message_for(THREE, quorum.now_ms) is None
    later_ms = quorum.now_ms + TIMING.fetch_timeout_ms / 2
    assert quorum[1].alive.message_for(THREE, later_ms) == BeginEpoch(1, ONE)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_candidate_follows_a_leader_of_its_epoch_or_a_newer_one(epoch: int) -> None:
    """5.2: it has lost, and gives up at once."""
    quorum = Quorum()
    quorum.tick(1)
    quorum.send(1)
    quorum[1].answer(BeginEpoch(epoch, THREE), 0)
    assert quorum[1].alive.role == Follower(THREE, TIMING.fetch_timeout_ms)


def test_a_split_vote_elects_nobody_and_is_followed_by_another() -> None:
    """5.2: with each vote given to somebody else, the timeout brings a new epoch."""
    quorum = Quorum(4)
    for me in (1, 2):
        quorum.tick(me)
        quorum.send(me, 3, 4)
    quorum.send(1, 3)
    quorum.send(2, 4)
    for me in (1, 2):
        quorum.send(me)
    assert [member.alive.epoch for member in quorum.members.values()] == [1, 1, 1, 1]
    assert not any(member.alive.leads for member in quorum.members.values())
    quorum.elect(1)
    assert quorum[1].alive.epoch == 2


def test_timeouts_are_random() -> None:
    """5.2: between one and two election timeouts, so that split votes are rare."""
    deadlines = []
    for random in (0.0, 0.25, 0.999):
        member = Member(1, [1, 2, 3], TIMING, lambda random=random: random)  # type: ignore[misc]
        member.start(0)
        member.answer(vote(1, TWO), 0)
        deadlines.append(member.alive.deadline_ms())
    assert deadlines == [TIMING.election_timeout_ms * factor for factor in (1, 1.25, 1.999)]


def test_nobody_leads_an_epoch_twice() -> None:
    """5.2: who led before a crash begins as everybody else does; a vote in that epoch is not to be had from it."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.restart(1, 2, 3)
    assert isinstance(quorum[1].alive.role, Unattached)
    assert not quorum[1].answer(vote(1, TWO, (9, 9), newborn=False), quorum.now_ms).granted
    quorum[1].run(quorum[1].alive.on_told(TWO, BeginEpoch(1, ONE), Answer(1, ONE), quorum.now_ms))
    assert not quorum[1].alive.leads
    quorum.elect(1)
    assert quorum[1].alive.epoch == 2


# 5.3 Log replication


def test_an_entry_is_committed_when_a_majority_has_it_on_disk() -> None:
    """5.3: the leader itself counts when its own sync is done, a follower when it asks for what comes next."""
    quorum = Quorum()
    quorum.lead(1)
    quorum[1].append("a")
    quorum.fetch(2, sync=False)
    quorum.fetch(2, sync=False)
    assert quorum[1].alive.high_watermark == 1
    quorum[2].sync()
    quorum.fetch(2)
    assert quorum[1].alive.high_watermark == 1
    quorum[1].sync()
    assert quorum[1].alive.high_watermark == 2


def test_who_does_not_vote_is_not_counted() -> None:
    """5.3: a majority of the voters; observers only read."""
    quorum = Quorum(observer=9)
    quorum.elect(1)
    for _ in range(3):
        fetched = serve(NodeId(9), quorum[1], 1, quorum[1].log.end_offset, 1, quorum.now_ms)
        assert fetched.high_watermark == 0


def test_followers_hear_with_the_next_answer_what_is_committed() -> None:
    """5.3: and take no more for committed than they have."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.append(1, "a", "b")
    quorum.catch_up(2)
    assert quorum[2].alive.high_watermark == 3
    quorum[3].run(quorum[3].alive.on_fetch_answer(ONE, Answer(1, ONE), None, 3, quorum.now_ms))
    assert quorum[3].alive.high_watermark == quorum[3].log.end_offset == 1


def test_a_leader_never_takes_back_what_it_appended() -> None:
    """5.3: leaders append only, whatever they are told."""
    quorum = Quorum()
    quorum.lead(1)
    quorum.append(1, "a")
    core = quorum[1].alive
    told: list[Effects] = [
        core.on_begin_epoch(BeginEpoch(1, TWO), 0)[1],
        core.on_fetch(TWO, epoch=1, offset=9, last_epoch=1, now_ms=0)[1],
        core.on_fetch_answer(TWO, Answer(1, TWO), None, 0, 0),
        core.on_vote(vote(1, TWO, (5, 5), newborn=False), 0)[1],
    ]
    assert [effects.truncate_to for effects in told] == [None] * 4
    assert core.leads


@pytest.mark.parametrize(
    ("epochs", "rounds"),
    [
        ([1, 1, 1, 4, 4, 5, 5, 6, 6], 1),
        ([1, 1, 1, 4], 1),
        ([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6], 2),
        ([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7], 2),
        ([1, 1, 1, 4, 4, 4, 4], 2),
        ([1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3], 2),
        ([], 1),
    ],
    ids="abcdef-",
)
def test_a_follower_that_diverges_cuts_its_log_and_goes_on_with_the_leaders(epochs: list[int], rounds: int) -> None:
    """5.3 and figure 7: what is missing is sent, what is too much is cut, and a whole epoch is skipped at a time."""
    leads = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
    quorum = Quorum(logs={1: leads, 2: epochs, 3: leads})
    quorum[1].stored = quorum[1].stored._replace(epoch=7)
    quorum.restart(1)
    quorum.elect(1, 3)
    quorum.send(1)
    asked = 0
    while quorum[2].log.entries != quorum[1].log.entries:
        quorum.fetch(2)
        asked += 1
    assert quorum.epochs(2) == [*leads, 8]
    assert asked == rounds


def test_equal_ends_mean_equal_logs() -> None:
    """5.3: log matching. A fetch names the last epoch besides the offset, and only if both agree it is continued."""
    quorum = Quorum(logs={1: [1, 1, 2], 2: [1, 1, 2], 3: [1, 1, 1]})
    quorum.elect(1, 2)
    same = serve(TWO, quorum[1], quorum[1].alive.epoch, 3, 2, 0)
    other = serve(THREE, quorum[1], quorum[1].alive.epoch, 3, 1, 0)
    assert (same.divergence, len(same.entries)) == (None, 1)
    assert other.divergence == (1, 2)
    assert other.entries == []


# 5.4 Safety


@pytest.mark.parametrize(
    ("own", "candidate", "granted"),
    [
        ([1, 1, 2], (2, 3), True),
        ([1, 1, 2], (2, 4), True),
        ([1, 1, 2], (3, 1), True),
        ([1, 1, 2], (2, 2), False),
        ([1, 1, 2], (1, 9), False),
    ],
)
@pytest.mark.parametrize("pre", [True, False])
def test_a_candidate_that_may_lack_something_is_refused(
    own: list[int], candidate: tuple[int, int], granted: bool, pre: bool
) -> None:
    """5.4.1: the log with the later last epoch is more up to date, and of two with the same the longer one."""
    quorum = Quorum(logs={1: own})
    assert quorum[1].answer(vote(5, TWO, candidate, pre=pre, newborn=False), 0).granted is granted


def test_a_refusal_leaves_the_vote_to_give() -> None:
    """5.4.1: to the next one who asks in that epoch, and has everything."""
    quorum = Quorum(logs={1: [1, 1]})
    assert not quorum[1].answer(vote(2, TWO, (1, 1), newborn=False), 0).granted
    assert quorum[1].answer(vote(2, THREE, (1, 2), newborn=False), 0).granted


def test_entries_of_earlier_epochs_are_not_committed_by_counting() -> None:
    """5.4.2 and figure 8: although a majority has it, the entry of epoch 2 waits for one of the leader's own epoch."""
    quorum = Quorum(5, logs={1: [1, 2], 2: [1, 2], 3: [1], 4: [1], 5: [1, 3]})
    quorum[1].stored = quorum[1].stored._replace(epoch=3)
    quorum.restart(1)
    quorum.elect(1, 2, 3, 4)
    leader = quorum[1]
    assert leader.alive.epoch == 4
    for follower in (TWO, THREE, NodeId(4)):
        serve(follower, leader, 4, 2, 2, quorum.now_ms)
    assert leader.alive.high_watermark == 0
    for follower in (TWO, THREE):
        serve(follower, leader, 4, 3, 4, quorum.now_ms)
    assert leader.alive.high_watermark == 3


@pytest.mark.parametrize("order", list(permutations([1, 2, 3])))
def test_whoever_is_elected_has_all_that_was_committed(order: tuple[int, int, int]) -> None:
    """5.4.3: leader completeness. Whoever asks whom, node 3 cannot win: it lacks what 1 and 2 have committed."""
    quorum = Quorum(logs={1: [1, 1, 1], 2: [1, 1, 1], 3: [1, 1]})
    winners = set()
    for me in order:
        while not isinstance(quorum[me].alive.role, Prospective):
            quorum.tick(me)
        for _ in range(2):
            quorum.send(me)
        if quorum[me].alive.leads:
            winners.add(me)
    assert winners
    assert 3 not in winners
