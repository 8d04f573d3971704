"""Consumers that write down what they read: alone, from the beginning to the end, or in groups that commit.

A reader knows which offset it waits for, so that whatever is left out or comes twice is seen in its history.
"""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from contextlib import closing
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as RdPartition

from bifrost.types import TopicPartition
from tests.faults.journal import Journal, place_of
from tests.sim.crowd.events import NO_OFFSET, OffsetCommitted, OffsetSeen

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its message definitions in a way that is
    from kafka import KafkaConsumer  # type: ignore[import-untyped]
    from kafka import TopicPartition as PythonPartition
    from kafka.errors import RetriableError  # type: ignore[import-untyped]

_POLL_S = 0.2
_REQUEST_MS = 4_000
_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._PARTITION_EOF,
    KafkaError._RESOLVE,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
}
_SETTINGS = {
    "enable.auto.commit": False,
    "check.crcs": True,  # as the other clients do without being told
    "auto.offset.reset": "error",  # nothing is ever removed here: a reader that is out of range has found a loss
    "socket.timeout.ms": _REQUEST_MS,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2_000,
    "log_level": 0,
}


class Reader(ABC):
    """A thread that reads all partitions of a topic, until it is stopped."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, journal: Journal) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.topic = topic
        self.journal = journal
        self.positions = dict.fromkeys(range(partitions), 0)
        """The next offset of each partition, as far as it was read by this reader."""
        self.records = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=journal.watched(name, self._read), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.journal.join(self._thread)

    @abstractmethod
    def _read(self) -> None: ...

    def _take(self, partition: int, records: list[tuple[int, bytes | None]]) -> None:
        self.journal.polled(self.name, place_of(self.topic, partition), self.positions[partition], records)
        self.positions[partition] = records[-1][0] + 1
        self.records += len(records)

    def _take_messages(self, messages: list[Message]) -> None:
        by_partition: dict[int, list[tuple[int, bytes | None]]] = {}
        for message in messages:
            error = message.error()
            if error is None:
                by_partition.setdefault(message.partition(), []).append((message.offset(), message.value()))
            elif error.code() not in _PASSING and not error.retriable():
                self.journal.complain("read error", f"{self.name}: {error}")
        for partition, records in by_partition.items():
            self._take(partition, records)


class ConfluentReader(Reader):
    """librdkafka, without a group: from the beginning of every partition."""

    def _read(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "nobody", **_SETTINGS})
        with closing(consumer):
            consumer.assign([RdPartition(self.topic, partition, 0) for partition in self.positions])
            while not self._stop.is_set():
                self._take_messages(consumer.consume(500, _POLL_S))


class KafkaPythonReader(Reader):
    """kafka-python, without a group."""

    def _read(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            request_timeout_ms=_REQUEST_MS,
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=500,
            metadata_max_age_ms=2_000,
        )
        mine = {partition: PythonPartition(self.topic, partition) for partition in self.positions}
        with closing(consumer):  # its threads would go on beside all tests to come
            consumer.assign(list(mine.values()))
            for partition, position in self.positions.items():
                consumer.seek(mine[partition], position)
            while not self._stop.is_set():
                for where, found in self._poll(consumer).items():
                    self._take(where.partition, [(record.offset, record.value) for record in found])

    @staticmethod
    def _poll(consumer: KafkaConsumer) -> dict[PythonPartition, list[Any]]:
        try:
            return cast("dict[PythonPartition, list[Any]]", consumer.poll(int(_POLL_S * 1000)))
        except RetriableError:  # now and then it tells of a request that was not answered in time
            return {}


class GroupReader(Reader):
    """A member of a group, by either protocol. What the group has committed is where it begins, and nowhere else."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, journal: Journal, *, group: str, protocol: str
    ) -> None:
        super().__init__(name, bootstrap, topic, partitions, journal)
        self.group = group
        self._protocol = protocol
        self._held: set[int] = set()

    def _read(self) -> None:
        own = {} if self._protocol == "consumer" else {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "group.protocol": self._protocol,
                "on_commit": self._on_commit,
                **own,
                **_SETTINGS,
            }
        )
        with closing(consumer):
            consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_gone, on_lost=self._on_gone)
            while not self._stop.is_set():
                before = self.records
                found = consumer.consume(200, _POLL_S)
                self._take_messages([one for one in found if one.error() is not None or one.partition() in self._held])
                if self.records > before:
                    self._commit(consumer)

    def _on_assign(self, consumer: Consumer, partitions: list[RdPartition]) -> None:
        """Begin where the group has come to, which is asked here so that it is known."""
        asked_at = self.journal.now()
        while True:
            try:
                committed = consumer.committed(partitions, timeout=10)
                if all(one.error is None for one in committed):
                    break
            except KafkaException:
                pass
            if self._stop.is_set():
                return
        for one in committed:
            offset = one.offset if one.offset >= 0 else NO_OFFSET
            where = TopicPartition(self.topic, one.partition)
            self.journal.add(OffsetSeen(asked_at, self.journal.now(), self.group, self.name, where, offset))
            self.positions[one.partition] = max(0, offset)
        starts = [RdPartition(self.topic, one.partition, max(0, one.offset)) for one in committed]
        self._held.update(one.partition for one in starts)
        if self._protocol == "consumer":
            consumer.incremental_assign(starts)
        else:
            consumer.assign(starts)

    def _on_gone(self, consumer: Consumer, partitions: list[RdPartition]) -> None:
        self._held.difference_update(one.partition for one in partitions)
        if self._protocol == "consumer":
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _commit(self, consumer: Consumer) -> None:
        """Without waiting: who waits for a coordinator that is gone reads nothing meanwhile."""
        wanted = [RdPartition(self.topic, one, self.positions[one]) for one in sorted(self._held)]
        try:
            if wanted:
                consumer.commit(offsets=wanted, asynchronous=True)
        except KafkaException:
            pass  # what was read is read again, by whoever has the partition next

    def _on_commit(self, error: KafkaError | None, partitions: list[RdPartition]) -> None:
        at = self.journal.now()
        for one in partitions:
            outcome = "done" if error is None and one.error is None else "unknown"
            where = TopicPartition(self.topic, one.partition)
            self.journal.add(OffsetCommitted(at, at, self.group, self.name, 0, where, one.offset, outcome))
