"""The wire client as Spark's workers use it: kept for long, while topics go and come, and with commits for a group."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from bifrost.client.wire import WireClient
from tests.compat import wire
from tests.compat.clients.base import Record as NewRecord
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.servers import Server
from tests.waiting import eventually


def test_a_topic_that_was_made_anew_between_two_reads(broker: Server, new_topic: NewTopicFunction) -> None:
    """What the client knows of it is of the old one: that must not end a read that has just begun."""
    topic = new_topic()
    other = Confluent(broker.bootstrap)
    other.produce(topic, [NewRecord(b"old")])
    with WireClient(broker.bootstrap) as client:
        assert [fetched.next_offset for fetched in client.fetch(topic, 0, 0, 1)] == [1]
        other.delete_topic(topic)
        eventually(lambda: topic not in client.topics())
        wire.create_topic(broker.bootstrap, topic)
        other.produce(topic, [NewRecord(b"new")])
        (fetched,) = client.fetch(topic, 0, 0, 1)
        assert b"new" in bytes(fetched.data)


def test_a_partition_that_was_added_between_two_reads(broker: Server, new_topic: NewTopicFunction) -> None:
    """What the client knows of the topic is older: it has to ask again before it misses the partition."""
    topic = new_topic()
    other = Confluent(broker.bootstrap)
    other.produce(topic, [NewRecord(b"old")])
    with WireClient(broker.bootstrap) as client:
        assert [fetched.next_offset for fetched in client.fetch(topic, 0, 0, 1)] == [1]
        other.create_partitions(topic, 2)
        eventually(lambda: len(other.describe_topic(topic)) == 2)
        other.produce(topic, [NewRecord(b"new", partition=1)])
        (fetched,) = client.fetch(topic, 1, 0, 1)
        assert b"new" in bytes(fetched.data)


def test_a_group_is_told_by_a_client_that_has_asked_nothing_before(broker: Server, new_topic: NewTopicFunction) -> None:
    topic, group = new_topic(2), unique_name("group")
    for offset in (3, 5):
        with WireClient(broker.bootstrap) as client:
            client.commit_offsets(group, {(topic, 0): offset, (topic, 1): offset + 1})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=30)
    consumer.close()
    assert [each.offset for each in committed] == [5, 6]
