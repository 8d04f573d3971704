"""The arithmetic of majorities against models that try everything: all sets of voters, all offsets, all outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from bifrost.raft.core.quorum import Tally, committed_offset, majority
from bifrost.raft.core.roles import Leader, Progress
from bifrost.types import NodeId

VOTERS_MAX = 7

sizes = st.integers(1, VOTERS_MAX)
end_offsets = st.lists(st.integers(-1, 12), min_size=1, max_size=VOTERS_MAX)


def subsets(members: Sequence[int]) -> list[frozenset[int]]:
    return [frozenset(some) for size in range(len(members) + 1) for some in combinations(members, size)]


def majorities(members: Sequence[int]) -> list[frozenset[int]]:
    """Whoever outnumbers the rest."""
    return [some for some in subsets(members) if len(some) > len(members) - len(some)]


def reached(offsets: Sequence[int]) -> int:
    """The largest offset below which some majority holds everything, by trying them all."""
    voters = range(len(offsets))
    candidates = [
        offset
        for offset in range(-1, max(offsets) + 1)
        if any(all(offsets[voter] >= offset for voter in some) for some in majorities(voters))
    ]
    return max(candidates)


@given(sizes)
def test_any_two_majorities_share_a_member(size: int) -> None:
    all_of_them = [some for some in subsets(range(size)) if len(some) >= majority(size)]
    assert all(one & other for one, other in product(all_of_them, repeat=2))


@given(sizes)
def test_a_majority_is_as_small_as_it_can_be(size: int) -> None:
    """One fewer, and two halves could decide without each other."""
    smaller = [some for some in subsets(range(size)) if len(some) == majority(size) - 1]
    assert any(not one & other for one, other in product(smaller, repeat=2))
    assert [some for some in subsets(range(size)) if len(some) >= majority(size)] == majorities(range(size))


@given(end_offsets)
def test_what_is_committed_is_what_some_majority_has_reached(offsets: list[int]) -> None:
    assert committed_offset(offsets) == reached(offsets)


@given(end_offsets.flatmap(lambda offsets: st.tuples(st.just(offsets), st.permutations(offsets))))
def test_it_does_not_matter_who_has_reached_it(orders: tuple[list[int], list[int]]) -> None:
    offsets, shuffled = orders
    assert committed_offset(shuffled) == committed_offset(offsets)


@given(end_offsets, st.integers(0, VOTERS_MAX - 1), st.integers(0, 5))
def test_progress_of_a_voter_never_takes_a_commit_back(offsets: list[int], voter: int, more: int) -> None:
    further = list(offsets)
    further[voter % len(offsets)] += more
    assert committed_offset(further) >= committed_offset(offsets)


@given(end_offsets, st.integers(0, 12))
def test_a_leader_calls_safe_what_a_majority_holds_of_its_epoch(offsets: list[int], epoch_start: int) -> None:
    own, *others = offsets
    followers = {NodeId(number): Progress(end_offset=offset) for number, offset in enumerate(others, start=2)}
    leader = Leader(epoch_start, followers, elected_at_ms=0)
    leader.observers[NodeId(99)] = Progress(end_offset=1000)
    held = reached(offsets)
    assert leader.safe_offset(own) == (held if held > epoch_start else 0)


@given(st.lists(st.integers(0, 5000), min_size=0, max_size=VOTERS_MAX - 1), st.integers(0, 3000))
def test_a_leader_is_heard_by_a_majority_until_the_last_one_turns_away(fetched: list[int], elected_at_ms: int) -> None:
    """Until the first moment at which those who fetched recently enough are no majority, the leader among them."""
    patience_ms = 1000
    followers = {NodeId(number): Progress(fetched_at_ms=at_ms) for number, at_ms in enumerate(fetched, start=2)}
    leader = Leader(0, followers, elected_at_ms)
    until_ms = leader.heard_until_ms(patience_ms)
    heard = [max(at_ms, elected_at_ms) for at_ms in fetched]

    def is_majority(now_ms: float) -> bool:
        recent = 1 + sum(now_ms <= at_ms + patience_ms for at_ms in heard)
        return recent > len(fetched) + 1 - recent

    ends = [at_ms + patience_ms for at_ms in heard if not is_majority(at_ms + patience_ms + 1)]
    assert until_ms == (min(ends) if ends else float("inf"))


@st.composite
def elections(draw: st.DrawFn) -> tuple[list[int], int, list[tuple[int, bool]]]:
    """The voters, who asks, and who answers what in which order: some twice, some who are no voters."""
    voters = list(range(1, draw(sizes) + 1))
    answers = draw(st.lists(st.tuples(st.integers(0, VOTERS_MAX + 2), st.booleans()), max_size=15))
    return voters, draw(st.sampled_from(voters)), answers


def outcomes(voters: Sequence[int], granted: set[int], refused: set[int]) -> list[bool]:
    """Whether it is won, for each way in which those who have not answered could."""
    undecided = [voter for voter in voters if voter not in granted | refused]
    return [granted | some in majorities(voters) for some in subsets(undecided)]


@given(elections())
def test_a_tally_knows_what_could_still_come(election: tuple[list[int], int, list[tuple[int, bool]]]) -> None:
    voters, candidate, answers = election
    tally = Tally(map(NodeId, voters), granted_by=NodeId(candidate))
    granted, refused = {candidate}, set[int]()
    for voter, is_granted in [(candidate, False), *answers]:
        tally.count(NodeId(voter), is_granted)
        if voter in voters and voter not in granted | refused:
            (granted if is_granted else refused).add(voter)
        possible = outcomes(voters, granted, refused)
        assert tally.is_won == all(possible)
        assert tally.is_lost == (not any(possible))
        owing = [voter for voter in range(VOTERS_MAX + 3) if tally.is_open(NodeId(voter))]
        assert owing == [voter for voter in voters if voter not in granted | refused]
