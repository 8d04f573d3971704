"""Clients that we did not write hear that they are throttled, and slow down to what they may use."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from bifrost.testing import Cluster
from tests.integration.quotas import KILOBYTE, WINDOW_S, Limit, cluster, limit
from tests.waiting import PATIENCE_S, eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its schemas in a way that Python 3.11 has deprecated
    from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]

assert all((cluster, limit)), "fixtures"
pytestmark = pytest.mark.xdist_group("quotas")


def test_librdkafka_is_told(cluster: Cluster, topic: Callable[..., str], limit: Limit) -> None:
    name, rate = topic(), 100 * KILOBYTE
    client_id = limit(producer_byte_rate=rate, consumer_byte_rate=rate)
    told: list[float] = []
    common = {"bootstrap.servers": cluster.bootstrap, "client.id": client_id}
    producer = Producer({**common, "throttle_cb": lambda event: told.append(event.throttle_time), "linger.ms": 0})
    for _ in range(40):
        producer.produce(name, b"x" * 10 * KILOBYTE)
    assert producer.flush(PATIENCE_S) == 0
    sent_s = 40 * 10 * KILOBYTE / rate
    assert sent_s - WINDOW_S - 1 <= sum(told) <= sent_s + WINDOW_S + 1
    waits: list[int] = []

    def on_stats(text: str) -> None:
        waits.extend(broker["throttle"]["max"] for broker in json.loads(text)["brokers"].values())

    settings = {"group.id": client_id, "auto.offset.reset": "earliest", "statistics.interval.ms": 100}
    consumer = Consumer({**common, **settings, "stats_cb": on_stats})
    consumer.subscribe([name])
    seen: list[object] = []

    def all_seen() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            seen.append(message)
        return len(seen) == 40 and max(waits, default=0) > 0

    try:
        eventually(all_seen, "all records are read, and the statistics tell of waits")
    finally:
        consumer.close()


def longest_wait_ms(client: Any) -> float:
    """In any of the groups of its metrics: of the client as a whole, and of each of its nodes."""
    return max(group.get("throttle-time-max", 0.0) for group in client.metrics().values())


def test_kafka_python_is_told(cluster: Cluster, topic: Callable[..., str], limit: Limit) -> None:
    name, rate = topic(), 100 * KILOBYTE
    client_id = limit(producer_byte_rate=rate, consumer_byte_rate=rate)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, client_id=client_id, acks="all")
    for _ in range(30):
        producer.send(name, b"x" * 10 * KILOBYTE)
    producer.flush(PATIENCE_S)
    assert longest_wait_ms(producer) > 0
    producer.close()
    consumer = KafkaConsumer(
        name, bootstrap_servers=cluster.bootstrap, client_id=client_id, auto_offset_reset="earliest"
    )
    seen: list[object] = []

    def all_seen() -> bool:
        seen.extend(record for records in consumer.poll(500).values() for record in records)
        return len(seen) >= 30

    eventually(all_seen, "all records are read")
    assert longest_wait_ms(consumer) > 0
    consumer.close()
