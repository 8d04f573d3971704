"""DeleteRecords: a partition begins later from now on, on all of its replicas. Kafka: DelayedDeleteRecords."""

from __future__ import annotations

import asyncio
from typing import Final

from bifrost.broker.context import Broker, RequestContext
from bifrost.broker.registry import api
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.deletions import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from bifrost.replication.partition import Partition
from bifrost.types import TopicPartition

UNKNOWN: Final = -1
_MS: Final = 1000.0


def _none_deleted(request: DeleteRecordsRequest, code: ErrorCode, _detail: str) -> DeleteRecordsResponse:
    return _response({tp: _result(tp, code) for tp in _wanted(request)})


@api(ApiKey.DELETE_RECORDS, versions=range(3), on_error=_none_deleted)
async def delete_records(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """KIP-107; v2 is flexible. Answered once no replica that lives would show any of the records, even after a loss of
    power, or when the time is over; they are gone then all the same, as soon as the others hear of it."""
    results: dict[TopicPartition, DeleteRecordsPartitionResult] = {}
    waiting = _Waiting(ctx.broker, results)
    for tp, offset in _wanted(request).items():
        try:
            waiting.begin(tp, offset)
        except ApiError as error:
            results[tp] = _result(tp, error.code)
    await waiting.until_all_have_heard(request.timeout_ms / _MS)
    return _response(results)


def _wanted(request: DeleteRecordsRequest) -> dict[TopicPartition, int]:
    """Where each partition should begin. One that is named twice does as it is told last."""
    return {
        TopicPartition(topic.name, wanted.partition_index): wanted.offset
        for topic in request.topics
        for wanted in topic.partitions
    }


class _Waiting:
    """The replicas that have yet to hear of it. Looks again whenever one of the partitions has moved."""

    def __init__(self, broker: Broker, results: dict[TopicPartition, DeleteRecordsPartitionResult]) -> None:
        self._broker = broker
        self._results = results
        self._offsets: dict[TopicPartition, int] = {}
        self._done: asyncio.Future[None] = broker.loop.create_future()

    def begin(self, tp: TopicPartition, offset: int) -> None:
        topic = self._broker.image.topics.get(tp.topic)
        if topic is not None and topic.is_internal and self._broker.replicas.exists(tp):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{tp} is the cluster's own")
        partition = self._broker.replicas.get(tp)
        offset = partition.delete_records(offset)
        low_watermark = partition.low_watermark
        if low_watermark >= offset:
            self._results[tp] = _result(tp, ErrorCode.NONE, low_watermark)
        else:
            self._results[tp] = _result(tp, ErrorCode.REQUEST_TIMED_OUT, low_watermark)
            self._offsets[tp] = offset

    async def until_all_have_heard(self, timeout_s: float) -> None:
        if not self._offsets:
            return
        parked, waiters = list(self._offsets), self._broker.waiters
        for tp in parked:
            waiters.park_deletion(tp, self)
        timer = self._broker.loop.call_later(max(timeout_s, 0), self._finish)
        try:
            await self._done
        finally:
            timer.cancel()
            for tp in parked:
                waiters.unpark_deletion(tp, self)

    def on_progress(self, partition: Partition) -> None:
        """The partition has moved: somebody has heard of the new start, or it is not led here any more."""
        tp = partition.tp
        offset = self._offsets.get(tp)
        if offset is None:
            return
        try:
            low_watermark = self._broker.replicas.get(tp).low_watermark
        except ApiError as error:
            self._results[tp] = _result(tp, error.code)
        else:
            if low_watermark < offset:
                return
            self._results[tp] = _result(tp, ErrorCode.NONE, low_watermark)
        del self._offsets[tp]
        if not self._offsets:
            self._finish()

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


def _result(tp: TopicPartition, code: ErrorCode, low_watermark: int = UNKNOWN) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=tp.partition, low_watermark=low_watermark, error_code=code)


def _response(results: dict[TopicPartition, DeleteRecordsPartitionResult]) -> DeleteRecordsResponse:
    topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for tp, result in results.items():
        topics.setdefault(tp.topic, []).append(result)
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
