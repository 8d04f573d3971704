"""A consumer in a group, as small as the tests of the admin need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka

from tests.compat.clients.base import Record
from tests.compat.clients.confluent import Confluent

TIMEOUT_S = 30.0


def write(bootstrap: str, topic: str, counts: dict[int, int]) -> None:
    """So many records into each partition."""
    records = [Record(b"x", partition=partition) for partition, count in counts.items() for _ in range(count)]
    Confluent(bootstrap).produce(topic, records)


@contextmanager
def reading(
    bootstrap: str, group: str, topic: str, *, count: int, protocol: str = "classic", client_id: str = "tester"
) -> Iterator[None]:
    """A member that has read so many records and committed them, and stays in the group meanwhile."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        read = 0
        while read < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{read} of {count} records within {TIMEOUT_S} s"
            assert message.error() is None, message.error()
            read += 1
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


def leave_a_trace(bootstrap: str, group: str, topic: str, *, count: int, protocol: str = "classic") -> None:
    """A group that has committed and is empty now."""
    with reading(bootstrap, group, topic, count=count, protocol=protocol):
        pass
