"""For any run of commands: deciding changes nothing, and the log alone rebuilds what the live image became."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.config_changes import ConfigChange, ResourceChange, alter_configs
from bifrost.controller.core.configs import current_settings
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partitions import MorePartitions, create_partitions
from bifrost.controller.core.producer_ids import allocate_producer_ids
from bifrost.controller.core.records import (
    BrokerFenced,
    BrokerUnfenced,
    PartitionChanged,
    decode_change,
    encode_change,
)
from bifrost.controller.core.state import Partition
from bifrost.controller.core.topics import NewTopic, TopicRef, create_topics, delete_topics
from bifrost.errors import ApiError
from bifrost.settings import Settings, TopicConfig
from tests.unit.controller.stand_ins import CLUSTER, registration, topic_id

SETTINGS = Settings(num_partitions=2, default_replication_factor=1)
ALL_NAMES = ["a", "b", "c.d", "c_d", "bad name"]
NAMES = st.sampled_from(ALL_NAMES)
BROKERS = st.integers(0, 3)  # 0 to 2 are there from the start
COUNTS = st.sampled_from([1, 2, 3, -1, 1, 2, 3, 1, 2, 3, 0, 4, -2])
GOOD_CONFIGS = [("retention.ms", "1"), ("segment.bytes", "2000000"), ("cleanup.policy", "compact")]
BAD_CONFIGS = [("nope", "1"), ("preallocate", None)]
CONFIGS = st.sampled_from([[], [], *([one] for one in [*GOOD_CONFIGS, *BAD_CONFIGS])])
REPLICAS = st.permutations(range(3)).map(lambda order: order[:2]) | st.lists(BROKERS, max_size=3)
PLACED = st.builds(NewTopic, NAMES, COUNTS, COUNTS, st.just(()), CONFIGS)
ASSIGNED = st.builds(
    lambda name, replicas, configs: NewTopic(name, assignments=list(enumerate(replicas)), configs=configs),
    NAMES,
    st.lists(REPLICAS, min_size=1, max_size=3),
    CONFIGS,
)
NEW_TOPICS = st.lists(st.one_of(PLACED, PLACED, ASSIGNED), min_size=1, max_size=4, unique_by=lambda topic: topic.name)
REFS = st.lists(
    NAMES.map(TopicRef) | st.integers(0, 99).map(lambda number: TopicRef(None, topic_id(number))),
    min_size=1,
    max_size=3,
)
MORE = st.lists(
    st.builds(MorePartitions, NAMES, COUNTS, st.none() | st.lists(REPLICAS, max_size=3)), min_size=1, max_size=3
)
RESOURCES = NAMES.map(lambda name: (2, name)) | st.sampled_from([(4, ""), (4, "1"), (4, "2"), (32, "g")])
CONFIG_CHANGES = st.builds(
    ConfigChange,
    st.sampled_from(["cleanup.policy", "retention.ms", "message.max.bytes", "log.cleanup.policy", "nope"]),
    st.sampled_from(["7", "8", "compact", "delete", "compact,delete", "", None]),
    st.integers(0, 4),
)
ALTERATIONS = st.lists(
    st.builds(
        lambda resource, changes: ResourceChange(*resource, changes), RESOURCES, st.lists(CONFIG_CHANGES, max_size=3)
    ),
    min_size=1,
    max_size=3,
)

# A command is what to decide and a number that nobody else has, from which fresh ids are made.
Command = Callable[[MetadataImage, int], Decision[Any]]
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.tuples(NEW_TOPICS, st.sampled_from([False, False, False, True])).map(
        lambda it: (
            lambda image, fresh: create_topics(
                image,
                SETTINGS,
                it[0],
                topic_ids=[topic_id(1 + 4 * fresh + number) for number in range(len(it[0]))],
                validate_only=it[1],
            )
        )
    ),
    REFS.map(lambda refs: lambda image, _: delete_topics(image, SETTINGS, refs)),
    MORE.map(lambda more: lambda image, _: create_partitions(image, more)),
    BROKERS.map(lambda broker: lambda image, fresh: register_broker(image, registration(broker, start=fresh))),
    st.tuples(BROKERS, st.integers(0, 9)).map(
        lambda it: lambda image, _: allocate_producer_ids(image, broker_id=it[0], broker_epoch=it[1])
    ),
    st.tuples(ALTERATIONS, st.booleans(), st.sampled_from([False, False, False, True])).map(
        lambda it: (
            lambda image, _: alter_configs(
                image, SETTINGS, it[0], broker_id=SETTINGS.node_id, replace=it[1], validate_only=it[2]
            )
        )
    ),
    # What later decisions will record, straight into the log: the image has to cope with it today.
    st.tuples(BROKERS, st.booleans()).map(lambda it: lambda image, _: _fence(image, *it)),
    st.tuples(NAMES, st.integers(0, 3), st.lists(BROKERS, max_size=3)).map(
        lambda it: lambda image, _: _change_isr(image, *it)
    ),
)


BOOT: list[Command] = [
    lambda image, _: open_cluster(image, CLUSTER),
    *(lambda image, _, broker=broker: register_broker(image, registration(broker)) for broker in range(3)),
]


def _fence(image: MetadataImage, broker_id: int, fence: bool) -> Decision[None]:
    if broker_id not in image.brokers:
        return Decision((), None)
    return Decision([BrokerFenced(broker_id) if fence else BrokerUnfenced(broker_id)], None)


def _change_isr(image: MetadataImage, name: str, index: int, members: list[int]) -> Decision[None]:
    part = image.partition(name, index)
    if part is None:
        return Decision((), None)
    isr = tuple(broker for broker in part.replicas if broker in members)
    leader = isr[0] if isr else -1
    return Decision([PartitionChanged(image.topics[name].topic_id, index, leader=leader, isr=isr or part.isr)], None)


def check(image: MetadataImage) -> None:
    """What holds of every image."""
    assert {topic.topic_id: topic for topic in image.topics.values()} == image.topics_by_id
    collisions = {name.replace(".", "_"): name for name in image.topics}
    assert len(collisions) == len(image.topics)
    assert all(image.colliding_topic(name) == collisions.get(name.replace(".", "_")) for name in ALL_NAMES)
    check_configs(image)
    check_index(image)
    for topic in image.topics.values():
        assert topic.partitions, f"{topic.name} has no partitions"
        assert len({len(part.replicas) for part in topic.partitions}) == 1
        for part in topic.partitions:
            assert set(part.isr) <= set(part.replicas)
            assert part.isr, "an ISR is never empty: its last member may come back"
            assert part.leader == -1 or part.leader in part.isr
            assert len(set(part.replicas)) == len(part.replicas)
            assert part.leader_epoch <= part.partition_epoch


def check_index(image: MetadataImage) -> None:
    """The index says what a look at every partition says."""
    everywhere = [*_partitions(image).items()]
    for broker in [-1, *range(4)]:
        expected: tuple[set[tuple[bytes, int]], ...] = (
            {key for key, part in everywhere if part.leader == broker},
            {key for key, part in everywhere if broker in part.isr},
            {key for key, part in everywhere if broker == part.replicas[0] != part.leader},
        )
        index = image.index
        for bits, keys in zip((index.led(broker), index.in_sync(broker), index.not_led(broker)), expected, strict=True):
            assert [(one.topic.topic_id, one.partition) for one in image.locate(bits)] == sorted(keys)
        assert index.preferred.get(broker, 0) == sum(part.replicas[0] == broker for _, part in everywhere)
    assert 0 not in index.preferred.values()


def check_configs(image: MetadataImage) -> None:
    """Whatever is stored belongs to somebody, says something, and can be read."""
    now = TopicConfig.of(current_settings(image, SETTINGS))
    for (kind, name), configs in image.configs.items():
        assert configs
        if kind == 2:
            assert name in image.topics
            now.override(configs)
        else:
            assert (kind, name) in ((4, ""), (4, str(SETTINGS.node_id)))
            assert configs.keys() <= {"message.max.bytes", "log.cleanup.policy"}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(COMMANDS, min_size=10, max_size=40))
def test_replay_rebuilds_the_live_image(commands: list[Command]) -> None:
    live = MetadataImage()
    log: list[bytes] = []
    for fresh, command in enumerate(BOOT + commands, 1):
        before = live.copy()
        try:
            decision = command(live, fresh)
        except ApiError:
            decision = Decision((), None)
        assert live == before, "deciding changed the image"
        if decision.records:
            log.append(encode_change(decision.records))
            delta = Delta()
            for record in decision.records:
                live.apply(record, len(log) - 1, delta)
            check(live)
            check_delta(before, live, delta)

    replayed = MetadataImage()
    everything = Delta()
    for offset, value in enumerate(log):
        for record in decode_change(value):
            replayed.apply(record, offset, everything)
    assert replayed == live
    assert live.copy() == live
    check_delta(MetadataImage(), replayed, everything)


def check_delta(before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
    """A delta names exactly what differs between two images."""
    assert set(delta.topics_created) == after.topics_by_id.keys() - before.topics_by_id.keys()
    assert set(delta.topics_deleted) == before.topics_by_id.keys() - after.topics_by_id.keys()
    old, new = _partitions(before), _partitions(after)
    differing = {key for key, part in new.items() if old.get(key) != part}
    assert set(delta.partitions) == differing
    for key, change in delta.partitions.items():
        assert (change.before, change.after) == (old.get(key), new[key])
        if change.before is not None:
            assert change.after.partition_epoch > change.before.partition_epoch
            assert change.after.leader_epoch >= change.before.leader_epoch
            if change.after.leader != change.before.leader:
                assert change.after.leader_epoch > change.before.leader_epoch
    differing_brokers = {one for one, broker in after.brokers.items() if before.brokers.get(one) != broker}
    assert differing_brokers <= set(delta.brokers)


def _partitions(image: MetadataImage) -> dict[tuple[bytes, int], Partition]:
    return {
        (topic.topic_id, index): part for topic in image.topics.values() for index, part in enumerate(topic.partitions)
    }
