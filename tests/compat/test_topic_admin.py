"""Topics are created, grown, described and deleted through the admin clients of six libraries, errors included."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat import wire
from tests.compat.clients.base import AdminClient, ClientError, NewTopic, PartitionInfo, Record
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.servers import Server
from tests.waiting import eventually

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40


def partitions_of(admin: AdminClient, topic: str) -> int:
    try:
        return len(admin.describe_topic(topic))
    except ClientError as error:
        if error.code != UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return 0


@pytest.fixture
def node(admin: AdminClient) -> int:
    """The id of the only broker."""
    ((broker_id, _, _),) = admin.describe_cluster().brokers
    return broker_id


def test_create_with_configs_then_use(admin: AdminClient) -> None:
    topic = unique_name()
    admin.create_topic(NewTopic(topic, partitions=3, configs={"max.message.bytes": "2000000", "retention.ms": "-1"}))
    eventually(lambda: partitions_of(admin, topic) == 3, "three partitions")
    configs = admin.describe_topic_configs(topic)
    assert configs["max.message.bytes"] == "2000000"
    assert configs["retention.ms"] == "-1"
    admin.produce(topic, [Record(b"v", partition=2)])
    assert [record.value for record in admin.consume(topic, {2: 0}, 1)] == [b"v"]


def test_create_with_replica_assignment(admin: AdminClient, node: int) -> None:
    topic = unique_name()
    admin.create_topic(NewTopic(topic, assignment={0: [node], 1: [node]}))
    eventually(lambda: partitions_of(admin, topic) == 2, "two partitions")
    assert admin.describe_topic(topic) == tuple(PartitionInfo(p, node, (node,), (node,)) for p in (0, 1))


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    topic = unique_name()
    admin.create_topic(NewTopic(topic), validate_only=True)
    assert topic not in admin.list_topics()


def test_list_and_delete(admin: AdminClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    assert topic in admin.list_topics()
    admin.delete_topic(topic)
    eventually(lambda: topic not in admin.list_topics(), "the topic is gone")


def test_a_deleted_name_starts_afresh(admin: AdminClient, new_topic: NewTopicFunction, broker: Server) -> None:
    topic = new_topic(2)
    admin.produce(topic, [Record(b"old", partition=0)])
    admin.delete_topic(topic)
    eventually(lambda: topic not in admin.list_topics(), "the topic is gone")
    admin.create_topic(NewTopic(topic, partitions=1))
    with wire.Wire(broker.bootstrap) as connection:
        wire.wait_for_leaders(connection, topic, 1)
    assert admin.offsets(topic, [0], -1) == {0: 0}
    admin.produce(topic, [Record(b"new", partition=0)])
    assert [record.value for record in admin.consume(topic, {0: 0}, 1)] == [b"new"]


def test_add_partitions(admin: AdminClient, new_topic: NewTopicFunction, node: int) -> None:
    topic = new_topic(1)
    admin.create_partitions(topic, 3)
    eventually(lambda: partitions_of(admin, topic) == 3, "three partitions")
    admin.create_partitions(topic, 4, [[node]])
    eventually(lambda: partitions_of(admin, topic) == 4, "four partitions")
    admin.produce(topic, [Record(b"v", partition=3)])
    assert [record.partition for record in admin.consume(topic, {3: 0}, 1)] == [3]


def test_describe_cluster(admin: AdminClient, broker: Server) -> None:
    about = admin.describe_cluster()
    ((node_id, host, port),) = about.brokers
    assert f"{host}:{port}" == broker.bootstrap
    assert about.cluster_id
    assert about.controller == node_id


def test_describe_broker_and_topic_configs(admin: AdminClient, new_topic: NewTopicFunction, node: int) -> None:
    """A handful of names that tools look for, with Kafka's defaults as text."""
    topic = new_topic(1, {"cleanup.policy": "compact"})
    configs = admin.describe_topic_configs(topic)
    wanted = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "max.message.bytes": "1048588",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "unclean.leader.election.enable": "false",
    }
    assert {name: configs[name] for name in wanted} == wanted
    about_broker = admin.describe_broker_configs(node)
    assert about_broker["num.partitions"] == "1"
    assert about_broker["auto.create.topics.enable"] == "true"
    assert about_broker["message.max.bytes"] == "1048588"


def _refused(code: int, call: Callable[[], None]) -> None:
    with pytest.raises(ClientError) as refusal:
        call()
    assert refusal.value.code == code, refusal.value


def test_creating_an_existing_topic_is_refused(admin: AdminClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    _refused(TOPIC_ALREADY_EXISTS, lambda: admin.create_topic(NewTopic(topic)))


@pytest.mark.parametrize("name", ["with space", "..", "a/b", "x" * 250])
def test_invalid_names_are_refused(name: str, admin: AdminClient) -> None:
    _refused(INVALID_TOPIC_EXCEPTION, lambda: admin.create_topic(NewTopic(name)))


def test_names_that_collide_in_metrics_are_refused(admin: AdminClient) -> None:
    """`.` and `_` are the same in Kafka's metric names."""
    stem = unique_name()
    admin.create_topic(NewTopic(f"{stem}.a"))
    _refused(INVALID_TOPIC_EXCEPTION, lambda: admin.create_topic(NewTopic(f"{stem}_a")))


def test_impossible_topics_are_refused(admin: AdminClient, node: int) -> None:
    name = unique_name()
    _refused(INVALID_PARTITIONS, lambda: admin.create_topic(NewTopic(name, partitions=0)))
    _refused(INVALID_REPLICATION_FACTOR, lambda: admin.create_topic(NewTopic(name, replication_factor=2)))
    _refused(INVALID_REPLICATION_FACTOR, lambda: admin.create_topic(NewTopic(name, replication_factor=0)))
    _refused(INVALID_REPLICA_ASSIGNMENT, lambda: admin.create_topic(NewTopic(name, assignment={0: [node + 7]})))
    if admin.name != "confluent":  # its assignment is a list and cannot leave a partition out
        gap = {0: [node], 2: [node]}
        _refused(INVALID_REPLICA_ASSIGNMENT, lambda: admin.create_topic(NewTopic(name, assignment=gap)))
    _refused(INVALID_CONFIG, lambda: admin.create_topic(NewTopic(name, configs={"no.such.config": "1"})))
    _refused(INVALID_CONFIG, lambda: admin.create_topic(NewTopic(name, configs={"retention.ms": "soon"})))
    assert name not in admin.list_topics()


def test_impossible_growth_is_refused(admin: AdminClient, new_topic: NewTopicFunction, node: int) -> None:
    topic = new_topic(2)
    _refused(INVALID_PARTITIONS, lambda: admin.create_partitions(topic, 2))
    _refused(INVALID_PARTITIONS, lambda: admin.create_partitions(topic, 1))
    _refused(INVALID_REPLICA_ASSIGNMENT, lambda: admin.create_partitions(topic, 3, [[node + 7]]))
    _refused(INVALID_REPLICA_ASSIGNMENT, lambda: admin.create_partitions(topic, 4, [[node]]))


def test_what_is_not_there_is_an_unknown_topic(admin: AdminClient) -> None:
    topic = unique_name()
    _refused(UNKNOWN_TOPIC_OR_PARTITION, lambda: admin.create_partitions(topic, 2))
    _refused(UNKNOWN_TOPIC_OR_PARTITION, lambda: admin.delete_topic(topic))
