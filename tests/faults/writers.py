"""Producers that never give up and write down what they were told: every value is numbered, by producer and partition.

All of them are idempotent and want acks from all replicas in sync. What they may do in a second is bounded, so that a
history stays small enough to be judged.
"""

from __future__ import annotations

import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.faults.journal import Journal, place_of
from tests.sim.history import Place, Value
from tests.waiting import eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its message definitions in a way that is
    from kafka import KafkaProducer  # type: ignore[import-untyped]

RATE_PER_S = 200
UNDER_WAY_MAX = 500
_NEVER_MS = 600_000
_REQUEST_MS = 4_000
"""How long clients wait for a broker that hangs; their own defaults would make every pause half a minute."""


class Writer(ABC):
    """A thread that writes to all partitions of a topic in turn, until it is stopped and everything is acknowledged."""

    PATIENCE_S = 90.0
    """That the cluster has for the last acknowledgements."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, journal: Journal) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.journal = journal
        self.acknowledged = 0
        self.under_way = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=journal.watched(name, self._write), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits for the last acknowledgement, however long the cluster takes within reason."""
        self._stop.set()
        self.journal.join(self._thread)

    @abstractmethod
    def _write(self) -> None: ...

    def _pace(self) -> bool:
        """Whether to go on; a moment later, so that no more is written in a second than was agreed."""
        return not self._stop.wait(1 / RATE_PER_S)

    def _value(self, partition: int, number: int, line: int = 0) -> Value:
        return Value(f"{self.name}-{partition}", line, number)

    def _on_acknowledged(self, asked_at: float, place: Place, value: Value, offset: int | None) -> None:
        self.under_way -= 1
        self.acknowledged += 1
        self.journal.acknowledged(asked_at, place, offset, value)

    def _on_failed(self, place: Place, value: Value, error: object) -> None:
        self.under_way -= 1
        self.journal.complain("failed send", f"{value} to {place}: {error}")

    def _finish(self, work: Callable[[], object]) -> None:
        """Until nothing is under way any more."""
        try:
            eventually(
                lambda: work() is not None and self.under_way == 0,
                f"all acknowledgements of {self.name}",
                self.PATIENCE_S,
            )
        except AssertionError as error:
            self.journal.complain("never acknowledged", f"{self.under_way} records: {error}")


class ConfluentWriter(Writer):
    """librdkafka."""

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": _NEVER_MS,
                "request.timeout.ms": _REQUEST_MS,
                "socket.timeout.ms": _REQUEST_MS,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2_000,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )
        numbers = count()
        while self._pace():
            producer.poll(0)
            if self.under_way < UNDER_WAY_MAX:
                number = next(numbers)
                self._send(producer, number % self.partitions, number // self.partitions)
        self._finish(lambda: producer.flush(0.5))

    def _send(self, producer: Producer, partition: int, number: int) -> None:
        place, value = place_of(self.topic, partition), self._value(partition, number)
        data, asked_at = self.journal.sent(place, value), self.journal.now()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._on_acknowledged(asked_at, place, value, message.offset())
            else:
                self._on_failed(place, value, error)

        self.under_way += 1
        try:
            producer.produce(self.topic, data, partition=partition, on_delivery=on_delivery)
        except (KafkaException, BufferError) as error:
            self._on_failed(place, value, error)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.journal.complain("fatal producer error", f"{self.name}: {error.str()}")


class KafkaPythonWriter(Writer):
    """kafka-python. Its callbacks come from its own thread, one after the other."""

    def _write(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            retries=1_000_000,
            linger_ms=2,
            request_timeout_ms=_REQUEST_MS,
            delivery_timeout_ms=_NEVER_MS,
            max_block_ms=90_000,
            reconnect_backoff_max_ms=500,
            metadata_max_age_ms=2_000,
        )
        numbers = count()
        while self._pace():
            if self.under_way < UNDER_WAY_MAX:
                number = next(numbers)
                self._send(producer, number % self.partitions, number // self.partitions)
        self._finish(lambda: time.sleep(0.1) or True)
        producer.close(timeout=5)

    def _send(self, producer: KafkaProducer, partition: int, number: int) -> None:
        place, value = place_of(self.topic, partition), self._value(partition, number)
        data, asked_at = self.journal.sent(place, value), self.journal.now()
        self.under_way += 1
        future = producer.send(self.topic, data, partition=partition)
        future.add_callback(lambda told: self._on_acknowledged(asked_at, place, value, told.offset))
        future.add_errback(lambda error: self._on_failed(place, value, repr(error)))
