"""Placement in rotation."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.controller.stand_ins import cluster_of, create

from bifrost.controller.core.placement import place
from bifrost.controller.core.topics import NewTopic


def replicas(brokers: int, factor: int, end: int, start: int = 0) -> list[tuple[int, ...]]:
    return place(range(brokers), replication_factor=factor, start=start, first_partition=0, end_partition=end)


def test_three_partitions_on_three_brokers() -> None:
    assert replicas(3, 3, 3) == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


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
