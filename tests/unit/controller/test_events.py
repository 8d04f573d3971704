"""Events follow from the log alone, have names that last, and leave nothing out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, create_one, topic_id

from bifrost.controller.core.config_changes import ConfigChange, ResourceChange, alter_configs
from bifrost.controller.core.events import KINDS, EventId, events_of
from bifrost.controller.core.heartbeats import Heartbeat, fence_broker, heartbeat
from bifrost.controller.core.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import (
    ASKED,
    DIED,
    LEFT,
    SILENT,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    Endpoint,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from bifrost.controller.core.topics import NewTopic
from bifrost.raft.metadata_log import EpochBegun
from bifrost.settings import Settings


def told(image: MetadataImage, *change: MetadataRecord) -> list[dict[str, Any]]:
    """Each event as a reader gets it, without its time."""
    events = events_of(image, change, offset=image.offset + 1, at_ms=5)
    plain = msgspec.json.decode(msgspec.json.encode([event for _, event in events]))
    assert all(one.pop("at_ms") == 5 for one in plain)
    return list(plain)


def orders(image: MetadataImage, partitions: int = 2) -> bytes:
    return create_one(image, NewTopic("orders", assignments=[(n, [0, 1, 2]) for n in range(partitions)])).topic_id


def test_events_are_named_by_offset_and_place_and_carry_the_time_of_the_log() -> None:
    image = cluster_of(0)
    events = events_of(image, [BrokerFenced(0), BrokerUnfenced(0)], offset=42, at_ms=7)
    assert [(str(event_id), event.at_ms) for event_id, event in events] == [("42.1", 7), ("42.2", 7)]
    assert EventId.parse("42.2") > EventId.parse("42.1") > EventId(42, 0) > EventId.parse("9.9")


@pytest.mark.parametrize("text", ["", "7", "7.", ".1", "-1.1", "1.x", "1.1.1", "٣.1", "9" * 20 + ".1"])
def test_no_other_text_is_an_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"OFFSET\.PLACE"):
        EventId.parse(text)


def test_a_new_controller() -> None:
    ((event_id, event),) = events_of(MetadataImage(), EpochBegun(101, 7), offset=3, at_ms=1)
    assert (event.kind, event.controller, event.epoch, event_id) == ("controller.changed", 101, 7, (3, 1))


def test_the_life_of_a_broker() -> None:
    image = cluster_of(0)
    where = (Endpoint("PLAINTEXT", "::1", 9092),)
    registered = {"kind": "broker.registered", "broker": 7, "endpoints": ["PLAINTEXT://[::1]:9092"]}
    assert told(image, BrokerRegistered(7, b"x" * 16, where, fenced=True)) == [{**registered, "fenced": True}]
    assert told(image, BrokerRegistered(7, b"x" * 16, where, fenced=False)) == [
        {**registered, "fenced": False},
        {"kind": "broker.joined", "broker": 7},
    ]
    assert told(image, BrokerUnfenced(0)) == [{"kind": "broker.joined", "broker": 0}]
    assert told(image, BrokerShuttingDown(0)) == [{"kind": "broker.leaving", "broker": 0}]
    assert told(image, BrokerUnregistered(0, 1)) == [{"kind": "broker.unregistered", "broker": 0}]


@pytest.mark.parametrize("leaving", [False, True])
def test_why_a_broker_is_fenced_is_in_its_record_and_nowhere_else(leaving: bool) -> None:
    image = cluster_of(0)
    apply(image, [BrokerShuttingDown(0)] * leaving)
    kinds = {SILENT: "broker.fenced", DIED: "broker.died", LEFT: "broker.left", ASKED: "broker.fenced"}
    for reason, kind in kinds.items():
        assert told(image, BrokerFenced(0, reason)) == [{"kind": kind, "broker": 0}]
    assert told(image, BrokerFenced(0, 99)) == [{"kind": "broker.fenced", "broker": 0}], "of a later version"
    assert told(image, BrokerFenced(0)) == [{"kind": "broker.left" if leaving else "broker.fenced", "broker": 0}]


def test_a_broker_that_leads_nothing_leaves_like_any_other() -> None:
    image = cluster_of(0, 1)
    asked = Heartbeat(broker_id=0, broker_epoch=image.brokers[0].epoch, metadata_offset=9, want_shut_down=True)
    assert told(image, *heartbeat(image, asked, {}).records) == [{"kind": "broker.left", "broker": 0}]


def test_a_broker_that_dies_while_it_leaves_has_died() -> None:
    image = cluster_of(0, 1)
    apply(image, [BrokerShuttingDown(0)])
    records = fence_broker(image, 0, image.brokers[0].epoch, DIED).records
    assert told(image, *records) == [{"kind": "broker.died", "broker": 0}]


def test_a_topic_is_one_event_with_the_leaders_of_all_its_partitions() -> None:
    image = cluster_of(0, 1)
    new = topic_id(9)
    change = [
        TopicCreated("new", new),
        ConfigChanged(TOPIC_RESOURCE, "new", "segment.bytes", "1048576"),
        PartitionCreated(new, 0, (0, 1), (0, 1), 0),
        PartitionCreated(new, 1, (1,), (1,), -1),
    ]
    created, config = told(image, *change)
    assert created == {"kind": "topic.created", "topic": "new", "topic_id": new.hex(), "leaders": [0, None]}
    assert config["kind"] == "config.changed"
    apply(image, change)
    assert told(image, PartitionCreated(new, 2, (0,), (0,), 0), PartitionCreated(new, 3, (1,), (1,), 1)) == [
        {"kind": "partitions.created", "topic": "new", "first_partition": 2, "leaders": [0, 1]}
    ]
    assert told(image, TopicDeleted(new)) == [{"kind": "topic.deleted", "topic": "new", "topic_id": new.hex()}]


def test_leaders_come_and_go_and_replicas_fall_out_of_step() -> None:
    image = cluster_of(0, 1, 2)
    where = {"topic": "orders", "partition": 1}
    topic = orders(image)
    elected = {"kind": "leader.elected", "leader": 1, "leader_before": 0, "leader_epoch": 1, "is_unclean": False}
    assert told(image, PartitionChanged(topic, 1, leader=1, isr=(1, 2))) == [
        {**elected, "isr": [1, 2], **where},
        {"kind": "isr.changed", "leader": 1, "isr": [1, 2], "isr_before": [0, 1, 2], **where},
    ]
    assert told(image, PartitionChanged(topic, 1, isr=(0,))) == [
        {"kind": "isr.changed", "leader": 0, "isr": [0], "isr_before": [0, 1, 2], **where}
    ]
    apply(image, [PartitionChanged(topic, 1, isr=(0,))])
    lost = {"kind": "leader.lost", "leader": None, "leader_before": 0, "leader_epoch": 1, "is_unclean": False}
    assert told(image, PartitionChanged(topic, 1, leader=-1)) == [{**lost, "isr": [0], **where}]
    unclean, _ = told(image, PartitionChanged(topic, 1, leader=2, isr=(2,)))
    assert unclean["is_unclean"] is True
    assert told(image, PartitionChanged(topic, 1, replicas=(0, 1))) == [
        {"kind": "replicas.changed", "replicas": [0, 1], **where}
    ]


def test_a_record_builds_on_those_before_it_in_the_same_change() -> None:
    image = cluster_of(0, 1, 2)
    topic = orders(image)
    first, second = told(image, PartitionChanged(topic, 0, leader=-1), PartitionChanged(topic, 0, leader=1))
    assert (first["leader_epoch"], second["leader_epoch"], second["leader_before"]) == (1, 2, None)
    new = topic_id(9)
    born = [TopicCreated("new", new), PartitionCreated(new, 0, (0,), (0,), 0), PartitionChanged(new, 0, leader=-1)]
    assert told(image, *born)[1]["leader_before"] == 0


def test_epochs_in_events_are_those_that_the_image_gets() -> None:
    image = cluster_of(0, 1, 2)
    orders(image)
    decision = fence_broker(image, 0, image.brokers[0].epoch)
    told_of = [event for _, event in events_of(image, list(decision.records), offset=99, at_ms=0)]
    events = [one for one in told_of if one.kind == "leader.elected"]
    apply(image, list(decision.records))
    partitions = image.topics["orders"].partitions
    assert len(events) >= 1
    for event in events:
        assert isinstance(event.partition, int)
        state = partitions[event.partition]
        assert (event.leader, event.leader_epoch, event.isr) == (state.leader, state.leader_epoch, state.isr)


def test_configs_are_told_and_secrets_are_not() -> None:
    image = cluster_of(0)
    orders_config = ResourceChange(TOPIC_RESOURCE, "t", [ConfigChange("segment.bytes", "2000000")])
    create_one(image, NewTopic("t", 1, 1))
    records = alter_configs(image, Settings(), [orders_config]).records
    assert told(image, *records) == [
        {"kind": "config.changed", "resource": "topic", "name": "t", "config": "segment.bytes", "value": "2000000"}
    ]
    (group,) = told(image, ConfigChanged(GROUP_RESOURCE, "g", "consumer.session.timeout.ms", "50000"))
    assert (group["resource"], group["name"]) == ("group", "g")
    (secret,) = told(image, ConfigChanged(BROKER_RESOURCE, "", "http.token", "hush"))
    assert (secret["resource"], secret["name"], secret["value"]) == ("broker", "", None)


def test_what_concerns_nobody_is_no_event_and_every_kind_is_explained() -> None:
    image = cluster_of(0)
    assert told(image, ProducerIdsAllocated(0, 1000)) == []
    assert told(MetadataImage(), ClusterCreated("c")) == [{"kind": "cluster.created", "cluster_id": "c"}]
    assert set(KINDS) >= {"cluster.created", "leader.lost", "broker.left"}
