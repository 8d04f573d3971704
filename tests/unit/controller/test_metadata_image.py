"""What each record does to the image, and what subscribers are told."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import CLUSTER, apply, cluster_of, topic_id

from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import (
    BrokerFenced,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ConfigChanged,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from bifrost.controller.core.state import Partition

A, B = topic_id(1), topic_id(2)


def image_with_topic() -> MetadataImage:
    image = cluster_of(1, 2)
    apply(
        image,
        [TopicCreated("t", A), PartitionCreated(A, 0, (1, 2), (1, 2), 1), PartitionCreated(A, 1, (2, 1), (2, 1), 2)],
    )
    return image


def test_a_registered_broker_has_the_offset_of_its_record_as_epoch() -> None:
    image = cluster_of(1, 2)
    assert image.cluster_id == CLUSTER
    assert {broker.broker_id: broker.epoch for broker in image.brokers.values()} == {1: 1, 2: 2}
    assert image.brokers_changed_at == image.offset == 2
    endpoint = image.brokers[1].endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("host1", 9092)
    assert image.brokers[1].endpoint("OTHER") is None


def test_a_fenced_broker_does_not_live_and_keeps_its_epoch() -> None:
    image = cluster_of(1, 2)
    delta = apply(image, [BrokerFenced(1)])
    assert image.live_brokers() == [2]
    assert image.brokers[1].epoch == 1
    assert list(delta.brokers) == [1]
    apply(image, [BrokerUnfenced(1)])
    assert image.live_brokers() == [1, 2]


def test_a_broker_that_shuts_down_is_live_and_not_active() -> None:
    image = cluster_of(1, 2)
    delta = apply(image, [BrokerShuttingDown(1)])
    assert (image.live_brokers(), image.active_brokers()) == ([1, 2], {2})
    assert (image.brokers[1].shutting_down, image.brokers[1].shutdown_offset) == (True, image.offset)
    assert list(delta.brokers) == [1]


@pytest.mark.parametrize("record", [BrokerFenced(1), BrokerUnfenced(1)], ids=str)
def test_a_shutdown_is_over_when_the_broker_is_fenced_or_takes_part_again(record: BrokerFenced) -> None:
    image = cluster_of(1)
    apply(image, [BrokerShuttingDown(1)])
    apply(image, [record])
    assert not image.brokers[1].shutting_down


def test_an_unregistered_broker_is_gone_and_its_replicas_keep_its_name() -> None:
    image = image_with_topic()
    delta = apply(image, [BrokerUnregistered(2, 2)])
    assert list(image.brokers) == [1]
    assert (image.brokers_changed_at, list(delta.brokers)) == (image.offset, [2])
    assert image.topics["t"].partitions[0].replicas == (1, 2)


def test_topics_are_found_by_name_and_by_id() -> None:
    image = image_with_topic()
    assert image.topics["t"] is image.topics_by_id[A]
    assert image.partition("t", 1) == Partition((2, 1), (2, 1), 2, 0, 0)
    assert image.partition("t", 2) is None
    assert image.partition("t", -1) is None
    assert image.partition("u", 0) is None


def test_a_new_leader_starts_a_leader_epoch_and_any_change_a_partition_epoch() -> None:
    image = image_with_topic()
    apply(image, [PartitionChanged(A, 0, isr=(1,))])
    assert image.partition("t", 0) == Partition((1, 2), (1,), 1, 0, 1)
    apply(image, [PartitionChanged(A, 0, leader=1)])
    assert image.partition("t", 0) == Partition((1, 2), (1,), 1, 1, 2)
    apply(image, [PartitionChanged(A, 0, replicas=(1,))])
    assert image.partition("t", 0) == Partition((1,), (1,), 1, 1, 3)


def test_a_change_of_a_topic_moves_its_own_counter_only() -> None:
    image = image_with_topic()
    apply(image, [TopicCreated("u", B), PartitionCreated(B, 0, (1,), (1,), 1)])
    seen = {name: topic.changed_at for name, topic in image.topics.items()}
    apply(image, [PartitionChanged(A, 0, isr=(1,))])
    assert image.topics["t"].changed_at == image.offset > seen["t"]
    assert image.topics["u"].changed_at == seen["u"]


def test_a_deleted_topic_takes_its_configs_along() -> None:
    image = image_with_topic()
    apply(image, [ConfigChanged(TOPIC_RESOURCE, "t", "retention.ms", "5")])
    assert image.topic_configs("t") == {"retention.ms": "5"}
    delta = apply(image, [TopicDeleted(A)])
    assert (image.topics, image.topics_by_id, image.configs) == ({}, {}, {})
    assert [topic.name for topic in delta.topics_deleted.values()] == ["t"]
    assert len(delta.topics_deleted[A].partitions) == 2


def test_a_config_without_a_value_is_removed() -> None:
    image = cluster_of(1)
    everywhere = (BROKER_RESOURCE, EVERY_BROKER)
    apply(image, [ConfigChanged(*everywhere, "message.max.bytes", "5"), ConfigChanged(*everywhere, "a", "b")])
    delta = apply(image, [ConfigChanged(*everywhere, "a", None)])
    assert image.configs == {everywhere: {"message.max.bytes": "5"}}
    assert list(delta.configs) == [everywhere]
    apply(image, [ConfigChanged(*everywhere, "message.max.bytes", None), ConfigChanged(*everywhere, "c", None)])
    assert image.configs == {}


def test_names_collide_when_only_dots_and_underscores_differ() -> None:
    image = cluster_of(1)
    apply(image, [TopicCreated("a.b_c", A)])
    assert image.colliding_topic("a_b.c") == "a.b_c"
    assert image.colliding_topic("a-b-c") is None
    apply(image, [TopicDeleted(A)])
    assert image.colliding_topic("a_b.c") is None


def test_a_delta_tells_of_new_partitions_and_of_what_the_others_were() -> None:
    image = image_with_topic()
    delta = apply(
        image,
        [PartitionChanged(A, 1, leader=1), PartitionChanged(A, 1, leader=2), PartitionCreated(A, 2, (1,), (1,), 1)],
    )
    changed, added = delta.partitions.values()
    assert (changed.topic.name, changed.partition) == ("t", 1)
    assert changed.before == Partition((2, 1), (2, 1), 2, 0, 0)
    assert changed.after == Partition((2, 1), (2, 1), 2, 2, 2)
    assert (added.partition, added.before, added.after) == (2, None, image.partition("t", 2))


def test_a_topic_that_came_and_went_within_a_delta_is_not_in_it() -> None:
    image = cluster_of(1)
    assert not apply(image, [TopicCreated("t", A), PartitionCreated(A, 0, (1,), (1,), 1), TopicDeleted(A)])


def test_a_topic_made_again_under_its_name_is_both_deleted_and_created() -> None:
    image = image_with_topic()
    delta = apply(image, [TopicDeleted(A), TopicCreated("t", B), PartitionCreated(B, 0, (1,), (1,), 1)])
    assert (list(delta.topics_deleted), list(delta.topics_created), list(delta.partitions)) == ([A], [B], [(B, 0)])


def test_a_copy_is_equal_and_independent() -> None:
    image = image_with_topic()
    twin = image.copy()
    assert twin == image
    apply(twin, [PartitionChanged(A, 0, isr=(1,)), ConfigChanged(2, "t", "a", "b")])
    assert twin != image
    assert image.partition("t", 0) == Partition((1, 2), (1, 2), 1, 0, 0)
    assert image.configs == {}


def test_equal_replica_lists_are_one_object() -> None:
    image = cluster_of(1)
    one, other = (tuple(range(1, 3)) for _ in range(2))
    assert one is not other
    apply(image, [TopicCreated("t", A), PartitionCreated(A, 0, one, other, 1), PartitionCreated(A, 1, other, one, 1)])
    parts = image.topics["t"].partitions
    assert parts[0].replicas is parts[0].isr is parts[1].replicas is parts[1].isr


@pytest.mark.parametrize(
    "record",
    [
        TopicCreated("t", B),
        TopicCreated("other", A),
        PartitionCreated(A, 3, (1,), (1,), 1),
        PartitionCreated(A, 1, (1,), (1,), 1),
        ProducerIdsAllocated(1, 0),
        BrokerUnregistered(1, 7),
    ],
    ids=str,
)
def test_a_record_that_breaks_a_promise_is_a_bug(record: TopicCreated) -> None:
    with pytest.raises(AssertionError):
        apply(image_with_topic(), [record])
