"""Which partitions a broker leads and is in sync for: found without looking at the others."""

from __future__ import annotations

from tests.unit.controller.stand_ins import apply, cluster_of, topic_id

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partition_index import partitions_of
from bifrost.controller.core.records import (
    NO_LEADER,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)

A, B = topic_id(1), topic_id(2)


def image_with_topics() -> MetadataImage:
    image = cluster_of(1, 2)
    apply(image, [TopicCreated("t", A), PartitionCreated(A, 0, (1, 2), (1, 2), 1)])
    apply(image, [PartitionCreated(A, 1, (2, 1), (1,), 1), PartitionCreated(A, 2, (2, 1), (2, 1), 2)])
    apply(image, [TopicCreated("u", B), PartitionCreated(B, 0, (1,), (1,), NO_LEADER)])
    return image


def test_bits_are_numbered_from_the_lowest() -> None:
    assert list(partitions_of(0)) == []
    assert list(partitions_of(1 << 300 | 0b1011)) == [0, 1, 3, 300]


def test_new_partitions_are_found_by_leader_and_by_member_of_the_isr() -> None:
    index = image_with_topics().index
    assert (index.led(1), index.led(2), index.led(NO_LEADER)) == ({A: 0b011}, {A: 0b100}, {B: 0b1})
    assert (index.in_sync(1), index.in_sync(2)) == ({A: 0b111, B: 0b1}, {A: 0b101})
    assert (index.led(9), index.in_sync(9), index.not_led(9)) == ({}, {}, {})


def test_partitions_that_the_first_replica_does_not_lead_are_found_by_it() -> None:
    image = image_with_topics()
    assert (image.index.not_led(1), image.index.not_led(2)) == ({B: 0b1}, {A: 0b010})
    assert image.index.preferred == {1: 2, 2: 2}
    apply(image, [PartitionChanged(A, 1, leader=2, isr=(1, 2)), PartitionChanged(A, 0, leader=2)])
    assert (image.index.not_led(1), image.index.not_led(2)) == ({A: 0b1, B: 0b1}, {})


def test_a_change_moves_a_partition_from_one_to_the_other() -> None:
    image = image_with_topics()
    apply(image, [PartitionChanged(A, 0, leader=2, isr=(2,))])
    assert (image.index.led(1), image.index.led(2)) == ({A: 0b010}, {A: 0b101})
    assert (image.index.in_sync(1), image.index.in_sync(2)) == ({A: 0b110, B: 0b1}, {A: 0b101})


def test_another_first_replica_is_preferred_from_then_on() -> None:
    image = image_with_topics()
    apply(image, [PartitionChanged(A, 0, replicas=(2, 1)), PartitionChanged(B, 0, replicas=(2,))])
    assert image.index.preferred == {2: 4}
    assert (image.index.not_led(1), image.index.not_led(2)) == ({}, {A: 0b011, B: 0b1})


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    image = image_with_topics()
    apply(image, [TopicDeleted(A), TopicDeleted(B)])
    assert image.index == cluster_of(1, 2).index


def test_partitions_are_located_in_the_order_of_ids_however_they_came_about() -> None:
    image = cluster_of(1)
    apply(image, [TopicCreated("u", B), PartitionCreated(B, 0, (1,), (1,), 1), PartitionCreated(B, 1, (1,), (1,), 1)])
    apply(image, [TopicCreated("t", A), PartitionCreated(A, 0, (1,), (1,), 1)])
    found = list(image.locate(image.index.led(1)))
    assert [(one.topic.name, one.partition) for one in found] == [("t", 0), ("u", 0), ("u", 1)]
    assert found[0].state is image.partition("t", 0)


def test_the_index_of_a_copy_changes_on_its_own() -> None:
    image = image_with_topics()
    twin = image.copy()
    assert twin.index == image.index
    apply(twin, [PartitionChanged(A, 0, leader=2)])
    assert (image.index.led(2), twin.index.led(2)) == ({A: 0b100}, {A: 0b101})
    assert twin.index != image.index
