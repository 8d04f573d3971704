"""The producer for asyncio: the same promises, and nothing that keeps the loop waiting.

Handing a message over takes microseconds and happens on the loop; whatever waits for the cluster does so in a thread.
Deliveries come back to the loop in bunches: one wake-up for all that are ready, not one for each message.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

from bifrost.client.delivery import Acknowledged, Delivery
from bifrost.client.ledger import Ledger
from bifrost.client.outbox import larger_than_queue
from bifrost.client.partitioners import PartitionerSpec
from bifrost.client.producer import Headers, Producer
from bifrost.client.promises import Acks, Compression, Promise
from bifrost.client.report import Report
from bifrost.client.serialization import Format

_PAUSE_S: Final = 0.002
"""Enough to serve a thousand deliveries."""
_UNBROKEN_MAX: Final = 64
"""How many messages are sent, and how many futures completed, before others have their turn on the loop."""


class ProducerOptions(TypedDict, total=False):
    """What AsyncProducer takes besides an address; see Producer."""

    cluster: str | None
    key: Format | Callable[[Any], bytes | None]
    value: Format | Callable[[Any], bytes | None]
    partitioner: PartitionerSpec
    acks: Acks
    delivery: Promise | None
    compression: Compression
    linger_ms: float
    timeout_s: float | None
    connect_timeout_s: float
    max_queued: int
    max_queued_bytes: int
    config: Mapping[str, object] | None


class AsyncProducer:
    """Sends messages from asyncio; takes the arguments of `Producer`, except `on_delivery`.

    >>> async def main():
    ...     async with AsyncProducer(value="str") as producer:
    ...         acknowledged = await producer.send("greetings", "hello", key="world")
    ...         several = [await producer.enqueue("greetings", text) for text in ("how", "are", "you")]
    ...         await asyncio.gather(*several)
    ...     return await producer.report()
    >>> asyncio.run(main()).summary()
    '4 sent, 4 acknowledged, 4 stored'
    """

    def __init__(self, bootstrap: str | Sequence[str] | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._producer = Producer(bootstrap, **options)
        self._settled: deque[tuple[asyncio.Future[Acknowledged], Delivery]] = deque()
        self._awake = False
        self._unbroken = 0
        self._opening: dict[str, asyncio.Task[Ledger]] = {}

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> Acknowledged:
        """Send one message and wait until it is stored; raises why it is not. Arguments as for `Producer.send`."""
        return await (await self.enqueue(topic, value, key, headers=headers, partition=partition, timestamp=timestamp))

    async def enqueue(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> asyncio.Future[Acknowledged]:
        """Send one message as soon as there is room for it; the future completes when it is stored.

        Messages reach a partition in the order of these calls, so await each before the next.
        """
        producer, outbox = self._producer, self._producer._outbox
        await self._give_way()
        ledger = producer._ledgers.get(topic) or await self._open(topic)
        if _is_stale(ledger, partition):
            await asyncio.to_thread(producer._refresh, ledger)
        message = producer._encode(ledger, value, key, headers, partition, timestamp)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Acknowledged] = loop.create_future()
        delivery = Delivery(ledger, partial(self._settle, loop, future))
        while not outbox.offer(ledger, delivery, message):
            length = len(outbox)
            if length == 0:
                if outbox.offer(ledger, delivery, message):
                    break
                raise larger_than_queue(message)
            while not outbox.is_shorter(length):  # noqa: ASYNC110  # a thread makes room, many times a second
                await asyncio.sleep(_PAUSE_S)
        return future

    async def _give_way(self) -> None:
        """A loop that only sends must not keep others waiting, be it tasks or the thread that serves deliveries."""
        outbox = self._producer._outbox
        if outbox.closed:
            outbox.give_way()
        self._unbroken += 1
        if outbox.busy or self._unbroken == _UNBROKEN_MAX:
            self._unbroken = 0
            await asyncio.sleep(_PAUSE_S if outbox.busy else 0)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is acknowledged; see `Producer.flush`."""
        await asyncio.to_thread(self._producer.flush, timeout)

    async def report(self, *, stored: bool = True, timeout: float = 10) -> Report:
        """Compare what was sent, acknowledged and stored; see `Producer.report`."""
        return await asyncio.to_thread(partial(self._producer.report, stored=stored, timeout=timeout))

    async def close(self, timeout: float | None = None) -> None:
        """Flush, and give up what is not acknowledged after `timeout` seconds."""
        await asyncio.to_thread(self._producer.close, timeout)

    async def _open(self, topic: str) -> Ledger:
        """Asked once, however many tasks start with the same topic at the same time."""
        task = self._opening.get(topic)
        if task is None:
            task = asyncio.ensure_future(asyncio.to_thread(self._producer._open, topic))
            self._opening[topic] = task
            task.add_done_callback(lambda _: self._opening.pop(topic))
        return await asyncio.shield(task)

    def _settle(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Acknowledged], delivery: Delivery
    ) -> None:
        """In the producer's thread."""
        self._settled.append((future, delivery))
        if not self._awake:
            self._awake = True
            loop.call_soon_threadsafe(self._complete)

    def _complete(self) -> None:
        """On the loop."""
        for _ in range(min(len(self._settled), _UNBROKEN_MAX)):
            future, delivery = self._settled.popleft()
            if future.done():  # cancelled
                continue
            error = delivery.exception()
            if error is None:
                future.set_result(delivery.result())
            else:
                future.set_exception(error)
        self._awake = False
        if self._settled:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._complete)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._producer.__exit__, kind, error, traceback)

    def __repr__(self) -> str:
        return f"<Async{repr(self._producer)[1:]}"


def _is_stale(ledger: Ledger, partition: int | None) -> bool:
    """Whether the number of partitions is to be asked again before it is relied on."""
    if partition is not None:
        return partition >= ledger.partition_count
    return ledger.choose is not None and time.monotonic() >= ledger.refresh_at
