"""What the image looks like from outside: the shapes of answers, and pure functions that fill them.

One set of types serves for the answers, for the description at `/openapi.json`, and for tests. Whatever could be long
comes in pages, so that no answer keeps the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest

import msgspec

from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import NO_LEADER
from bifrost.controller.core.state import Broker, Partition, Topic
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Kind
from bifrost.settings.broker import keys

Configs = dict[str, str | None]


class EndpointView(msgspec.Struct):
    listener: str
    host: str
    port: int
    protocol: str


class BrokerView(msgspec.Struct):
    broker: int
    status: str
    """alive, leaving (it gives its leaderships away before it stops) or fenced (it takes no part)."""
    epoch: int
    rack: str | None
    endpoints: list[EndpointView]


class BrokersView(msgspec.Struct):
    brokers: list[BrokerView]
    metadata_offset: int


class PartitionView(msgspec.Struct, omit_defaults=True):
    partition: int
    leader: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    waiting_for: str | None = None
    """Of a topic that is asked for by name, where there is no leader: what has to happen before there can be one."""


class TopicView(msgspec.Struct):
    topic: str
    topic_id: str
    internal: bool
    partitions: list[PartitionView]
    metadata_offset: int
    """In a list the offset of the last change of the topic; else of the state of the metadata in which it is so."""


class TopicsView(msgspec.Struct):
    topics: list[TopicView]
    next_after: str | None
    """Ask again with after=… for those behind; null: there are no more."""
    metadata_offset: int
    """This Odin has heard of everything up to there, and of nothing behind it."""


class ConfigsView(msgspec.Struct):
    """What was stored, by name. What a broker was started with is known to that broker alone."""

    every_broker: Configs
    brokers: dict[str, Configs]
    topics: dict[str, Configs]
    groups: dict[str, Configs]
    next_after: str | None
    metadata_offset: int


class ResourceConfigsView(msgspec.Struct):
    resource: str
    name: str
    configs: Configs
    metadata_offset: int


class LeaderView(msgspec.Struct):
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    host: str | None
    """Where it listens: at the listener that was asked for, or at its first."""
    port: int | None
    endpoints: list[EndpointView]
    """Everywhere it listens."""


class LeadersView(msgspec.Struct):
    leaders: list[LeaderView]
    metadata_offset: int


def broker_view(broker: Broker) -> BrokerView:
    status = "fenced" if broker.fenced else "leaving" if broker.shutting_down else "alive"
    return BrokerView(broker.broker_id, status, broker.epoch, broker.rack, endpoint_views(broker))


def endpoint_views(broker: Broker) -> list[EndpointView]:
    return [EndpointView(one.listener, one.host, one.port, one.protocol) for one in broker.endpoints]


def brokers_view(image: MetadataImage) -> BrokersView:
    return BrokersView([broker_view(one) for _, one in sorted(image.brokers.items())], image.offset)


def one_broker(image: MetadataImage, broker_id: int) -> BrokerView:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}")
    return broker_view(broker)


def topic_view(topic: Topic) -> TopicView:
    partitions = [_partition_view(number, one) for number, one in enumerate(topic.partitions)]
    return TopicView(topic.name, topic.topic_id.hex(), topic.is_internal, partitions, topic.changed_at)


def topics_page(image: MetadataImage, after: str, limit: int) -> TopicsView:
    names, next_after = names_after(image.topics, after, limit)
    return TopicsView([topic_view(image.topics[name]) for name in names], next_after, image.offset)


def configs_page(image: MetadataImage, after: str, limit: int) -> ConfigsView:
    stored: dict[int, dict[str, Mapping[str, str]]] = {TOPIC_RESOURCE: {}, GROUP_RESOURCE: {}, BROKER_RESOURCE: {}}
    for (kind, name), configs in image.configs.items():
        if configs and kind in stored:
            stored[kind][name] = configs
    all_topics, all_groups = stored[TOPIC_RESOURCE], stored[GROUP_RESOURCE]
    names, next_after = names_after(all_topics | all_groups, after, limit)
    brokers = {name: _shown(one) for name, one in sorted(stored[BROKER_RESOURCE].items())}
    every = brokers.pop(EVERY_BROKER, {})
    topics = {name: _shown(all_topics[name]) for name in names if name in all_topics}
    groups = {name: _shown(all_groups[name]) for name in names if name in all_groups}
    return ConfigsView(every, brokers, topics, groups, next_after, image.offset)


def topic_configs(image: MetadataImage, name: str) -> ResourceConfigsView:
    known_topic(image, name)
    return ResourceConfigsView("topic", name, _shown(image.topic_configs(name)), image.offset)


def broker_configs(image: MetadataImage, name: str) -> ResourceConfigsView:
    if name != EVERY_BROKER and name not in map(str, image.brokers):
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {name}")
    return ResourceConfigsView("broker", name, _shown(image.broker_configs(name)), image.offset)


def known_topic(image: MetadataImage, name: str) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    return topic


def names_after(names: Iterable[str], after: str, limit: int) -> tuple[list[str], str | None]:
    """A page of names in order, and what to ask for the next with."""
    found = nsmallest(limit + 1, (name for name in names if name > after))
    return found[:limit], found[limit - 1] if len(found) > limit else None


def _partition_view(number: int, partition: Partition) -> PartitionView:
    leader = None if partition.leader == NO_LEADER else partition.leader
    return PartitionView(
        number, leader, partition.leader_epoch, partition.partition_epoch, partition.replicas, partition.isr
    )


def _shown(configs: Mapping[str, str]) -> Configs:
    return {name: None if _is_secret(name) else value for name, value in sorted(configs.items())}


def _is_secret(name: str) -> bool:
    key = keys().get(name)
    return key is not None and key.kind is Kind.PASSWORD
