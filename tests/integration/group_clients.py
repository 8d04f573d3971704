"""Consumers of three libraries behind one face: subscribe, read, commit, close."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaError

with warnings.catch_warnings():
    # It loads its message definitions through importlib.resources.read_text, which Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer  # type: ignore[import-untyped]

PATIENCE_S = 40.0
Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


class GroupConsumer(Protocol):
    """A member of a group."""

    def read(self, count: int) -> list[Place]:
        """So many records, as they come."""
        ...

    def poll(self) -> list[Place]:
        """What is there, which may be nothing."""
        ...

    def commit(self) -> None:
        """What was read, and wait for the answer."""
        ...

    def close(self) -> None: ...


class _Reading:
    def poll(self) -> list[Place]:
        raise NotImplementedError

    def read(self, count: int) -> list[Place]:
        found: list[Place] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            found += self.poll()
        return found


class ConfluentConsumer(_Reading):
    """librdkafka, with either protocol."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], protocol: str = "classic") -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
            "log_level": 0,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
        self._consumer = Consumer(settings)
        self._consumer.subscribe(topics)

    def poll(self) -> list[Place]:
        found = []
        for message in self._consumer.consume(100, 0.1):
            error = message.error()
            if error is None:
                found.append((str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)))
            else:
                assert error.retriable() or error.code() == KafkaError._TRANSPORT, error
        return found

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class ConfluentNewConsumer(ConfluentConsumer):
    """librdkafka with KIP-848."""

    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        super().__init__(bootstrap, group, topics, "consumer")


class KafkaPythonConsumer(_Reading):
    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        self._consumer = KafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
        )

    def poll(self) -> list[Place]:
        # A poll that ends while a join is under way can make kafka-python 3.0 forget to take up its assignment.
        polled = self._consumer.poll(timeout_ms=1_000)
        return [(one.topic, one.partition, one.offset) for records in polled.values() for one in records]

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AiokafkaConsumer(_Reading):
    """On a loop of its own, in a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer: Any = None

        async def start() -> None:
            self._consumer = AIOKafkaConsumer(
                *topics,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=300,
            )
            await self._consumer.start()

        self._run(start())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def poll(self) -> list[Place]:
        polled = self._run(self._consumer.getmany(timeout_ms=100))
        return [(one.topic, one.partition, one.offset) for records in polled.values() for one in records]

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


NewConsumer = Callable[[str, str, list[str]], GroupConsumer]

CONSUMERS: dict[str, NewConsumer] = {
    "confluent": ConfluentConsumer,
    "confluent-848": ConfluentNewConsumer,
    "kafka-python": KafkaPythonConsumer,
    "aiokafka": AiokafkaConsumer,
}
