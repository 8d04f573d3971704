"""What a broker refuses, and how: too large, unknown, corrupt, out of range; as clients see it or on the wire."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.compat import batches, wire
from tests.compat.clients.base import Client, ClientError, Record
from tests.compat.conftest import BROKERS, FOREIGN, NewTopicFunction, StartBroker, make_client, unique_name
from tests.compat.servers import Server

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10


def produce_raw(bootstrap: str, topic: str, records: bytes, *, acks: int = -1, version: int = 11) -> dict[str, Any]:
    """One partition's answer to a hand-made batch."""
    partition = {"index": 0, "records": records}
    with wire.Wire(bootstrap) as connection:
        request = {"acks": acks, "timeout": 5000, "topic_data": [{"name": topic, "partition_data": [partition]}]}
        answer = connection.ask("produce", version, **request)
    (found,) = answer["responses"][0]["partition_responses"]
    return dict(found)


def test_a_message_over_the_topics_limit_is_refused(client: Client, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"max.message.bytes": "20000"})
    client.produce(topic, [Record(b"fits", partition=0)])
    with pytest.raises(ClientError) as refusal:
        client.produce(topic, [Record(b"x" * 30_000, partition=0)])
    if "error-codes" not in client.lacks:
        assert refusal.value.code == MESSAGE_TOO_LARGE
    assert client.offsets(topic, [0], -1) == {0: 1}


def test_the_size_limit_counts_the_compressed_batch(client: Client, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"max.message.bytes": "20000"})
    client.produce(topic, [Record(b"x" * 100_000, partition=0)], codec="gzip")
    assert [len(record.value or b"") for record in client.consume(topic, {0: 0}, 1)] == [100_000]


def test_producing_to_a_missing_topic_creates_it(client: Client) -> None:
    topic = unique_name("auto")
    client.produce(topic, [Record(b"v")])
    assert [record.value for record in client.consume(topic, {0: 0}, 1)] == [b"v"]


def test_reading_past_the_end_is_out_of_range(client: Client, new_topic: NewTopicFunction) -> None:
    """Every client here is told not to fall back to an end of the log by itself."""
    topic = new_topic()
    client.produce(topic, [Record(b"v", partition=0)])
    with pytest.raises(ClientError) as refusal:
        client.consume(topic, {0: 100}, 1)
    if "error-codes" not in client.lacks:
        # Java and librdkafka wrap it in an error of their own.
        assert refusal.value.code == OFFSET_OUT_OF_RANGE or "outofrange" in refusal.value.text.lower().replace(" ", "")


RECORD = Record(b"value", key=b"key", timestamp_ms=int(time.time() * 1000))


def test_a_batch_with_a_wrong_crc_is_corrupt(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    assert produce_raw(broker.bootstrap, topic, batches.encode([RECORD]))["error_code"] == "none"
    damaged = bytearray(batches.encode([RECORD]))
    damaged[-1] ^= 1
    refusal = produce_raw(broker.bootstrap, topic, bytes(damaged))
    assert refusal["error_code"] == "corrupt_message"
    assert refusal["base_offset"] == -1
    assert produce_raw(broker.bootstrap, topic, batches.encode([RECORD]))["base_offset"] == 1


def test_acks_none_with_a_corrupt_batch_closes_the_connection(broker: Server, new_topic: NewTopicFunction) -> None:
    """There is no answer in which to report the error."""
    topic = new_topic()
    partition = {"index": 0, "records": batches.encode([RECORD], crc=1)}
    with wire.Wire(broker.bootstrap) as connection:
        connection.send("produce", 9, acks=0, timeout=5000, topic_data=[{"name": topic, "partition_data": [partition]}])
        with pytest.raises(wire.ConnectionClosed):
            connection.receive_frame()


@pytest.mark.skipif(FOREIGN is not None, reason="the settings of a foreign broker are not ours")
@pytest.mark.parametrize("kind", BROKERS)
def test_without_auto_creation_a_missing_topic_stays_missing(kind: str, start_broker: StartBroker) -> None:
    """franz-go reports it at once; the other clients wait for the topic to appear until their own time-out."""
    server = start_broker(kind, auto_create_topics_enable="false")
    topic = unique_name()
    with wire.Wire(server.bootstrap) as connection:
        asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}
        for _ in range(2):
            (answer,) = connection.ask("metadata", 12, **asked)["topics"]
            assert answer["error_code"] == "unknown_topic_or_partition"
            assert answer["partitions"] == []
    with pytest.raises(ClientError) as refusal:
        make_client("franz-go", server.bootstrap).produce(topic, [Record(b"v")])
    assert refusal.value.code == UNKNOWN_TOPIC_OR_PARTITION
    wire.create_topic(server.bootstrap, topic)
    client = make_client("confluent", server.bootstrap)
    client.produce(topic, [Record(b"v", partition=0)])
    assert [record.value for record in client.consume(topic, {0: 0}, 1)] == [b"v"]
