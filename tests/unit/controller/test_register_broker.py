"""Brokers joining, the cluster's id, and producer ids."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.controller.stand_ins import CLUSTER, apply, cluster_of, commit, create, registration, topic_id

from bifrost.controller.core.brokers import Registration, register_broker, unregister_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.producer_ids import BLOCK_SIZE, allocate_producer_ids
from bifrost.controller.core.records import (
    NO_LEADER,
    BrokerFenced,
    BrokerShuttingDown,
    PartitionChanged,
    ProducerIdsAllocated,
)
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
    commit(image, register_broker(image, registration(1, start=2, previous_epoch=before)))
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
    commit(image, register_broker(image, registration(2, start=2, previous_epoch=2)))
    first, second = image.topics["t"].partitions
    assert (first.leader, first.leader_epoch) == (NO_LEADER, 1)
    assert (second.leader, second.leader_epoch) == (2, 2)


def test_the_broker_of_a_cluster_of_several_starts_fenced() -> None:
    image = cluster_of(1)
    commit(image, register_broker(image, registration(2), fenced=True))
    assert (image.live_brokers(), image.brokers[2].epoch) == ([1], image.offset)


def test_the_rack_is_kept() -> None:
    image = cluster_of()
    commit(image, register_broker(image, registration(1, rack="r")))
    assert image.brokers[1].rack == "r"


def test_another_process_under_the_id_of_one_that_lives_is_refused() -> None:
    image = cluster_of(1)
    with pytest.raises(ApiError) as refusal:
        register_broker(image, registration(1, start=2), session_alive=True)
    assert refusal.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert list(register_broker(image, registration(1), session_alive=True).records) == []
    assert register_broker(image, registration(1, start=2), session_alive=False).records


@pytest.mark.parametrize("gone", [BrokerFenced(1), BrokerShuttingDown(1)], ids=str)
def test_a_broker_that_is_fenced_or_shuts_down_is_replaced_at_once(gone: BrokerFenced) -> None:
    image = cluster_of(1)
    apply(image, [gone])
    commit(image, register_broker(image, registration(1, start=2), fenced=True, session_alive=True))
    assert (image.brokers[1].epoch, image.brokers[1].fenced) == (image.offset, True)
    assert not image.brokers[1].shutting_down


def leaders(image: MetadataImage) -> list[tuple[tuple[int, ...], int, int]]:
    return [(part.isr, part.leader, part.leader_epoch) for part in image.topics["t"].partitions]


def test_a_start_that_is_registered_fenced_leads_nothing_and_leaves_the_isrs_of_others() -> None:
    image = cluster_of(1, 2)
    create(image, NewTopic("t", assignments=[(0, [1, 2]), (1, [2, 1])]), NewTopic("u", assignments=[(0, [1])]))
    commit(image, register_broker(image, registration(1, start=2, previous_epoch=1), fenced=True))
    assert leaders(image) == [((2,), 2, 1), ((2,), 2, 0)]
    alone = image.topics["u"].partitions[0]
    assert (alone.isr, alone.leader, alone.leader_epoch) == ((1,), NO_LEADER, 1)


@pytest.mark.parametrize("previous_epoch", [-1, 0, 7])
def test_a_start_after_an_unclean_stop_leaves_every_isr_that_has_others(previous_epoch: int) -> None:
    image = cluster_of(1, 2)
    create(image, NewTopic("t", assignments=[(0, [1, 2]), (1, [2, 1])]), NewTopic("u", assignments=[(0, [1])]))
    commit(image, register_broker(image, registration(1, start=2, previous_epoch=previous_epoch)))
    assert leaders(image) == [((2,), 2, 1), ((2,), 2, 0)]
    alone = image.topics["u"].partitions[0]
    assert (alone.isr, alone.leader, alone.leader_epoch) == ((1,), 1, 1)


def test_an_unregistered_broker_is_forgotten_and_others_lead() -> None:
    image = cluster_of(1, 2)
    create(image, NewTopic("t", assignments=[(0, [1, 2]), (1, [2, 1])]))
    commit(image, unregister_broker(image, 1))
    assert list(image.brokers) == [2]
    assert leaders(image) == [((2,), 2, 1), ((2,), 2, 0)]
    assert [part.replicas for part in image.topics["t"].partitions] == [(1, 2), (2, 1)]


def test_nobody_leads_what_an_unregistered_broker_alone_had() -> None:
    image = cluster_of(1, 2)
    create(image, NewTopic("t", assignments=[(0, [1])]))
    commit(image, unregister_broker(image, 1))
    assert leaders(image) == [((1,), NO_LEADER, 1)]


def test_only_a_registered_broker_is_unregistered() -> None:
    with pytest.raises(ApiError) as refusal:
        unregister_broker(cluster_of(1), 2)
    assert refusal.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_producer_ids_come_in_blocks_that_do_not_overlap() -> None:
    image = cluster_of(1, 2)
    first = commit(image, allocate_producer_ids(image, broker_id=1, broker_epoch=1))
    second = commit(image, allocate_producer_ids(image, broker_id=2, broker_epoch=2))
    assert (first, second) == (range(BLOCK_SIZE), range(BLOCK_SIZE, 2 * BLOCK_SIZE))


@pytest.mark.parametrize(
    ("broker_id", "broker_epoch", "code"),
    [(9, 1, ErrorCode.STALE_BROKER_EPOCH), (1, 0, ErrorCode.STALE_BROKER_EPOCH)],
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
