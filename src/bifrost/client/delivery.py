"""The fate of one message: a future that costs little until somebody looks at it.

librdkafka calls it when the message is acknowledged or given up. Most deliveries are never asked for, so one holds four
fields, no lock of its own, and neither key nor value.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bifrost.client.errors import BifrostError, TimedOutError, from_kafka

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from bifrost.client.ledger import Ledger


class Acknowledged(NamedTuple):
    """Where a message is stored."""

    topic: str
    partition: int
    offset: int
    """-1 if the producer does not wait for the broker's word (`acks=0`)."""
    timestamp_ms: int

    @property
    def timestamp(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)


class Delivery:
    """What `Producer.send` returns: a future of `Acknowledged`.

    It completes by itself, in a thread of the producer; waiting is possible from every thread but that one.
    """

    __slots__ = ("__weakref__", "_callbacks", "_ledger", "_outcome")

    def __init__(self, ledger: Ledger, on_delivery: DeliveryCallback | None = None) -> None:
        self._ledger = ledger
        self._callbacks = None if on_delivery is None else [on_delivery]
        self._outcome: tuple[int, int | None, int] | tuple[int, KafkaError] | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        ledger = self._ledger
        if not ledger.outbox.busy:
            ledger.outbox.take_turn()
        partition: int = message.partition()  # type: ignore[assignment]  # messages that were sent have one
        if error is None:
            offset = message.offset()
            self._outcome = (partition, offset, message.timestamp()[1])
            ledger.acknowledge(partition, offset)
        else:
            self._outcome = (partition, error)
            ledger.fail(partition)
            ledger.outbox.note_failure(error, ledger.topic, partition)
        if self._callbacks is not None:
            self._run_callbacks(self._callbacks)

    @property
    def topic(self) -> str:
        return self._ledger.topic

    def done(self) -> bool:
        """Whether the message is acknowledged or given up."""
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> Acknowledged:
        """Wait for the acknowledgement; raises why there is none, or TimedOutError after `timeout` seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        assert self._outcome is not None
        assert len(self._outcome) == 3
        partition, offset, timestamp_ms = self._outcome
        return Acknowledged(self._ledger.topic, partition, -1 if offset is None else offset, timestamp_ms)

    def exception(self, timeout: float | None = None) -> BifrostError | None:
        """Wait like `result`, and return what it would raise."""
        if self._outcome is None and not self._ledger.outbox.wait_for(self.done, timeout):
            problem = f"a message for topic {self.topic} is not acknowledged after {timeout} s"
            raise TimedOutError(problem, "It is still being sent; wait longer, or look whether the cluster is up.")
        assert self._outcome is not None
        if len(self._outcome) == 3:
            return None
        partition, error = self._outcome
        return from_kafka(error, topic=self.topic, partition=partition, bootstrap=self._ledger.outbox.bootstrap)

    def add_done_callback(self, callback: DeliveryCallback) -> None:
        """Call `callback(delivery)` once it is done: in the producer's thread, or here and now if it is."""
        if self._callbacks is None:
            with self._ledger.outbox.changed.lock:  # two threads must not both make the list
                self._callbacks = self._callbacks or []
        self._callbacks.append(callback)
        if self._outcome is not None:
            self._run_callbacks(self._callbacks)

    def _run_callbacks(self, callbacks: list[DeliveryCallback]) -> None:
        # Whoever takes a callback from the list calls it: so each is called once, also if it is added meanwhile.
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                return
            self._ledger.outbox.run_callback(callback, self)

    def __repr__(self) -> str:
        if self._outcome is None:
            return f"<Delivery to {self.topic}: pending>"
        if len(self._outcome) == 3:
            partition, offset, _ = self._outcome
            where = "" if offset is None else f" at offset {offset}"
            return f"<Delivery to {self.topic}-{partition}: acknowledged{where}>"
        return f"<Delivery to {self.topic}: failed, {self._outcome[1].name()}>"


DeliveryCallback: TypeAlias = Callable[[Delivery], object]
