"""What librdkafka writes to and reads from a topic: the other opinion on what Spark must have seen."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Seen(NamedTuple):
    """A record with the columns of Spark's Kafka source, and its headers."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...] | None


def produce(bootstrap: str, topic: str, records: list[dict[str, Any]], codec: str = "none") -> None:
    """Each record as the keywords of `Producer.produce`."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    failures: list[Any] = []
    for record in records:
        producer.produce(topic, on_delivery=lambda error, _: failures.append(error) if error else None, **record)
    producer.flush()
    assert not failures


def consume(bootstrap: str, topic: str) -> list[Seen]:
    """Every committed record of the topic, in the order of partitions and offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    seen: list[Seen] = []
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(30)
        assert message is not None, "librdkafka found nothing"
        if message.error():
            ended += 1
            continue
        kind, timestamp_ms = message.timestamp()
        headers = message.headers()
        offset, partition = message.offset(), message.partition()
        assert offset is not None
        assert partition is not None
        seen.append(
            Seen(
                message.key(),
                message.value(),
                topic,
                partition,
                offset,
                timestamp_ms,
                kind - 1,
                tuple(headers) if headers else None,
            )
        )
    consumer.close()
    return sorted(seen, key=lambda each: (each.partition, each.offset))


def from_rows(rows: list[Any]) -> list[Seen]:
    """Spark's rows of all columns, headers included."""
    seen = [
        Seen(
            _bytes(row.key),
            _bytes(row.value),
            row.topic,
            row.partition,
            row.offset,
            round(row.timestamp.replace(tzinfo=datetime.UTC).timestamp() * 1000),
            row.timestampType,
            None if row.headers is None else tuple((each.key, _bytes(each.value)) for each in row.headers),
        )
        for row in rows
    ]
    return sorted(seen, key=lambda each: (each.partition, each.offset))


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
