"""Placement for any cluster: no broker twice, leaders and replicas spread evenly, the rotation unbroken."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from bifrost.controller.core.placement import place


@settings(deadline=None)
@given(st.integers(1, 12), st.data())
def test_replicas_are_distinct_and_even(brokers: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, brokers))
    start = data.draw(st.integers(0, 100))
    rounds = data.draw(st.integers(1, 2 * brokers))
    placed = place(
        range(brokers), replication_factor=factor, start=start, first_partition=0, end_partition=rounds * brokers
    )
    assert all(len(set(replicas)) == factor for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {rounds}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {rounds * factor}


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(2, 8))
def test_the_successors_of_a_dead_broker_are_many(brokers: int, rounds: int) -> None:
    placed = place(range(brokers), replication_factor=2, start=0, first_partition=0, end_partition=rounds * brokers)
    successors = Counter(replicas[1] for replicas in placed if replicas[0] == 0)
    assert len(successors) == min(rounds, brokers - 1)


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(0, 20), st.integers(0, 20), st.integers(0, 50))
def test_adding_partitions_later_places_them_as_at_once(brokers: int, first: int, more: int, start: int) -> None:
    def placed(begin: int, end: int) -> list[tuple[int, ...]]:
        return place(
            range(brokers), replication_factor=1, start=start, first_partition=begin, end_partition=end
        )  # fmt: skip

    assert placed(0, first) + placed(first, first + more) == placed(0, first + more)
