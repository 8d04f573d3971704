"""Snapshots: what of an image is easily forgotten, and what a damaged one leads to."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import CLUSTER, apply, cluster_of, commit, create, registration, topic_id

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.producer_ids import allocate_producer_ids
from bifrost.controller.core.records import (
    BrokerShuttingDown,
    ConfigChanged,
    PartitionChanged,
    SnapshotEnded,
    TopicDeleted,
    UnreadableChangeError,
    decode_change,
    encode_change,
)
from bifrost.controller.core.snapshot import image_records, restore
from bifrost.controller.core.topics import NewTopic


def eventful() -> MetadataImage:
    """An image in which nothing has its default."""
    image = cluster_of(1, 2, 3)
    create(image, NewTopic("gone", 5), NewTopic("t", 2, 3), NewTopic("u", 1, 2, configs=[("retention.ms", "5")]))
    apply(image, [TopicDeleted(topic_id(100))])
    commit(image, allocate_producer_ids(image, broker_id=1, broker_epoch=1))
    commit(image, register_broker(image, registration(2, start=2, rack="r"), fenced=True))
    apply(image, [BrokerShuttingDown(3)])
    apply(image, [PartitionChanged(topic_id(101), 1, leader=1, isr=(1,))])
    apply(image, [ConfigChanged(TOPIC_RESOURCE, "t", "cleanup.policy", "compact")])
    return image


def test_what_is_restored_is_equal() -> None:
    image = eventful()
    stored = [encode_change(change) for change in image_records(image)]
    assert restore(map(decode_change, stored), image.offset) == image


def test_epochs_marks_and_counters_survive() -> None:
    image = restore(image_records(eventful()), eventful().offset)
    assert image.cluster_id == CLUSTER
    broker = image.brokers[2]
    assert (broker.epoch, broker.rack, broker.fenced) == (7, "r", True)
    assert (broker.epoch, image.brokers[3].shutdown_offset, image.brokers_changed_at) == (7, 8, 8)
    assert (image.topics["t"].changed_at, image.topics["u"].changed_at) == (9, 7)
    assert (image.next_producer_id, image.partitions_created, image.offset) == (1000, 8, 10)
    part = image.topics["t"].partitions[1]
    assert (part.leader_epoch, part.partition_epoch) == (1, 2)


def test_the_next_topic_is_placed_where_it_would_have_been() -> None:
    image = eventful()
    twin = restore(image_records(image), image.offset)
    for one in (image, twin):
        create(one, NewTopic("new", 3, 1))
    assert twin == image


def test_order_is_kept() -> None:
    image = cluster_of(2, 1)
    create(image, NewTopic("b"), NewTopic("a"))
    twin = restore(image_records(image), image.offset)
    assert (list(twin.brokers), list(twin.topics), list(twin.topics_by_id)) == (
        list(image.brokers),
        list(image.topics),
        list(image.topics_by_id),
    )


def test_changes_are_of_bounded_size() -> None:
    image = eventful()
    everything = [record for change in image_records(image) for record in change]
    for size in (1, 3, len(everything)):
        changes = list(image_records(image, records_max=size))
        assert [len(change) for change in changes[:-1]] == [size] * (len(changes) - 1)
        assert [record for change in changes for record in change] == everything
    assert isinstance(everything[-1], SnapshotEnded)


def test_a_delta_tells_of_all_that_was_restored() -> None:
    image = eventful()
    delta = Delta()
    restore(image_records(image), image.offset, delta)
    assert set(delta.topics_created) == set(image.topics_by_id)
    assert (len(delta.partitions), list(delta.brokers)) == (3, [1, 2, 3])


def test_an_empty_image_is_restored_too() -> None:
    assert restore(image_records(MetadataImage()), -1) == MetadataImage()


def test_a_snapshot_without_its_end_is_refused() -> None:
    changes = list(image_records(eventful(), records_max=1))
    for part in (changes[:-1], []):
        with pytest.raises(UnreadableChangeError, match="the snapshot has no end"):
            restore(part, 10)
