"""Brokers joining, the cluster's id, and producer ids."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.controller.stand_ins import CLUSTER, apply, cluster_of, commit, create, registration, topic_id

from bifrost.controller.core.brokers import Registration, register_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.producer_ids import BLOCK_SIZE, allocate_producer_ids
from bifrost.controller.core.records import NO_LEADER, PartitionChanged, ProducerIdsAllocated
from bifrost.controller.core.topics import NewTopic
from bifrost.errors import ApiError, ErrorCode


def refused(image: MetadataImage, asked: Registration) -> ErrorCode:
    with pytest.raises(ApiError) as refusal:
        register_broker(image, asked)
    return refusal.value.code


def test_a_new_cluster_gets_its_id_once() -> None:
    image = MetadataImage()
    commit(image, open_cluster(image, CLUSTER))
    assert list(open_cluster(image, CLUSTER).records) == []
    with pytest.raises(ApiError, match="belongs to cluster cluster-of-tests, not to other"):
        open_cluster(image, "other")


def test_a_broker_of_another_cluster_is_refused() -> None:
    assert refused(cluster_of(), replace(registration(1), cluster_id="x")) is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_broker_nobody_could_reach_is_refused() -> None:
    assert refused(cluster_of(), replace(registration(1), endpoints=())) is ErrorCode.INVALID_REGISTRATION


def test_registering_again_after_a_lost_answer_changes_nothing() -> None:
    assert list(register_broker(cluster_of(1), registration(1)).records) == []


def test_a_new_start_has_a_new_epoch_and_new_leader_epochs_where_it_leads() -> None:
    image = cluster_of(1, 2)
    create(image, NewTopic("t", 2, 2))
    before = image.brokers[1].epoch
    commit(image, register_broker(image, registration(1, start=2)))
    assert image.brokers[1].epoch == image.offset > before
    assert [(part.leader, part.leader_epoch) for part in image.topics["t"].partitions] == [(1, 1), (2, 0)]


def test_a_partition_without_a_leader_is_led_by_the_member_of_its_isr_that_returns() -> None:
    image = cluster_of(1, 2)
    create(image, NewTopic("t", 2, 2))
    identity = topic_id(100)
    apply(
        image,
        [PartitionChanged(identity, 0, leader=NO_LEADER, isr=(1,)), PartitionChanged(identity, 1, leader=NO_LEADER)],
    )
    commit(image, register_broker(image, registration(2, start=2)))
    first, second = image.topics["t"].partitions
    assert (first.leader, first.leader_epoch) == (NO_LEADER, 1)
    assert (second.leader, second.leader_epoch) == (2, 2)


def test_producer_ids_come_in_blocks_that_do_not_overlap() -> None:
    image = cluster_of(1, 2)
    first = commit(image, allocate_producer_ids(image, broker_id=1, broker_epoch=1))
    second = commit(image, allocate_producer_ids(image, broker_id=2, broker_epoch=2))
    assert (first, second) == (range(BLOCK_SIZE), range(BLOCK_SIZE, 2 * BLOCK_SIZE))


@pytest.mark.parametrize(
    ("broker_id", "broker_epoch", "code"),
    [(9, 1, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 0, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_only_a_registered_broker_gets_producer_ids(broker_id: int, broker_epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refusal:
        allocate_producer_ids(cluster_of(1), broker_id=broker_id, broker_epoch=broker_epoch)
    assert refusal.value.code is code


def test_producer_ids_end_one_day() -> None:
    image = cluster_of(1)
    apply(image, [ProducerIdsAllocated(1, (1 << 63) - 500)])
    with pytest.raises(ApiError, match="every producer id has been used"):
        allocate_producer_ids(image, broker_id=1, broker_epoch=1)
