"""Fetch: batches out. Hot path 9/9.

A fetch finds the slices of the log that it may send, and either answers or parks until enough is there. Slices
are read from the page cache on the loop; a slice that the cache does not hold is read by a thread, so that a consumer
of old data never makes the others wait.

Must never: send what is above the high watermark, or read so much in one go that the loop stalls.
"""

from __future__ import annotations

import asyncio
from typing import cast

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.context import Broker
from bifrost.broker.fetch_sessions import FetchPlan, TopicKey
from bifrost.broker.registry import raw_api
from bifrost.broker.slice_sender import is_sendable
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.log.partition_log import LogSlice
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
    TopicFetchResult,
    decode_request,
    encode_response,
)
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.wire import ZERO_UUID, Buffer
from bifrost.replication.partition import Partition
from bifrost.types import TopicPartition

READ_COMMITTED = 1
# A broker may answer with less than was asked for. This bounds the memory and the time that one answer takes.
ANSWER_BYTES_MAX = 8 * 1024 * 1024


class Attempt:
    """One look at everything that a request asks for."""

    __slots__ = ("errors", "results", "size", "slices")

    def __init__(self) -> None:
        self.results: list[tuple[TopicKey, PartitionFetchResult]] = []
        self.slices: list[LogSlice | None] = []
        self.size = 0
        self.errors = False


class ParkedFetch:
    """A fetch that waits for `min_bytes`, or for its time to be over."""

    __slots__ = ("_fetch", "_partitions", "_timer", "reply")

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._partitions = fetch.readable_partitions()
        self.reply = Reply(fetch.connection)
        self.reply.cancel = self._forget
        broker = fetch.broker
        for tp in self._partitions:
            broker.waiters.park_fetch(tp, self)
        self._timer = broker.loop.call_later(fetch.request.max_wait_ms / 1000, self._finish)

    def on_progress(self, partition: Partition) -> None:
        if self._fetch.request.min_bytes <= 1 or not partition.is_leader or self._fetch.attempt_is_enough():
            self._finish()

    def _finish(self) -> None:
        self._forget()
        self._fetch.answer_later(self.reply)

    def _forget(self) -> None:
        self._timer.cancel()
        for tp in self._partitions:
            self._fetch.broker.waiters.unpark_fetch(tp, self)


class Fetch:
    """One request and the plan to serve it."""

    __slots__ = ("broker", "connection", "header", "plan", "request")

    def __init__(
        self, broker: Broker, connection: Connection, header: RequestHeader, request: FetchRequest, plan: FetchPlan
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.header = header
        self.request = request
        self.plan = plan

    def start(self) -> Buffers | Reply:
        attempt = self.attempt()
        if self._is_enough(attempt):
            return self._answer(attempt)
        return ParkedFetch(self).reply

    def attempt(self) -> Attempt:
        """Find what can be sent now: partitions in order, each within its limit and what is left of the whole."""
        attempt = Attempt()
        left = min(self.request.max_bytes, self.broker.settings.fetch_max_bytes, ANSWER_BYTES_MAX)
        for topic, wanted in self.plan.partitions:
            result, piece = self._look(topic, wanted, left, first=attempt.size == 0)
            attempt.results.append((topic, result))
            attempt.slices.append(piece)
            if piece is not None:
                attempt.size += piece.size
                left -= piece.size
            elif result.error_code != ErrorCode.NONE or result.diverging_epoch is not None:
                attempt.errors = True
        return attempt

    def attempt_is_enough(self) -> bool:
        return self._is_enough(self.attempt())

    def readable_partitions(self) -> list[TopicPartition]:
        found = ((self._name(topic), wanted.index) for topic, wanted in self.plan.partitions)
        return [TopicPartition(name, index) for name, index in found if name is not None]

    def answer_later(self, reply: Reply) -> None:
        answer = self._answer(self.attempt(), reply)
        if not isinstance(answer, Reply):
            reply.send(answer)

    def _is_enough(self, attempt: Attempt) -> bool:
        request = self.request
        return (
            request.max_wait_ms <= 0
            or not self.plan.partitions
            or attempt.errors
            or attempt.size >= min(request.min_bytes, request.max_bytes)
        )

    def _name(self, topic: TopicKey) -> str | None:
        return topic if isinstance(topic, str) else self.broker.metadata.topic_name(topic)

    def _look(
        self, topic: TopicKey, wanted: FetchPartition, left: int, *, first: bool
    ) -> tuple[PartitionFetchResult, LogSlice | None]:
        """One partition: what it has for this request. `first` may send one batch whatever its size (KIP-74)."""
        name = self._name(topic)
        if name is None:
            return _unknown(wanted, ErrorCode.UNKNOWN_TOPIC_ID), None
        try:
            partition = self.broker.replicas.get(TopicPartition(name, wanted.index))
        except ApiError as error:
            return _unknown(wanted, error.code), None
        try:
            partition.check_epoch(wanted.current_leader_epoch)
            committed = self.request.isolation_level == READ_COMMITTED
            result = PartitionFetchResult(
                wanted.index,
                high_watermark=partition.high_watermark,
                last_stable_offset=partition.last_stable_offset,
                log_start_offset=partition.log.log_start_offset,
                aborted_transactions=[] if committed else None,
            )
            if wanted.last_fetched_epoch >= 0:
                result.diverging_epoch = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
                if result.diverging_epoch is not None:
                    return result, None
            limit = min(wanted.partition_max_bytes, left)
            if limit <= 0 and not first:
                return result, None
            piece = partition.read(wanted.fetch_offset, limit, committed_only=committed, min_one_batch=first)
            return result, piece
        except ApiError as error:
            return PartitionFetchResult(wanted.index, error.code), None
        except StorageError as error:
            self.broker.on_storage_error(error)
            return PartitionFetchResult(wanted.index, ErrorCode.KAFKA_STORAGE_ERROR), None

    def _answer(self, attempt: Attempt, reply: Reply | None = None) -> Buffers | Reply:
        """The answer, or a reply that will have it once a thread has read what the page cache lacks."""
        data = [b"" if piece is None else self._read(piece) for piece in attempt.slices]
        if None not in data:
            return self._encode(attempt, cast("list[Buffer | LogSlice]", data))
        reply = reply or Reply(self.connection)
        task = asyncio.ensure_future(self._read_cold(attempt, data, reply))
        reply.cancel = task.cancel
        return reply

    def _read(self, piece: LogSlice) -> Buffer | LogSlice | None:
        """The slice's bytes, or the slice itself when it can be sent from its file; None if it is not in memory."""
        if self.connection.can_send_slices() and is_sendable(piece):
            return piece
        return piece.file.read_cached(piece.size, piece.position)

    async def _read_cold(self, attempt: Attempt, data: list[Buffer | LogSlice | None], reply: Reply) -> None:
        for index, piece in enumerate(attempt.slices):
            if data[index] is None and piece is not None:
                try:
                    data[index] = await self.broker.loop.run_in_executor(
                        None, piece.file.read_at, piece.size, piece.position
                    )
                except StorageError as error:
                    self.broker.on_storage_error(error)
                    topic, result = attempt.results[index]
                    attempt.results[index] = (topic, PartitionFetchResult(result.index, ErrorCode.KAFKA_STORAGE_ERROR))
                    data[index] = b""
        reply.send(self._encode(attempt, cast("list[Buffer | LogSlice]", data)))

    def _encode(self, attempt: Attempt, data: list[Buffer | LogSlice]) -> Buffers:
        topics: list[TopicFetchResult] = []
        partitions: list[PartitionFetchResult] = []
        last: TopicKey | None = None
        plan = self.plan
        for (topic, result), records in zip(attempt.results, data):
            result.records = records
            if not plan.tell(topic, result):
                continue
            if records:
                plan.rotate(topic, result.index)
            if topic != last:
                last, partitions = topic, []
                name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
                topics.append(TopicFetchResult(name, topic_id, partitions))
            partitions.append(result)
        response = FetchResponse(topics, session_id=plan.session_id)
        return cast("Buffers", encode_response(self.header.api_version, self.header.correlation_id, response))


def _unknown(wanted: FetchPartition, code: ErrorCode) -> PartitionFetchResult:
    """A partition that is not served here; as Kafka does, with an empty list where others have none."""
    return PartitionFetchResult(wanted.index, code, aborted_transactions=[])


@raw_api(ApiKey.FETCH, versions=range(4, 19))
def fetch(broker: Broker, connection: Connection, header: RequestHeader, body: memoryview, at: int) -> Buffers | Reply:
    """v7 sessions (KIP-227); v9 leader epochs (KIP-320); v12 truncation (KIP-595); v13 topic ids (KIP-516)."""
    version = header.api_version
    request = decode_request(body, at, version)
    try:
        plan = broker.sessions.plan(request, by_id=version >= TOPIC_IDS_SINCE, now=broker.loop.time())
    except ApiError as error:
        refused = FetchResponse([], error_code=error.code)
        return cast("Buffers", encode_response(version, header.correlation_id, refused))
    return Fetch(broker, connection, header, request, plan).start()
