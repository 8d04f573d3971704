"""Who leads, and what brokers that go and come leave behind: one test a rule."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, create, topic_id

from bifrost.controller.core.elections import broker_leaves, broker_restarts, broker_returns, elected
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import (
    NO_LEADER,
    BrokerFenced,
    BrokerShuttingDown,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
)
from bifrost.controller.core.state import Partition
from bifrost.controller.core.topics import NewTopic

T = topic_id(100)


def cluster_with(*partitions: tuple[tuple[int, ...], tuple[int, ...], int]) -> MetadataImage:
    """Brokers 1 to 3 and a topic whose partitions are given as replicas, ISR and leader."""
    image = cluster_of(1, 2, 3)
    created = [PartitionCreated(T, number, *partition) for number, partition in enumerate(partitions)]
    apply(image, [TopicCreated("t", T), *created])
    return image


def states(image: MetadataImage) -> list[tuple[tuple[int, ...], int]]:
    """ISR and leader of each partition."""
    return [(part.isr, part.leader) for part in image.topics["t"].partitions]


@pytest.mark.parametrize(
    ("leader", "isr", "live", "expected"),
    [
        (2, (1, 2, 3), {1, 2, 3}, 2),
        (2, (1, 3), {1, 2, 3}, 3),
        (2, (1, 2, 3), {1, 3}, 3),
        (2, (2,), {1, 3}, NO_LEADER),
        (NO_LEADER, (1,), {1, 2, 3}, 1),
    ],
    ids=[
        "a leader that will do is kept",
        "the first of the assignment that is in sync",
        "and lives",
        "nobody outside the ISR",
        "nobody led",
    ],
)
def test_the_leader(leader: int, isr: tuple[int, ...], live: set[int], expected: int) -> None:
    assert elected(Partition((3, 2, 1), isr, leader, 0, 0), isr, live) == expected


def test_a_broker_that_goes_leaves_the_isr_and_the_next_of_the_assignment_leads() -> None:
    image = cluster_with(((1, 3, 2), (1, 2, 3), 1))
    apply(image, broker_leaves(image, 1))
    assert image.partition("t", 0) == Partition((1, 3, 2), (2, 3), 3, 1, 1)


def test_a_follower_that_goes_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    # Kafka since 3.6: KAFKA-15021 was the reason for the epoch to move with every shrinking ISR.
    image = cluster_with(((1, 2, 3), (1, 2, 3), 1))
    apply(image, broker_leaves(image, 2))
    assert image.partition("t", 0) == Partition((1, 2, 3), (1, 3), 1, 0, 1)


def test_the_last_member_of_an_isr_stays_in_it_and_nobody_leads() -> None:
    image = cluster_with(((1, 2, 3), (1,), 1))
    apply(image, broker_leaves(image, 1))
    assert image.partition("t", 0) == Partition((1, 2, 3), (1,), NO_LEADER, 1, 1)
    assert broker_leaves(image, 1) == []


def test_brokers_that_shut_down_or_are_fenced_do_not_succeed() -> None:
    image = cluster_with(((1, 2, 3), (1, 2, 3), 1), ((1, 2), (1, 2), 1))
    apply(image, [BrokerShuttingDown(2)])
    apply(image, broker_leaves(image, 1))
    assert states(image) == [((2, 3), 3), ((2,), NO_LEADER)]


def test_partitions_of_others_are_not_touched() -> None:
    image = cluster_with(((2, 3), (2, 3), 2), ((1, 2), (2,), 2), ((1, 2), (1, 2), 2))
    assert broker_leaves(image, 1) == [PartitionChanged(T, 2, isr=(2,))]


def test_a_broker_that_returns_leads_what_nobody_leads_where_it_is_in_sync() -> None:
    image = cluster_with(
        ((1, 2), (1,), NO_LEADER), ((1, 2), (2,), NO_LEADER), ((1, 2), (1, 2), 2), ((1, 2), (1,), NO_LEADER)
    )
    assert broker_returns(image, 1) == [PartitionChanged(T, 0, leader=1), PartitionChanged(T, 3, leader=1)]


def test_what_was_lost_with_the_last_member_is_led_again_when_it_returns() -> None:
    image = cluster_with(((1, 2), (1, 2), 1))
    for broker in (2, 1):
        apply(image, [*broker_leaves(image, broker), BrokerFenced(broker)])
    assert states(image) == [((1,), NO_LEADER)]
    assert broker_returns(image, 2) == []
    apply(image, broker_returns(image, 1))
    assert states(image) == [((1,), 1)]


def test_after_a_clean_restart_a_leader_leads_on_in_a_new_epoch() -> None:
    image = cluster_with(((1, 2), (1, 2), 1), ((2, 1), (1, 2), 2), ((1, 2), (1,), NO_LEADER))
    apply(image, broker_restarts(image, 1, clean=True))
    assert states(image) == [((1, 2), 1), ((1, 2), 2), ((1,), 1)]
    assert [part.leader_epoch for part in image.topics["t"].partitions] == [1, 0, 1]


def test_after_an_unclean_restart_a_broker_is_in_no_isr_that_has_others() -> None:
    image = cluster_with(((1, 2), (1, 2), 1), ((2, 1), (1, 2), 2), ((1, 2), (1,), 1))
    apply(image, broker_restarts(image, 1, clean=False))
    assert states(image) == [((2,), 2), ((2,), 2), ((1,), 1)]
    assert [part.leader_epoch for part in image.topics["t"].partitions] == [1, 0, 1]


def test_changes_come_in_the_order_of_topic_ids() -> None:
    image = cluster_of(1, 2)
    create(image, NewTopic("b", 2, 2), NewTopic("a", 1, 2))
    assert [(one.topic_id, one.partition) for one in broker_leaves(image, 1)] == [
        (topic_id(100), 0),
        (topic_id(100), 1),
        (topic_id(101), 0),
    ]
