"""Placement in rotation."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, create, place, registration

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partitions import MorePartitions, create_partitions
from bifrost.controller.core.placement import Rotation
from bifrost.controller.core.records import BrokerFenced
from bifrost.controller.core.topics import NewTopic


def replicas(brokers: int, factor: int, end: int, start: int = 0) -> list[tuple[int, ...]]:
    return place(range(brokers), replication_factor=factor, start=start, first_partition=0, end_partition=end)


def test_three_partitions_on_three_brokers() -> None:
    assert replicas(3, 3, 3) == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


def test_every_topic_of_three_partitions_on_three_brokers_is_placed_alike() -> None:
    image = cluster_of(0, 1, 2)
    create(image, *(NewTopic(f"t{number}", 3, 3) for number in range(3)))
    for topic in image.topics.values():
        assert [part.replicas for part in topic.partitions] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


def test_the_next_round_turns_the_followers() -> None:
    assert replicas(3, 3, 6)[3:] == [(0, 2, 1), (1, 0, 2), (2, 1, 0)]
    rounds = [replicas(4, 2, 12)[first : first + 4] for first in (0, 4, 8)]
    assert rounds[0] == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert rounds[1] == [(0, 2), (1, 3), (2, 0), (3, 1)]
    assert rounds[2] == [(0, 3), (1, 0), (2, 1), (3, 2)]


def test_one_broker_holds_everything() -> None:
    assert replicas(1, 1, 3, start=7) == [(0,), (0,), (0,)]


def test_broker_ids_need_not_be_consecutive() -> None:
    assert place([4, 9], replication_factor=2, start=1, first_partition=0, end_partition=2) == [(9, 4), (4, 9)]


@pytest.mark.parametrize(("partitions", "factor"), [(1, 1), (1, 3), (2, 2), (3, 3), (7, 2)])
def test_many_topics_are_spread_evenly(partitions: int, factor: int) -> None:
    image = cluster_of(*range(5))
    for number in range(50):
        create(image, NewTopic(f"t{number}", partitions, factor))
    parts = [part for topic in image.topics.values() for part in topic.partitions]
    leaders = Counter(part.leader for part in parts)
    held = Counter(broker for part in parts for broker in part.replicas)
    assert max(leaders.values()) - min(leaders.values()) <= 1
    assert max(held.values()) - min(held.values()) <= 0.1 * max(held.values()) + 1


SIX = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}


def on_racks(
    racks: dict[int, str], factor: int, end: int, *, start: int = 0, fenced: tuple[int, ...] = ()
) -> list[tuple[int, ...]]:
    live = [broker for broker in sorted(racks) if broker not in fenced]
    return place(
        live,
        replication_factor=factor,
        start=start,
        first_partition=0,
        end_partition=end,
        fenced=fenced,
        racks=racks,
    )


def test_leaders_go_from_rack_to_rack() -> None:
    assert Rotation(sorted(SIX), (), SIX).leaders == [0, 2, 4, 1, 3, 5]
    assert Rotation([0, 1, 2, 9], (), {0: "a", 1: "a", 2: "a", 9: "b"}).leaders == [0, 9, 1, 2]
    assert Rotation([3, 1, 2]).leaders == [3, 1, 2]


def test_each_replica_is_on_another_rack() -> None:
    rounds = [on_racks(SIX, 3, 18)[first : first + 6] for first in (0, 6, 12)]
    assert rounds[0] == [(0, 2, 4), (2, 4, 0), (4, 0, 2), (1, 3, 5), (3, 5, 1), (5, 1, 3)]
    assert rounds[1] == [(0, 4, 2), (2, 0, 4), (4, 2, 0), (1, 5, 3), (3, 1, 5), (5, 3, 1)]
    assert rounds[2] == [(0, 3, 5), (2, 5, 1), (4, 1, 3), (1, 2, 4), (3, 4, 0), (5, 0, 2)]


def test_no_rack_has_a_third_replica_before_all_have_two() -> None:
    for replicas in on_racks(SIX, 5, 60):
        assert sorted(Counter(SIX[broker] for broker in replicas).values()) == [1, 2, 2]


def test_one_rack_is_as_none_at_all() -> None:
    # Only the turn may differ: with racks it goes by laps, which for a first topic is the same.
    assert on_racks(dict.fromkeys(range(4), "a"), 3, 12) == replicas(4, 3, 12)


def test_a_small_rack_has_more_to_hold() -> None:
    placed = on_racks({0: "a", 1: "a", 2: "a", 3: "b"}, 2, 12)
    assert all(3 in one for one in placed)
    assert Counter(one[0] for one in placed) == dict.fromkeys(range(4), 3)


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_the_smallest_topics_are_even_within_racks_of_any_size(factor: int) -> None:
    racks = {0: "a", 1: "b", 2: "c", 3: "d", 4: "d", 5: "d"}

    def held(topics: int) -> Counter[int]:
        placed = [on_racks(racks, factor, 1, start=start) for start in range(topics)]
        return Counter(broker for topic in placed for replicas in topic for broker in replicas)

    assert len({held(54)[broker] for broker in (3, 4, 5)}) == 1
    assert len({held(54)[broker] for broker in (0, 1, 2)}) == 1
    few = [held(30)[broker] for broker in (3, 4, 5)]
    assert max(few) - min(few) <= 6


def test_fenced_brokers_follow_after_live_ones() -> None:
    def placed(factor: int) -> list[tuple[int, ...]]:
        return place([1, 3], replication_factor=factor, start=0, first_partition=0, end_partition=4, fenced=[0, 2])

    assert placed(2) == [(1, 3), (3, 1), (1, 3), (3, 1)]
    assert placed(3) == [(1, 3, 0), (3, 1, 2), (1, 3, 2), (3, 1, 0)]
    assert placed(4) == [(1, 3, 0, 2), (3, 1, 2, 0), (1, 3, 2, 0), (3, 1, 0, 2)]


def test_another_rack_counts_more_than_a_broker_that_lives() -> None:
    assert on_racks({0: "a", 1: "a", 2: "b"}, 2, 2, fenced=(2,)) == [(0, 2), (1, 2)]


def test_live_brokers_come_first_within_a_rack_and_among_racks() -> None:
    assert {frozenset(one) for one in on_racks(SIX, 3, 12, fenced=(1, 3, 5))} == {frozenset({0, 2, 4})}
    assert {frozenset(one) for one in on_racks(SIX, 2, 12, fenced=(4, 5))} <= {
        frozenset({first, second}) for first in (0, 1) for second in (2, 3)
    }
    assert {frozenset(one) for one in on_racks({0: "a", 1: "a", 2: "b", 3: "b"}, 3, 8, fenced=(1,))} == {
        frozenset({0, 2, 3})
    }


def racked() -> MetadataImage:
    image = cluster_of()
    for broker, rack in SIX.items():
        commit(image, register_broker(image, registration(broker, rack=rack)))
    return image


def test_racks_count_if_every_broker_has_one() -> None:
    image = racked()
    create(image, NewTopic("t", 1, 3))
    assert image.topics["t"].partitions[0].replicas == (0, 2, 4)
    commit(image, register_broker(image, registration(6)))
    create(image, NewTopic("u", 7, 3))
    assert image.topics["u"].partitions[0].replicas == (1, 2, 3)


def test_new_partitions_go_on_in_the_rotation_of_racks() -> None:
    image = racked()
    create(image, NewTopic("s", 1, 2), NewTopic("t", 2, 2))
    apply(image, [BrokerFenced(5)])
    commit(image, create_partitions(image, [MorePartitions("t", 4)]))
    assert [part.leader for part in image.topics["t"].partitions] == [2, 4, 1, 3]


def test_many_topics_are_spread_evenly_over_racks() -> None:
    image = racked()
    for number in range(60):
        create(image, NewTopic(f"t{number}", 1 + number % 3, 2))
    parts = [part for topic in image.topics.values() for part in topic.partitions]
    leaders = Counter(part.leader for part in parts)
    held = Counter(broker for part in parts for broker in part.replicas)
    assert max(leaders.values()) - min(leaders.values()) <= 1
    assert max(held.values()) - min(held.values()) <= 0.1 * max(held.values()) + 1
