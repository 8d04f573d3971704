"""Sends records to one topic and counts exactly what became of them.

Stands on confluent_kafka's producer itself: a million lines would be a million futures with `bifrost.Producer`, and all
that is wanted of them is how many there were and which offsets they got. Decides nothing about what is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bifrost.cli.data.cluster import Trouble, leaders_awaited, partition_counts
from bifrost.cli.data.lines import NOW, Record
from bifrost.client.clusters import Connection
from bifrost.client.errors import BifrostError, from_kafka
from bifrost.client.options import client_options

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_TICK_S = 0.1
_SETTLE_S = 0.6
_NO_OFFSET = -1


@dataclass(slots=True)
class Landed:
    """Where records of one partition are. With acks=0 nobody tells, and the offsets are -1."""

    records: int = 0
    first_offset: int = _NO_OFFSET
    last_offset: int = _NO_OFFSET


@dataclass(slots=True)
class Tally:
    """`sent` were handed over; each of them is acknowledged, failed, or still on its way."""

    sent: int = 0
    failed: int = 0
    error: KafkaError | None = None
    partitions: dict[int, Landed] = field(default_factory=dict)

    @property
    def acknowledged(self) -> int:
        return sum(landed.records for landed in self.partitions.values())


class Sender:
    """One producer for one topic. Callbacks come while `send`, `tick` and `finish` run, in the caller's thread."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        settings: Mapping[str, object],
        *,
        create: bool = False,
        on_latency: Callable[[int, int], None] | None = None,
    ) -> None:
        """`create` lets the broker make a topic that is missing. `on_latency` gets microseconds and bytes."""
        from confluent_kafka import KafkaException, Producer

        self.tally = Tally()
        self.trouble = Trouble()
        self.topic = topic
        self._connection = connection
        self._kafka_exception = KafkaException  # an import in `send` would cost more than the sending
        defaults = {
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "allow.auto.create.topics": create,
            "queue.buffering.max.messages": 500_000,  # the memory is bounded by queue.buffering.max.kbytes
            "error_cb": self.trouble,
        }
        try:
            self._producer = Producer(client_options(connection, defaults, settings))
        except KafkaException as error:
            raise from_kafka(error, topic=topic, bootstrap=str(connection)) from error
        self._produce: Callable[..., None] = self._producer.produce
        self._landed: dict[int | None, Landed] = self.tally.partitions  # type: ignore[assignment]
        self._delivered = self._count if on_latency is None else self._timed(on_latency)
        self.partition_count = partition_counts(self._producer, connection, [topic], self.trouble, created=create)[
            topic
        ]

    def send(self, record: Record, give_up: Callable[[], object]) -> bool:
        """Hand over; waits while too much is on its way. False, and nothing was handed over, if `give_up` says so."""
        value, key, headers, partition, timestamp_ms = record
        while True:
            try:
                if headers or timestamp_ms != NOW:
                    self._produce(
                        self.topic,
                        value,
                        key,
                        partition,
                        self._delivered,
                        timestamp=timestamp_ms,
                        headers=list(headers),
                    )
                else:  # naming arguments costs a tenth of the whole
                    self._produce(self.topic, value, key, partition, self._delivered)
            except BufferError:
                self._producer.poll(_TICK_S)
                if self.tally.failed or give_up():
                    return False
            except self._kafka_exception as error:
                raise from_kafka(
                    error, topic=self.topic, partition=partition, bootstrap=str(self._connection)
                ) from error
            else:
                self.tally.sent += 1
                return True

    def settle(self) -> None:
        """Wait until the first record would leave at once, so that whoever measures does not measure the wait.

        An idempotent producer needs an id first, and librdkafka looks for a broker to ask only twice a second.
        """
        self._producer.poll(_SETTLE_S)

    def tick(self, wait_s: float = 0) -> None:
        """Take note of what has been acknowledged, and wait so long for something if there is nothing."""
        self._producer.poll(wait_s)

    def finish(self, give_up: Callable[[], object], on_tick: Callable[[], None]) -> None:
        """Wait until every record is acknowledged or has failed. What `give_up` finds still queued was never sent."""
        while self._producer.flush(_TICK_S):
            on_tick()
            if give_up():
                self._producer.purge(in_queue=True, in_flight=True, blocking=True)
                deadline = time.monotonic() + 1
                while self._producer.flush(_TICK_S) and time.monotonic() < deadline:
                    pass
                break

    def leaders_awaited(self) -> str | None:
        """Which partitions of the topic have no leader, as the cluster tells."""
        return leaders_awaited(self._connection, [self.topic])

    @property
    def bootstrap(self) -> str:
        return self._connection.bootstrap

    @property
    def error(self) -> BifrostError | None:
        """Why the first of those that failed did."""
        if self.tally.error is None:
            return None
        return from_kafka(self.tally.error, topic=self.topic, bootstrap=str(self._connection))

    def _count(self, error: KafkaError | None, message: Message) -> None:
        """Runs for every record."""
        if error is not None:
            self._failed(error)
            return
        landed = self._landed.get(message.partition())
        if landed is None:
            landed = self._landed[message.partition()] = Landed()
        landed.records += 1
        offset = message.offset()
        if offset is None or offset < 0:
            return
        if offset > landed.last_offset:  # noqa: PLR1730  # a call for every record
            landed.last_offset = offset
        if not 0 <= landed.first_offset <= offset:
            landed.first_offset = offset

    def _timed(self, on_latency: Callable[[int, int], None]) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            self._count(error, message)
            if error is None:
                on_latency(int((message.latency() or 0.0) * 1_000_000), len(message))

        return delivered

    def _failed(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._PURGE_QUEUE:
            self.tally.sent -= 1  # it never left
            return
        self.tally.failed += 1
        self.tally.error = self.tally.error or error
