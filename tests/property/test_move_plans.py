"""Plans of moves: whatever a cluster looks like, nobody loses a replica, and the load ends up even."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from bifrost.client.moves.layout import Assignment
from bifrost.client.moves.plan import drain, even, loads, place
from bifrost.types import TopicPartition

Racks = Mapping[int, str | None]


@st.composite
def clusters(draw: st.DrawFn, racks: bool) -> tuple[Assignment, dict[int, str | None]]:
    """Partitions that lie anywhere on some of the brokers, as after brokers have come and gone."""
    count = draw(st.integers(2, 7))
    names = [f"r{number}" for number in range(draw(st.integers(1, 3)))]
    brokers = {broker: draw(st.sampled_from(names)) if racks else None for broker in range(count)}
    used = draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    sizes = draw(st.lists(st.integers(1, len(used)), min_size=1, max_size=12))
    return {
        TopicPartition("ab"[number % 2], number): tuple(draw(st.permutations(used))[:size])
        for number, size in enumerate(sizes)
    }, brokers


def distinct(replicas: tuple[int, ...], racks: Racks) -> int:
    return len({racks[broker] for broker in replicas if broker in racks})


def applied(before: Assignment, changes: Assignment) -> Assignment:
    assert changes.keys() <= before.keys()
    for tp, replicas in changes.items():
        assert replicas != before[tp], "a change that changes nothing"
        assert len(set(replicas)) == len(replicas), "a broker twice"
    return before | changes


def moved(before: Assignment, after: Assignment) -> int:
    return sum(len(set(after[tp]) - set(replicas)) for tp, replicas in before.items())


def spread_of(values: list[int]) -> int:
    return max(values) - min(values)


@settings(max_examples=300, deadline=None)
@given(clusters(racks=False))
def test_loads_are_even_after_as_few_moves_as_that_takes(cluster: tuple[Assignment, dict[int, str | None]]) -> None:
    before, brokers = cluster
    after = applied(before, even(before, brokers))
    assert {tp: len(replicas) for tp, replicas in after.items()} == {tp: len(old) for tp, old in before.items()}
    counts = [replicas for replicas, _ in loads(before, brokers).values()]
    assert spread_of([replicas for replicas, _ in loads(after, brokers).values()]) <= 1
    low, high = sum(counts) // len(counts), -(-sum(counts) // len(counts))
    needed = max(sum(max(0, one - high) for one in counts), sum(max(0, low - one) for one in counts))
    assert moved(before, after) == needed


@settings(max_examples=300, deadline=None)
@given(clusters(racks=False))
def test_leaders_are_as_even_as_replicas_allow(cluster: tuple[Assignment, dict[int, str | None]]) -> None:
    before, brokers = cluster
    after = applied(before, even(before, brokers))
    leads = Counter({broker: leaders for broker, (_, leaders) in loads(after, brokers).items()})
    # Whoever one can hand leads to, directly or through others, leads at most one less.
    for start in brokers:
        reached, waiting = {start}, [start]
        while waiting:
            giver = waiting.pop()
            for replicas in after.values():
                if replicas[0] == giver:
                    waiting += [one for one in replicas[1:] if one not in reached]
                    reached.update(replicas)
        assert all(leads[start] - leads[one] <= 1 for one in reached)


@settings(max_examples=300, deadline=None)
@given(clusters(racks=True))
def test_racks_are_spread_as_far_as_there_are_racks(cluster: tuple[Assignment, dict[int, str | None]]) -> None:
    before, brokers = cluster
    after = applied(before, even(before, brokers))
    for replicas in after.values():
        assert distinct(replicas, brokers) == min(len(replicas), len(set(brokers.values())))
    assert even(after, brokers) == {}, "a second look finds more to do"


@settings(max_examples=300, deadline=None)
@given(st.booleans().flatmap(lambda racks: clusters(racks=racks)), st.integers(0, 6))
def test_a_broker_that_leaves_holds_nothing_and_others_keep_what_they_have(
    cluster: tuple[Assignment, dict[int, str | None]], leaving: int
) -> None:
    before, brokers = cluster
    others = {broker: rack for broker, rack in brokers.items() if broker != leaving}
    before = {tp: replicas[: len(others)] for tp, replicas in before.items()}
    if not others:
        return
    after = applied(before, drain(before, brokers, {leaving}))
    for tp, replicas in before.items():
        assert leaving not in after[tp]
        assert len(after[tp]) == len(replicas)
        assert set(replicas) - {leaving} <= set(after[tp]), "a replica moved that was not in the way"
        if leaving not in replicas:
            assert after[tp] == replicas
    if all(brokers.values()):
        for tp, replicas in after.items():
            kept = distinct(tuple(set(before[tp]) - {leaving}), others)
            if leaving in before[tp]:
                assert distinct(replicas, others) == min(kept + 1, len(set(others.values())))


@settings(max_examples=300, deadline=None)
@given(clusters(racks=False), st.integers(1, 4))
def test_a_topic_is_placed_on_the_brokers_that_are_named(
    cluster: tuple[Assignment, dict[int, str | None]], factor: int
) -> None:
    before, brokers = cluster
    factor = min(factor, len(brokers))
    after = applied(before, place(before, brokers, factor))
    assert all(len(replicas) == factor and set(replicas) <= brokers.keys() for replicas in after.values())
    assert spread_of([replicas for replicas, _ in loads(after, brokers).values()]) <= 1


def test_what_was_on_its_way_to_a_broker_that_died_goes_elsewhere_and_nothing_else_does() -> None:
    moving, other = TopicPartition("a", 0), TopicPartition("a", 1)
    before = {moving: (3, 1), other: (3, 2)}
    changes = drain(before, {0: None, 1: None, 2: None}, {4}, lost={moving: {3}})
    assert changes == {moving: (0, 1)}
