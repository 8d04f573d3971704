"""What makes a cluster unhealthy."""

from __future__ import annotations

import pytest

from bifrost.client.descriptions import (
    Broker,
    ClusterDescription,
    GroupOffset,
    PartitionDescription,
    TopicDescription,
    judge,
)
from bifrost.types import TopicPartition

BROKERS = tuple(Broker(node, f"host-{node}", 9092, None) for node in (1, 2, 3))
WELL = PartitionDescription(0, 1, (1, 2, 3), (1, 2, 3))


def topic(*partitions: PartitionDescription) -> TopicDescription:
    return TopicDescription("orders", "id", False, partitions)


def test_a_cluster_with_all_replicas_in_sync_is_well() -> None:
    health = judge(ClusterDescription("c", 1, BROKERS), [topic(WELL)])
    assert health.healthy
    assert health.partitions == 1


@pytest.mark.parametrize(
    ("partition", "field"),
    [
        (PartitionDescription(1, None, (1, 2), (1, 2)), "leaderless"),
        (PartitionDescription(1, 1, (1, 2), (1,)), "under_replicated"),
    ],
)
def test_a_partition_that_is_not_well_is_named(partition: PartitionDescription, field: str) -> None:
    health = judge(ClusterDescription("c", 1, BROKERS), [topic(WELL, partition)])
    assert not health.healthy
    assert getattr(health, field) == (TopicPartition("orders", 1),)


def test_brokers_with_replicas_that_are_not_there_are_named() -> None:
    health = judge(ClusterDescription("c", 1, BROKERS[:2]), [topic(WELL)])
    assert not health.healthy
    assert health.offline_brokers == (3,)


def test_a_cluster_without_a_controller_is_not_well() -> None:
    assert not judge(ClusterDescription("c", None, BROKERS), []).healthy


@pytest.mark.parametrize(
    ("committed", "end", "lag"), [(3, 5, 2), (5, 5, 0), (7, 5, 0), (None, 5, None), (3, None, None)]
)
def test_lag_is_never_negative_and_never_guessed(committed: int | None, end: int | None, lag: int | None) -> None:
    """An end may be older than a commit: they are asked for one after the other."""
    assert GroupOffset("orders", 0, committed, 0, end, None).lag == lag
