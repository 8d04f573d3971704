"""What followers are sent: at once what was appended, once until they have said what became of it, and who counts."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.replica_fetches import ReplicaFetches
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
from bifrost.replication.partition import Partition, Surroundings
from bifrost.types import NodeId, TopicPartition
from tests.unit.broker.stand_ins import on_loop, turns, until

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


class Led:
    """Partitions that this node leads, and a follower that asks for them."""

    def __init__(self, count: int = 1) -> None:
        self.around = Surroundings(me=ME, wake=lambda _: None, live={ME: 10, FOLLOWER: 20})
        self.partitions = [self._make(index) for index in range(count)]
        self.line = Line()
        self.fetches = ReplicaFetches(
            self._find, loop=asyncio.get_running_loop(), rng=Random(1), on_storage_error=lambda _: None
        )
        self.session_id, self.epoch = 0, 0
        self.number = 0

    def _make(self, index: int) -> Partition:
        tp = TopicPartition("orders", index)
        log = PartitionLog.open(
            MemoryDisk(), f"/{tp}", tp, LogConfig(), clean=False, recovery_point=0, now_ms=NOW, policy=FlushPolicy.OS
        )
        partition = Partition(tp, log, self.around, min_insync_replicas=1, topic_id=TOPIC_ID)
        partition.lead(EPOCH, (ME, FOLLOWER), frozenset({ME, FOLLOWER}), 1)
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


@led()
async def test_what_is_there_is_sent_at_once(it: Led) -> None:
    it.append()
    it.append()
    assert it.ask((0, 0)).offsets() == [0, 1]


@led()
async def test_what_is_appended_is_sent_to_whoever_waits_together_with_all_of_that_turn(it: Led) -> None:
    assert it.ask((0, 0)).results[0].high_watermark == 0
    waiting = it.ask()
    assert waiting.answer is None
    it.append()
    it.append()
    await turns(2)
    assert waiting.offsets() == [0, 1], "what is not committed yet is fetched all the same"


@led()
async def test_what_was_sent_is_not_sent_again_before_the_follower_has_said_how_far_it_is(it: Led) -> None:
    it.append()
    assert it.ask((0, 0)).offsets() == [0]
    waiting = it.ask()
    it.append()
    await turns(3)
    assert waiting.answer is None
    assert it.ask((0, 1)).offsets() == [1]
    assert waiting.results == {}, "the next request makes the one that waits answer"


@led()
async def test_what_the_follower_asks_for_is_what_it_holds(it: Led) -> None:
    it.append()
    it.ask((0, 0))
    assert it.partitions[0].high_watermark == 0
    it.ask((0, 1))
    assert it.partitions[0].high_watermark == 1


@led()
async def test_another_history_does_not_count(it: Led) -> None:
    """Its log is longer, and not this one: it is told where to cut."""
    it.append()
    it.append()
    asked = it.ask((0, 2), last_epoch=EPOCH - 1)
    assert asked.results[0].diverging_epoch == (EPOCH - 1, 0)
    assert it.partitions[0].high_watermark == 0, "it holds two records, but not these"
    assert it.ask((0, 0)).offsets() == [0, 1]


@led()
async def test_what_a_follower_holds_beyond_the_end_does_not_count_for_what_is_written_there_later(it: Led) -> None:
    """One that began anew behind what its last leader had deleted does not know any epoch."""
    it.append()
    asked = it.ask((0, 40))
    assert asked.results[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    it.append()
    assert it.partitions[0].high_watermark == 0


@led()
async def test_that_more_is_committed_is_told_a_little_later(it: Led) -> None:
    it.append()
    it.ask((0, 0))
    waiting = it.ask((0, 1))
    assert it.partitions[0].high_watermark == 1
    assert waiting.answer is None, "it was just this request that committed it, but there is no more to tell"
    await until(lambda: waiting.answer is not None)
    assert waiting.results[0].high_watermark == 1


@led()
async def test_that_more_is_committed_is_told_together_with_more_data(it: Led) -> None:
    it.append()
    it.ask((0, 0))
    waiting = it.ask((0, 1))
    it.append()
    await turns(2)
    assert (waiting.offsets(), waiting.results[0].high_watermark) == ([1], 1)
    waiting = it.ask((0, 2))
    await until(lambda: waiting.answer is not None)
    assert waiting.results[0].high_watermark == 2


@led(count=2)
async def test_that_more_is_committed_is_told_together_with_the_data_of_others(it: Led) -> None:
    it.append(0)
    it.ask((0, 0), (1, 0))
    waiting = it.ask((0, 1))
    it.append(1)
    await turns(2)
    assert waiting.offsets(1) == [0]
    assert waiting.results[0].high_watermark == 1


@led()
async def test_a_leader_that_resigns_tells_its_followers(it: Led) -> None:
    it.ask((0, 0))
    waiting = it.ask()
    it.partitions[0].follow(NodeId(3), EPOCH + 1, (ME, FOLLOWER))
    await turns(2)
    assert waiting.results[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert it.partitions[0].watchers == {}


@led()
async def test_who_is_behind_what_was_deleted_learns_where_the_log_begins(it: Led) -> None:
    for _ in range(3):
        it.append()
    it.partitions[0].log.advance_log_start(2)
    refused = it.ask((0, 0)).results[0]
    assert (ErrorCode(refused.error_code), refused.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)


@led(count=3)
async def test_what_does_not_fit_is_sent_next_time(it: Led) -> None:
    for index in range(3):
        it.append(index, size=600)
    first = it.ask((0, 0), (1, 0), (2, 0), max_bytes=1000)
    sent = {index for index, result in first.results.items() if result.records}
    assert sent == {0}
    second = it.ask(max_bytes=1 << 20)
    assert {index for index, result in second.results.items() if result.records} == {1, 2}


@led(count=2)
async def test_a_forgotten_partition_wakes_nobody(it: Led) -> None:
    it.ask((0, 0), (1, 0))
    waiting = it.ask(forget=(1,))
    it.append(1)
    await turns(3)
    assert waiting.answer is None
    assert it.partitions[1].watchers == {}


@led()
async def test_a_connection_that_is_lost_takes_its_session_with_it(it: Led) -> None:
    it.ask((0, 0))
    it.ask()
    it.line.when_lost["replica fetches"]()
    assert it.partitions[0].watchers == {}
    refused = it.ask((0, 0)).answer
    assert refused is not None
    assert ErrorCode(refused.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@led()
async def test_requests_of_a_session_come_in_order_or_not_at_all(it: Led) -> None:
    it.ask((0, 0))
    it.epoch = 7
    refused = it.ask().answer
    assert refused is not None
    assert ErrorCode(refused.error_code) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


@on_loop
async def test_a_write_costs_the_same_however_many_partitions_are_followed() -> None:
    counts = []
    for count in (1, 200):
        it = Led(count)
        it.ask(*((index, 0) for index in range(count)))
        waiting = it.ask()
        calls = 0

        def on_call(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        gc.disable()  # what earlier tests left behind may have something to say when it goes
        sys.setprofile(on_call)
        try:
            it.append(0)
            await turns(2)
        finally:
            sys.setprofile(None)
            gc.enable()
        assert waiting.offsets() == [0]
        counts.append(calls)
    assert counts[0] == counts[1]


@led()
async def test_a_replica_that_its_leader_has_not_heard_of_yet_is_refused_and_counts_when_it_asks_again(it: Led) -> None:
    """Nobody writes here, so nothing else would make it ask: it must not be left waiting uncounted."""
    (partition,) = it.partitions
    partition.lead(EPOCH, (ME,), frozenset({ME}), 2)
    early = it.ask((0, 0))
    assert early.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition.lead(EPOCH, (ME, FOLLOWER), frozenset({ME}), 3)
    it.ask((0, 0))
    assert partition.leader.followers[FOLLOWER].end_offset == 0


@led(2)
async def test_a_replica_that_its_leader_hears_of_before_it_answers_counts_from_then_on(it: Led) -> None:
    new = it.partitions[1]
    new.lead(EPOCH, (ME,), frozenset({ME}), 2)
    it.append(0, size=500)
    it.ask((0, 0), (1, 0), max_bytes=100)  # there is no room left in this answer for the second
    new.lead(EPOCH, (ME, FOLLOWER), frozenset({ME}), 3)
    it.ask((0, 1))
    assert new.leader.followers[FOLLOWER].end_offset == 0
