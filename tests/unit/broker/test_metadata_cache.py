"""Metadata is encoded once per change: kept while nothing changed, made anew when a topic or a broker did."""

from __future__ import annotations

import pytest

from bifrost.broker.metadata_cache import MetadataCache
from bifrost.controller.core.brokers import Registration, register_broker
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import (
    BrokerFenced,
    BrokerUnfenced,
    BrokerUnregistered,
    Endpoint,
    PartitionChanged,
    PartitionCreated,
)
from bifrost.controller.core.topics import NewTopic
from bifrost.errors import ErrorCode
from bifrost.types import NodeId
from tests.unit.controller.stand_ins import CLUSTER, apply, cluster_of, commit, create_one, registration, topic_id

VERSION = 12


def known() -> tuple[MetadataImage, MetadataCache]:
    image = cluster_of(1, 2)
    create_one(image, NewTopic("orders", 2, 2))
    create_one(image, NewTopic("clicks", 1, 1))
    return image, MetadataCache(image, NodeId(1), lambda: 0.0)


def encoded(cache: MetadataCache, image: MetadataImage, name: str = "orders", version: int = VERSION) -> bytes:
    return cache.encoded_topic(image.topics[name], version)


def test_what_did_not_change_is_not_encoded_again() -> None:
    image, cache = known()
    assert encoded(cache, image) is encoded(cache, image)


def test_each_version_is_kept_on_its_own() -> None:
    image, cache = known()
    kept = {version: encoded(cache, image, version=version) for version in range(14)}
    assert all(encoded(cache, image, version=version) is kept[version] for version in range(14))
    assert len(set(kept.values())) > 4


@pytest.mark.parametrize(
    "change",
    [
        PartitionChanged(topic_id(100), 0, leader=2),
        PartitionChanged(topic_id(100), 1, isr=(1,)),
        PartitionCreated(topic_id(100), 2, (1,), (1,), 1),
        BrokerFenced(2),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_change_of_the_topic_or_of_a_broker_is_seen_at_once(change) -> None:  # type: ignore[no-untyped-def]
    image, cache = known()
    before = encoded(cache, image)
    apply(image, [change])
    assert encoded(cache, image) != before


def test_a_change_of_another_topic_costs_nothing() -> None:
    image, cache = known()
    before = encoded(cache, image)
    apply(image, [PartitionChanged(topic_id(101), 0, leader=-1)])
    assert encoded(cache, image) is before


def test_a_broker_that_starts_again_is_seen_at_once() -> None:
    image, cache = known()
    apply(image, [BrokerFenced(2)])
    before = encoded(cache, image)
    commit(image, register_broker(image, registration(2, start=2)))
    assert encoded(cache, image) != before


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    image, cache = known()
    for version in range(14):
        encoded(cache, image, version=version)
    other = encoded(cache, image, "clicks")
    cache.forget(topic_id(100))
    assert len(cache._encoded) == 1
    assert encoded(cache, image, "clicks") is other


def test_partitions_say_who_leads_them_and_who_is_away() -> None:
    image, cache = known()
    apply(image, [PartitionChanged(topic_id(100), 0, leader=-1), BrokerFenced(2)])
    first, second = cache.partitions(image.topics["orders"])
    assert (first.error_code, first.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert second.error_code == ErrorCode.NONE
    assert list(first.offline_replicas) == [2]


def test_ids_lead_to_names() -> None:
    _, cache = known()
    assert cache.topic_name(topic_id(100)) == "orders"
    assert cache.topic_name(topic_id(999)) is None


def test_clients_of_a_listener_are_told_the_addresses_of_that_listener() -> None:
    image = cluster_of()
    for broker_id in (1, 2):
        endpoints = [Endpoint("INSIDE", f"10.0.0.{broker_id}", 9092)]
        if broker_id == 1:
            endpoints.append(Endpoint("OUTSIDE", "example.org", 443))
        asked = Registration(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation=topic_id(broker_id),
            endpoints=tuple(endpoints),
            rack=f"rack-{broker_id}",
        )
        commit(image, register_broker(image, asked))
    cache = MetadataCache(image, NodeId(1), lambda: 0.0)
    assert [(one.node_id, one.host, one.port, one.rack) for one in cache.brokers("INSIDE")] == [
        (1, "10.0.0.1", 9092, "rack-1"),
        (2, "10.0.0.2", 9092, "rack-2"),
    ]
    assert [(one.node_id, one.host) for one in cache.brokers("OUTSIDE")] == [(1, "example.org")]


def test_brokers_that_are_fenced_are_not_named() -> None:
    image, cache = known()
    apply(image, [BrokerFenced(2)])
    assert [one.node_id for one in cache.brokers("PLAINTEXT")] == [1]


def test_who_died_is_listed_a_little_longer_for_clients_that_are_just_moving_away() -> None:
    now = 0.0
    image = cluster_of(1, 2, 3)
    cache = MetadataCache(image, NodeId(1), lambda: now)

    def listed() -> list[int]:
        return [one.node_id for one in cache.listed_brokers("PLAINTEXT")]

    def change(record: BrokerFenced | BrokerUnfenced | BrokerUnregistered) -> None:
        apply(image, [record])
        cache.note_brokers()

    change(BrokerFenced(2))
    now = 4.0
    change(BrokerFenced(3))
    assert listed() == [1, 2, 3]
    assert [one.node_id for one in cache.brokers("PLAINTEXT")] == [1]
    now = 5.0
    assert listed() == [1, 3], "for five seconds"
    change(BrokerUnregistered(3, image.brokers[3].epoch))
    assert listed() == [1], "it does not belong to the cluster any more"
    change(BrokerUnfenced(2))
    assert listed() == [1, 2]
    change(BrokerFenced(2))
    now = 9.0
    assert listed() == [1, 2], "counted from its last death"
