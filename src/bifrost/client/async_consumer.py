"""The consumer for asyncio: the same reading, with everything that may wait done in a thread.

Messages themselves are given out on the loop, from what a thread has fetched: none is under way between threads when
its task is cancelled, so none is lost by a timeout. Calls wait for each other: a consumer does one thing at a time.
What a rebalance callback calls is done by the very thread that has called back.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from bifrost.client.consumer import Consumer, Handled
from bifrost.client.consumer_options import AsyncConsumerOptions, AsyncRebalanced, Rebalanced
from bifrost.client.errors import BifrostError
from bifrost.client.message import Message
from bifrost.client.navigation import Name, Partitions, Place
from bifrost.client.positions import OffsetTable
from bifrost.types import TopicPartition

T = TypeVar("T")

BREATH_S: Final = 0.005
"""After so long without one, a loop over messages pauses for the other tasks."""

Job = Callable[[], None]

_callers: ContextVar[SimpleQueue[Job | None] | None] = ContextVar("callers", default=None)
"""Inside a callback: what the thread that has called back, and waits, is to do in the meantime."""


class AsyncConsumer:
    """Reads messages without ever blocking the event loop. Options are those of `Consumer`.

    >>> async def main() -> None:
    ...     async with AsyncConsumer("readings", value="json", from_beginning=True, until_end=True) as consumer:
    ...         async for message in consumer:
    ...             print(message.key, message.value["celsius"])
    >>> asyncio.run(main())
    b'garden' 21.5
    b'cellar' 12.0

    Nothing is connected before the first `await`. The callbacks `on_assigned`, `on_revoked` and `on_lost` run on the
    loop; they may be coroutine functions, and get this consumer.
    """

    def __init__(self, *topics: str | Sequence[str], **options: Unpack[AsyncConsumerOptions]) -> None:
        self._topics = topics
        self._options: dict[str, Any] = {
            **options,
            "on_assigned": self._on_loop(options.get("on_assigned")),
            "on_revoked": self._on_loop(options.get("on_revoked")),
            "on_lost": self._on_loop(options.get("on_lost")),
        }
        self._timeout_s = options.get("timeout_s")
        self._consumer: Consumer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._queued = 0
        """Calls that wait for their turn: whoever waits for messages makes room for them."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bifrost-consumer")

    async def subscribe(self, *topics: str | Sequence[str], pattern: str | None = None) -> None:
        """See `Consumer.subscribe`."""
        await self._call(lambda consumer: consumer.subscribe(*topics, pattern=pattern))

    async def assign(
        self, partitions: tuple[str, int] | Iterable[tuple[str, int]] | Mapping[tuple[str, int], Place]
    ) -> None:
        """See `Consumer.assign`."""
        await self._call(lambda consumer: consumer.assign(partitions))

    async def seek(
        self,
        partitions: Partitions = None,
        *,
        offset: int | None = None,
        timestamp: datetime | int | None = None,
        to: Name | None = None,
    ) -> None:
        """See `Consumer.seek`."""
        await self._call(lambda consumer: consumer.seek(partitions, offset=offset, timestamp=timestamp, to=to))

    async def pause(self, partitions: Partitions = None) -> None:
        """See `Consumer.pause`."""
        await self._call(lambda consumer: consumer.pause(partitions))

    async def resume(self, partitions: Partitions = None) -> None:
        """See `Consumer.resume`."""
        await self._call(lambda consumer: consumer.resume(partitions))

    async def poll(self, timeout: float | None = None) -> Message[Any, Any] | None:
        """See `Consumer.poll`."""
        return self._opened()._reader.take() if await self._ready(timeout) else None

    async def batch(self, max_messages: int = 500, timeout: float = 1.0) -> list[Message[Any, Any]]:
        """See `Consumer.batch`."""
        ready = await self._ready(timeout, max_messages)
        return self._opened()._reader.take_batch(max_messages) if ready else []

    async def batches(self, max_messages: int = 500, timeout: float = 1.0) -> AsyncIterator[list[Message[Any, Any]]]:
        """See `Consumer.batches`."""
        quiet_since = monotonic()
        while True:
            messages = await self.batch(max_messages, timeout)
            if messages:
                yield messages
                quiet_since = monotonic()
            elif self._opened()._is_over(quiet_since):
                return

    async def commit(self, handled: Handled = None, *, timeout: float = 60.0) -> dict[TopicPartition, int]:
        """See `Consumer.commit`."""
        return await self._call(lambda consumer: consumer.commit(handled, timeout=timeout))

    async def offsets(self) -> OffsetTable:
        """See `Consumer.offsets`."""
        return await self._call(lambda consumer: consumer.offsets())

    async def position(self, topic: str, partition: int) -> int | None:
        """See `Consumer.position`."""
        return await self._call(lambda consumer: consumer.position(topic, partition))

    @property
    def assignment(self) -> list[TopicPartition]:
        """See `Consumer.assignment`."""
        return [] if self._consumer is None else self._consumer.assignment

    async def close(self) -> None:
        """See `Consumer.close`."""
        try:
            if self._consumer is not None:
                await self._call(lambda consumer: consumer.close())
        finally:
            self._thread.shutdown(wait=False)

    async def __aiter__(self) -> AsyncIterator[Message[Any, Any]]:
        breathed = monotonic()
        while await self._ready(self._timeout_s):
            yield self._opened()._reader.take()
            if monotonic() - breathed > BREATH_S:
                await asyncio.sleep(0)
                breathed = monotonic()

    async def __aenter__(self) -> Self:
        await self._call(lambda _consumer: None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and self._consumer is not None:
            self._consumer._progress.release()
        await self.close()

    def __repr__(self) -> str:
        if self._consumer is None:
            return f"<AsyncConsumer topics={','.join(map(str, self._topics))} not connected yet>"
        return f"<Async{repr(self._consumer)[1:]}"

    def _opened(self) -> Consumer:
        assert self._consumer is not None, "every call opens the consumer first"
        return self._consumer

    def _open(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(*self._topics, **self._options)
        return self._consumer

    async def _ready(self, timeout: float | None, want: int = 1) -> bool:
        """Whether messages can be taken; what was taken before is handled."""
        consumer = self._consumer
        if want == 1 and consumer is not None and consumer._reader.ready_now():
            return True
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            remaining = None if deadline is None else max(0.0, deadline - monotonic())
            async with self._turn:
                if self._consumer is not None:
                    self._consumer._reader.interrupted = False
                if await self._in_thread(partial(self._wait, remaining, want)):
                    return True
            if not self._opened()._reader.interrupted:
                return False

    def _wait(self, timeout: float | None, want: int) -> bool:
        consumer = self._open()
        if self._queued:  # since before there was a consumer that they could have interrupted, or before this turn
            consumer._reader.interrupted = True
        return consumer._make_ready(timeout, want)

    async def _call(self, act: Callable[[Consumer], T]) -> T:
        if (caller := _callers.get()) is not None:
            done: Future[T] = Future()
            caller.put(lambda: _do(partial(act, self._opened()), done))
            return await asyncio.wrap_future(done)
        self._queued += 1
        try:
            if self._consumer is not None:
                self._consumer._reader.interrupted = True
            await self._turn.acquire()
        finally:
            self._queued -= 1
        try:
            return await self._in_thread(lambda: act(self._open()))
        finally:
            self._turn.release()

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Wait for the thread even when cancelled: two of them must never use the consumer at a time."""
        self._loop = asyncio.get_running_loop()
        future = self._loop.run_in_executor(self._thread, function)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if self._consumer is not None:
                self._consumer._reader.interrupted = True
            await asyncio.wait([future])
            raise

    def _on_loop(self, callback: AsyncRebalanced | None) -> Rebalanced | None:
        """What a thread calls to have the application's callback run on the loop."""
        if callback is None:
            return None

        async def run(partitions: list[TopicPartition], jobs: SimpleQueue[Job | None]) -> None:
            _callers.set(jobs)
            result = callback(self, partitions)
            if inspect.isawaitable(result):
                await result

        def call(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            assert self._loop is not None
            jobs: SimpleQueue[Job | None] = SimpleQueue()
            running = asyncio.run_coroutine_threadsafe(run(partitions, jobs), self._loop)
            running.add_done_callback(lambda _running: jobs.put(None))
            while (job := jobs.get()) is not None:
                job()
            running.result()

        return call


def _do(function: Callable[[], T], done: Future[T]) -> None:
    try:
        done.set_result(function())
    except BifrostError as error:
        done.set_exception(error)
    except BaseException as error:
        done.set_exception(error)
        raise
