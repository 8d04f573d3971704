"""Partitions that a node leads, and a follower that asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.replica_fetches import ReplicaFetches
from bifrost.broker.replica_session import CatchUpLimits
from bifrost.errors import ApiError, ErrorCode
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.fetch import (
    VERSIONS,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionFetchResult,
    decode_response,
)
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.records import encode_batch
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.types import NodeId, TopicPartition
from tests.unit.broker.stand_ins import on_loop

ME, FOLLOWER = NodeId(1), NodeId(2)
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000
VERSION = VERSIONS[-1]
EPOCH = 4


class Line:
    """A connection, as far as answers need one."""

    def __init__(self) -> None:
        self.when_lost: dict[str, Callable[[], None]] = {}

    def can_send_slices(self) -> bool:
        return False

    def flush_replies(self) -> None: ...


class Timer:
    """What was to happen later, unless it is cancelled."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class HandLoop:
    """The loop, but time passes when it is told to."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._timers: list[Timer] = []
        self.call_soon = asyncio.get_running_loop().call_soon

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self._now + delay, call))
        return self._timers[-1]

    def let_pass(self, seconds: float) -> None:
        self._now += seconds
        due = [timer for timer in self._timers if timer.at <= self._now]
        self._timers = [timer for timer in self._timers if timer.at > self._now]
        for timer in due:
            if timer.call is not None:
                timer.call()


class Led:
    """Partitions that this node leads, and a follower that asks for them."""

    def __init__(self, count: int = 1, limits: CatchUpLimits | None = None, behind: tuple[int, ...] = ()) -> None:
        """The follower is in sync but for those partitions that it is `behind` of."""
        self._behind = behind
        self.around = Surroundings(me=ME, wake=lambda _: None, live={ME: 10, FOLLOWER: 20})
        self.partitions = [self._make(index) for index in range(count)]
        self.line = Line()
        self.loop = HandLoop()
        self.fetches = ReplicaFetches(
            self._find,
            loop=cast("asyncio.AbstractEventLoop", self.loop),
            rng=Random(1),
            on_storage_error=lambda _: None,
            limits=limits,
        )
        self.session_id, self.epoch = 0, 0
        self.number = 0

    def _make(self, index: int) -> Partition:
        tp = TopicPartition("orders", index)
        log = PartitionLog.open(
            MemoryDisk(), f"/{tp}", tp, LogConfig(), clean=False, recovery_point=0, now_ms=NOW, policy=FlushPolicy.OS
        )
        partition = Partition(tp, log, self.around, min_insync_replicas=1, topic_id=TOPIC_ID)
        isr = {ME} if index in self._behind else {ME, FOLLOWER}
        partition.lead(EPOCH, (ME, FOLLOWER), frozenset(isr), 1)
        return partition

    def _find(self, topic_id: bytes, index: int) -> Partition:
        if topic_id != TOPIC_ID or index >= len(self.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.partitions[index]

    def append(self, index: int = 0, size: int = 10) -> None:
        batch = memoryview(encode_batch([(NOW, None, b"v" * size, ())]))
        self.partitions[index].append(batch, acks=1, api_version=9, transactional_id=None, now_ms=NOW)

    def ask(
        self, *wanted: tuple[int, int], last_epoch: int = -1, forget: tuple[int, ...] = (), max_bytes: int = 1 << 20
    ) -> Asked:
        """Ask for (partition, offset) pairs, in a session that goes on."""
        partitions = [FetchPartition(index, EPOCH, offset, last_epoch, 0, 1 << 20) for index, offset in wanted]
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=[FetchTopic("", TOPIC_ID, partitions)] if partitions else [],
            forgotten_topics=[ForgottenTopic("", TOPIC_ID, list(forget))] if forget else [],
            session_id=self.session_id,
            session_epoch=self.epoch,
            replica_id=FOLLOWER,
            replica_epoch=20,
        )
        self.number += 1
        self.epoch += 1
        header = RequestHeader(ApiKey.FETCH, VERSION, self.number, None)
        return Asked(self, self.fetches.start(cast("Connection", self.line), header, request))


class Asked:
    """A request, and its answer if there is one."""

    def __init__(self, led: Led, outcome: Buffers | Reply) -> None:
        self._led = led
        self._outcome = outcome
        self.answer  # noqa: B018  # an answer that is there tells the session's id

    @property
    def answer(self) -> FetchResponse | None:
        buffers = self._outcome.buffers if isinstance(self._outcome, Reply) else self._outcome
        if buffers is None:
            return None
        response = decode_response(b"".join(bytes(cast("bytes", one)) for one in buffers)[9:], 0, VERSION)
        self._led.session_id = response.session_id or self._led.session_id
        return response

    @property
    def results(self) -> dict[int, PartitionFetchResult]:
        assert self.answer is not None, "it is still waiting"
        return {result.index: result for topic in self.answer.topics for result in topic.partitions}

    def offsets(self, index: int = 0) -> list[int]:
        """Of the batches that came."""
        records = cast("memoryview", self.results[index].records)
        return [header.base_offset for _, header in iter_headers(records)]


Test = Callable[[Led], Coroutine[Any, Any, None]]


def led(count: int = 1) -> Callable[[Test], Callable[[], None]]:
    def decorate(test: Test) -> Callable[[], None]:
        @on_loop
        async def run() -> None:
            await test(Led(count))

        run.__name__ = test.__name__
        return run

    return decorate
