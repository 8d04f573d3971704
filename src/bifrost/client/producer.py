"""Sending messages: what an application says, turned into what librdkafka is given.

Decides defaults, what is refused before it is sent, and what happens at the end. Waiting, threads and callbacks are
outbox.py's; counting is ledger.py's.
"""

from __future__ import annotations

import time
import weakref
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from bifrost.client.clusters import resolve
from bifrost.client.delivery import Acknowledged, Delivery, DeliveryCallback
from bifrost.client.end_offsets import end_offsets
from bifrost.client.errors import (
    DeliveryError,
    InvalidRequestError,
    SerializationError,
    TimedOutError,
    UnknownPartitionError,
    UnknownTopicError,
)
from bifrost.client.ledger import Ledger
from bifrost.client.options import ADDRESS_NAMES, client_options, refuse_names
from bifrost.client.outbox import Encoded, Outbox
from bifrost.client.partitioners import LIBRDKAFKA, PartitionerSpec, chooser
from bifrost.client.promises import Acks, Compression, Promise, promise_options
from bifrost.client.report import Report
from bifrost.client.serialization import Format, serializer
from bifrost.client.trouble import UNREACHABLE_AFTER_S

__all__ = ["Acknowledged", "Delivery", "Producer"]

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]

_APPEARANCE_S: Final = 3.0
"""How long a topic may take to appear that is being created, or was a moment ago."""
_REFRESH_S: Final = 60.0
"""How long the number of partitions is believed."""
_FRESH_S: Final = 1.0
"""How long it is believed even against somebody who names a partition beyond it."""
_RETRY_S: Final = 0.05
_INTERRUPTED_S: Final = 5.0
"""How long a program that ends by Ctrl-C still waits for acknowledgements."""


class Producer:
    """Sends messages to a cluster, and keeps count of what became of them.

    >>> with Producer(value="json") as producer:
    ...     producer.send("readings", {"celsius": 21.5}, key="garden")
    <Delivery to readings: pending>

    Leaving the block waits until everything is acknowledged; `DeliveryError` says so if something was not. Messages are
    resent until they are, over lost connections and restarted brokers, for at most `timeout_s` seconds each, and
    a partition stores each message once and in the order of sending.

    `send` returns a future, and blocks while `max_queued` messages or `max_queued_bytes` bytes are under way:

    >>> producer = Producer(key="str", value="str")
    >>> delivery = producer.send("greetings", "hello", key="world", headers={"language": "en"})
    >>> delivery.result(timeout=30).topic
    'greetings'
    >>> print(producer.report().summary())
    1 sent, 1 acknowledged, 1 stored
    >>> producer.close()

    Arguments
        bootstrap        address of the cluster, `host:port`; without it see `bifrost.client.clusters`
        cluster          or its name in the configuration file
        key, value       "bytes", "str", "json", "msgpack", or a function that returns bytes
        partitioner      "murmur2", "round_robin", a mapping from keys, or a function (`bifrost.client.partitioners`)
        acks             who must have stored a message: "all" replicas in sync, 1 (the leader), 0 (nobody)
        delivery         "at_least_once", or "at_most_once": never resent; the default with acks=0
        compression      "none", "gzip", "snappy", "lz4" or "zstd"
        linger_ms        how long a message may wait for others to travel with
        timeout_s        how long a message is resent before it is given up; None: as long as the producer lives
        connect_timeout_s  how long the first answer of the cluster may take, if anybody is there at all
        on_delivery      called with every Delivery that is done, in the producer's own thread
        config           settings of librdkafka, which win over all of the above
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        cluster: str | None = None,
        key: Format | Callable[[Any], bytes | None] = "bytes",
        value: Format | Callable[[Any], bytes | None] = "bytes",
        partitioner: PartitionerSpec = "murmur2",
        acks: Acks = "all",
        delivery: Promise | None = None,
        compression: Compression = "none",
        linger_ms: float = 5,
        timeout_s: float | None = 300,
        connect_timeout_s: float = 10,
        max_queued: int = 100_000,
        max_queued_bytes: int = 64 << 20,
        on_delivery: DeliveryCallback | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._connection = resolve(bootstrap, cluster=cluster)
        self._serialize_key = serializer(key, "key")
        self._serialize_value = serializer(value, "value")
        chooser(partitioner)  # refuses unknown ones here and now
        self._partitioner = partitioner
        self._on_delivery = on_delivery
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._reached = False
        self._ledgers: dict[str, Ledger] = {}
        refuse_names(config, ADDRESS_NAMES)
        self._options = client_options(
            self._connection,
            promise_options(acks, delivery, compression, timeout_s),
            {
                "partitioner": LIBRDKAFKA,
                "linger.ms": linger_ms,
                "queue.buffering.max.messages": max_queued,
                "queue.buffering.max.kbytes": max(max_queued_bytes >> 10, 1),
                # Waiting for a leader costs a message its time, never a resend of its own.
                "topic.metadata.propagation.max.ms": round(_APPEARANCE_S * 1000),
            },
            config,
        )
        self._counts_offsets = str(self._options.get("acks")) != "0"
        self._outbox = Outbox(self._options, str(self._connection))
        self._finalizer = weakref.finalize(self, self._outbox.close, timeout_s)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Send one message. Returns as soon as it is queued; the Delivery completes when it is stored.

        A value of None deletes its key from a compacted topic. `timestamp` is a datetime (one without a time zone is
        local time, as everywhere in Python) or milliseconds since 1970; without it, now. `on_delivery` is called with
        the Delivery instead of the producer's.

        >>> with Producer() as producer:
        ...     acknowledged = producer.send("letters", "a", partition=0).result()
        >>> acknowledged.partition, acknowledged.offset
        (0, 0)
        """
        outbox = self._outbox
        if outbox.busy:
            outbox.give_way()
        ledger = self._ledgers.get(topic) or self._open(topic)
        delivery = Delivery(ledger, on_delivery or self._on_delivery)
        message = self._encode(ledger, value, key, headers, partition, timestamp)
        if not outbox.offer(ledger, delivery, message):
            outbox.put(ledger, delivery, message)
        return delivery

    def post(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> None:
        """Send one message without a Delivery to hold: cheaper, for many small messages.

        `flush`, the end of the block and the report tell what became of it; `on_delivery` is not called.

        >>> with Producer() as producer:
        ...     for number in range(1000):
        ...         producer.post("numbers", str(number))
        >>> producer.report().acknowledged
        1000
        """
        outbox = self._outbox
        if outbox.busy:
            outbox.give_way()
        ledger = self._ledgers.get(topic) or self._open(topic)
        message = self._encode(ledger, value, key, headers, partition, timestamp)
        if not outbox.offer(ledger, ledger.on_delivery, message):
            outbox.put(ledger, ledger.on_delivery, message)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is acknowledged.

        TimedOutError: it is not, after `timeout` seconds. DeliveryError: some messages were given up since the last
        flush. What a callback raised is raised here too.
        """
        if not self._outbox.drain(timeout):
            problem = f"{self._pending:,} messages are not acknowledged after {timeout} s"
            raise TimedOutError(problem, "They are still being sent; wait longer, or look whether the cluster is up.")
        if (failure := self._failure()) is not None:
            raise failure

    def report(self, *, stored: bool = True, timeout: float = 10) -> Report:
        """Compare what was sent, acknowledged and, unless `stored` is False, stored. Exact after `flush` or `close`.

        >>> with Producer() as producer:
        ...     for letter in "abcdef":
        ...         _ = producer.send("alphabet", letter, partition=0)
        >>> print(producer.report())
        topic     partition  sent  acknowledged  failed  stored  offsets
        alphabet          0     6             6       0       6      0-5
        6 sent, 6 acknowledged, 6 stored
        """
        ledgers = list(self._ledgers.values())
        if len(self._outbox) == 0:
            for ledger in ledgers:
                ledger.reconcile()
        wanted = {ledger.topic: [each for each in ledger.rows if each >= 0] for ledger in ledgers}
        ends = end_offsets(self._options, wanted, timeout) if stored else {}
        return Report(tuple(line for ledger in ledgers for line in ledger.report(ends.get(ledger.topic, {}))))

    def close(self, timeout: float | None = None) -> None:
        """Flush, and give up what is not acknowledged after `timeout` seconds. More calls do nothing."""
        if self._outbox.closed:
            return
        self._outbox.close(timeout)
        self._finalizer.detach()
        if (failure := self._failure()) is not None:
            raise failure

    def _encode(
        self,
        ledger: Ledger,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp: datetime | int | None,
    ) -> Encoded:
        if partition is None:
            partition = -1
            if ledger.choose is not None:
                partition = self._chosen(ledger, key, value)
        elif not 0 <= partition < ledger.partition_count:
            self._check_partition(ledger, partition)
        return (
            self._serialize_value(value),
            None if key is None else self._serialize_key(key),
            partition,
            0 if timestamp is None else _milliseconds(timestamp),
            None if headers is None else _headers(headers),
        )

    def _chosen(self, ledger: Ledger, key: Any, value: Any) -> int:
        assert ledger.choose is not None
        if time.monotonic() >= ledger.refresh_at:
            self._refresh(ledger)
        partition = ledger.choose(key, value, ledger.partition_count)
        if partition == -1:
            return -1
        if not isinstance(partition, int):
            problem = f"the partitioner returned {partition!r} for key {key!r}"
            raise InvalidRequestError(problem, "It must return the number of a partition.")
        if not 0 <= partition < ledger.partition_count:
            self._check_partition(ledger, partition)
        return partition

    def _check_partition(self, ledger: Ledger, partition: int) -> None:
        """A partition that was not there a while ago may have been added since."""
        if partition >= 0 and time.monotonic() > ledger.refresh_at - _REFRESH_S + _FRESH_S:
            self._refresh(ledger)
        if not 0 <= partition < ledger.partition_count:
            problem = f"topic {ledger.topic} has no partition {partition}"
            last = ledger.partition_count - 1
            hint = f"It has partitions 0 to {last}." if last else "Its only partition is 0."
            raise UnknownPartitionError(problem, hint)

    def _refresh(self, ledger: Ledger) -> None:
        ledger.partition_count = self._ask_partition_count(ledger.topic)
        ledger.refresh_at = time.monotonic() + _REFRESH_S

    def _open(self, topic: str) -> Ledger:
        """The first message to a topic: is the cluster there, is the topic, and how many partitions has it?"""
        if not isinstance(topic, str) or not topic:
            raise InvalidRequestError(f"{topic!r} is not the name of a topic", "Give a non-empty str.")
        ledger = Ledger(topic, self._ask_partition_count(topic), self._outbox)
        ledger.choose = chooser(self._partitioner)
        ledger.refresh_at = time.monotonic() + _REFRESH_S
        if not self._counts_offsets:
            partitions = list(range(ledger.partition_count))
            ledger.baseline = end_offsets(self._options, {topic: partitions}, self._connect_timeout_s).get(topic)
        return self._ledgers.setdefault(topic, ledger)

    def _ask_partition_count(self, topic: str) -> int:
        """Patient with a cluster that has answered before, and with topics that are only just being created."""
        patience_s = self._timeout_s if self._reached and self._timeout_s is not None else self._connect_timeout_s
        started = time.monotonic()
        while True:
            waited = time.monotonic() - started
            try:
                count = self._outbox.partition_count(topic, min(1.0, max(patience_s - waited, 0.1)))
            except UnknownTopicError:
                self._reached = True
                if waited > _APPEARANCE_S:
                    raise
            except (ConnectionError, TimeoutError):
                cut_off = not self._reached and self._outbox.is_cut_off
                if waited > (min(patience_s, UNREACHABLE_AFTER_S) if cut_off else patience_s):
                    raise
            else:
                self._reached = True
                if count:
                    return count
            time.sleep(_RETRY_S)

    @property
    def _pending(self) -> int:
        return sum(ledger.sent - ledger.settled for ledger in list(self._ledgers.values()))

    def _failure(self) -> BaseException | None:
        """What went wrong since this was asked last."""
        count, causes = self._outbox.take_failures()
        error, self._outbox.callback_error = self._outbox.callback_error, None
        if not count:
            return error
        report = self.report(stored=False)
        failure = DeliveryError(
            f"{count:,} of {report.sent:,} messages were not acknowledged: {causes[0].problem}",
            causes[0].hint,
            code=causes[0].code,
            report=report,
            causes=causes,
        )
        failure.__cause__ = error or causes[0]
        return failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # What was sent before the failure counts: it is delivered, but never hides what went wrong first.
        interrupted = isinstance(error, KeyboardInterrupt | CancelledError)
        self._outbox.close(_INTERRUPTED_S if interrupted else None)
        self._finalizer.detach()
        if (failure := self._failure()) is not None:
            error.add_note(str(failure))

    def __repr__(self) -> str:
        state = "closed" if self._outbox.closed else f"{self._pending:,} pending"
        sent = sum(ledger.sent for ledger in list(self._ledgers.values()))
        return f"<Producer to {self._connection}: {sent:,} sent, {state}>"


def _milliseconds(timestamp: datetime | int) -> int:
    if isinstance(timestamp, datetime):
        timestamp = round(timestamp.timestamp() * 1000)
    if not isinstance(timestamp, int):
        problem = f"timestamp {timestamp!r} is of type {type(timestamp).__name__}"
        raise InvalidRequestError(problem, "Give a datetime, or milliseconds since 1970.")
    if timestamp <= 0:
        problem = f"timestamp {timestamp} is not after 1970"
        raise InvalidRequestError(problem, "Give milliseconds since 1970; librdkafka has no way to say 0.")
    return timestamp


def _headers(headers: Headers) -> list[tuple[str, str | bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    made: list[tuple[str, str | bytes | None]] = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise SerializationError(f"headers has {pair!r}", 'Give a mapping, or pairs: [("name", b"content")].')
        name, content = pair
        data = content.encode() if isinstance(content, str) else content
        if not isinstance(name, str) or not (data is None or isinstance(data, bytes)):
            problem = f"header {name!r} is of type {type(content).__name__}"
            raise SerializationError(problem, "Names are str; contents are bytes, str or None.")
        made.append((name, data))
    return made
