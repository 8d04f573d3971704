"""What the tests of `bifrost.Consumer` share: messages to read, and consumers that are found out about soon."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import confluent_kafka

from bifrost import Consumer

PATIENCE_S = 60
SESSION: dict[str, dict[str, object]] = {
    "classic": {"session.timeout.ms": 3000, "heartbeat.interval.ms": 300},
    "consumer": {},
}
"""Sessions as short as the brokers of the tests allow; the newer protocol leaves that to the broker."""


def write(bootstrap: str, topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:
    """Write each value to the partition, in order."""
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "max.in.flight": 1})
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: error and failures.append(error), **more
        )
    producer.flush(PATIENCE_S)
    assert not failures


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def values(messages: Iterable[Any]) -> list[Any]:
    return [message.value for message in messages]


def read(consumer: Consumer, count: int) -> list[Any]:
    """The next so many messages; fails when they do not come."""
    messages = []
    for _ in range(count):
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{len(messages)} of {count} messages, then nothing: {consumer!r}"
        messages.append(message)
    return messages
