"""Placement for any cluster: no broker twice, leaders and replicas spread evenly, the rotation unbroken."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.controller.stand_ins import place


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
@given(st.integers(2, 9), st.integers(0, 60), st.integers(0, 40), st.data())
def test_without_racks_followers_come_after_their_leader_in_the_circle(
    brokers: int, start: int, first: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, brokers))
    placed = place(
        range(brokers), replication_factor=factor, start=start, first_partition=first, end_partition=first + 20
    )
    for partition, replicas in enumerate(placed, first):
        leader, turn = start + partition, partition // brokers
        followers = [leader + 1 + (turn + step) % (brokers - 1) for step in range(factor - 1)]
        assert replicas == tuple(broker % brokers for broker in [leader, *followers])


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


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_racks_of_one_size_are_as_even_as_brokers_without(racks: int, size: int, data: st.DataObject) -> None:
    count = racks * size
    factor = data.draw(st.integers(1, count))
    rounds = data.draw(st.integers(1, 2 * count))
    placed = place(
        range(count),
        replication_factor=factor,
        start=data.draw(st.integers(0, 100)),
        first_partition=0,
        end_partition=rounds * count,
        racks={broker: f"r{broker % racks}" for broker in range(count)},
    )
    assert set(Counter(replicas[0] for replicas in placed).values()) == {rounds}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {rounds * factor}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=12), st.data())
def test_racks_are_used_as_widely_as_they_can_be(brokers: list[tuple[str, bool]], data: st.DataObject) -> None:
    live = [broker for broker, (_, lives) in enumerate(brokers) if lives] or [0]
    fenced = [broker for broker in range(len(brokers)) if broker not in live]
    racks = {broker: name for broker, (name, _) in enumerate(brokers)}
    sizes = Counter(racks.values())
    factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, 100))
    end = data.draw(st.integers(1, 40))
    placed = place(
        live, replication_factor=factor, start=start, first_partition=0, end_partition=end, fenced=fenced, racks=racks
    )
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert replicas[0] in live
        used = Counter(racks[broker] for broker in replicas)
        assert len(used) == min(factor, len(sizes)), "a rack is empty while another has two"
        assert all(used[rack] >= min(size, max(used.values()) - 1) for rack, size in sizes.items())
        for rack in used:  # within a rack the fenced come last
            here = [broker in live for broker in racks if racks[broker] == rack and broker in replicas]
            assert all(here) or sum(here) == sum(racks[broker] == rack for broker in live)
    leads = Counter(replicas[0] for replicas in placed)
    assert max(leads.values()) - min(leads[broker] for broker in live) <= 1


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 50), st.data())
def test_within_a_rack_all_hold_as_much(sizes: list[int], start: int, data: st.DataObject) -> None:
    racks: dict[int, str] = {}
    for number, size in enumerate(sizes):
        racks |= {len(racks) + broker: f"r{number}" for broker in range(size)}
    factor = data.draw(st.integers(1, len(racks)))
    laps = 12 * max(len(sizes) - 1, 1)  # then each broker of a rack has followed everybody equally often
    placed = place(
        range(len(racks)),
        replication_factor=factor,
        start=start,
        first_partition=0,
        end_partition=laps * len(racks),
        racks=racks,
    )
    held = Counter(broker for replicas in placed for broker in replicas)
    for rack in set(racks.values()):
        assert len({held[broker] for broker in racks if racks[broker] == rack}) == 1
