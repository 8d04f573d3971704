"""ListOffsets and OffsetForLeaderEpoch: questions about where things are in a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.log.timestamps import TimestampAndOffset, find_timestamp, max_timestamp
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.log_offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from bifrost.replication.partition import Partition
from bifrost.types import TopicPartition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
MAX_TIMESTAMP_SINCE = 7
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
OFFSET_NOT_AVAILABLE_SINCE = 5
CONSUMER = -1
ANY_REPLICA = -2  # Kafka: FetchRequest.DEBUGGING_CONSUMER_ID
READ_COMMITTED = 1


def _none_listed(request: ListOffsetsRequest, code: ErrorCode, _detail: str) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@api(ApiKey.LIST_OFFSETS, versions=range(1, 12), on_error=_none_listed)
def list_offsets(
    ctx: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """v2 isolation level; v4 leader epoch (KIP-320); v7 largest timestamp (KIP-734); nothing is ever tiered."""
    if request.isolation_level not in (0, READ_COMMITTED):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"isolation level {request.isolation_level}")
    if any(_by_time(ctx, wanted.timestamp) for topic in request.topics for wanted in topic.partitions):
        return _list_offsets_by_time(ctx, request)
    return _respond(ctx, request, {})


async def _list_offsets_by_time(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """A look-up by time reads batches from disk and looks inside one: not on the loop."""
    found: dict[tuple[str, int], ListOffsetsPartitionResponse] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            if _by_time(ctx, wanted.timestamp):
                found[topic.name, wanted.partition_index] = await _find_by_time(ctx, request, topic.name, wanted)
    return _respond(ctx, request, found)


def _respond(
    ctx: RequestContext, request: ListOffsetsRequest, found: dict[tuple[str, int], ListOffsetsPartitionResponse]
) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=_list_topic(ctx, request, topic, found))
            for topic in request.topics
        ]
    )


def _list_topic(
    ctx: RequestContext,
    request: ListOffsetsRequest,
    topic: ListOffsetsTopic,
    found: dict[tuple[str, int], ListOffsetsPartitionResponse],
) -> list[ListOffsetsPartitionResponse]:
    """One answer for each partition; one that is asked about twice is not answered at all."""
    times = Counter(wanted.partition_index for wanted in topic.partitions)
    answers = {}
    for wanted in topic.partitions:
        index = wanted.partition_index
        if times[index] > 1:
            answer = ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
        else:
            answer = found.get((topic.name, index)) or _list_one(ctx, request, topic.name, wanted)
        answers[index] = answer
    return list(answers.values())


def _by_time(ctx: RequestContext, timestamp: int) -> bool:
    return timestamp >= 0 or (timestamp == MAX_TIMESTAMP and ctx.version >= MAX_TIMESTAMP_SINCE)


def _partition(ctx: RequestContext, request: ListOffsetsRequest, name: str, wanted: ListOffsetsPartition) -> Partition:
    partition = ctx.broker.replicas.get(TopicPartition(name, wanted.partition_index))
    partition.check_epoch(wanted.current_leader_epoch)
    if request.replica_id != ANY_REPLICA:
        partition.check_leader(wanted.current_leader_epoch)
    return partition


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """How far the asker may look: a consumer to what is committed, whoever asks for a replica as such to its end."""
    if request.replica_id != CONSUMER:
        return partition.log.log_end_offset
    return partition.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.high_watermark


def _check_end_is_known(ctx: RequestContext, partition: Partition, end: int) -> None:
    """A new leader may know of less than its predecessor had committed, until its followers have fetched (KIP-207)."""
    if partition.is_leader and end < partition.leader.epoch_start:
        known = ctx.version >= OFFSET_NOT_AVAILABLE_SINCE
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE, str(partition.tp))


def _list_one(
    ctx: RequestContext, request: ListOffsetsRequest, name: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        partition = _partition(ctx, request, name, wanted)
        if wanted.timestamp == LATEST:
            offset = _end(partition, request)
            _check_end_is_known(ctx, partition, offset)
        elif wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
            offset = partition.log.log_start_offset
        elif wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return ListOffsetsPartitionResponse(partition_index=index)  # nothing is ever tiered
        else:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {wanted.timestamp}")
        epoch = partition.epoch_at(offset)
        return ListOffsetsPartitionResponse(partition_index=index, offset=offset, leader_epoch=epoch)
    except ApiError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)


async def _find_by_time(
    ctx: RequestContext, request: ListOffsetsRequest, name: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        partition = _partition(ctx, request, name, wanted)
        end, epoch = _end(partition, request), partition.leader_epoch
        try:
            place = await _look_up(ctx, partition, wanted.timestamp, end)
        except (ApiError, StorageError):
            if ctx.broker.replicas.find(partition.tp) is partition and partition.leader_epoch == epoch:
                raise
            # While a thread was looking, another leader had the log cut, or the replica and its files went elsewhere.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(partition.tp)) from None
        if place is None or place.offset >= end:
            _check_end_is_known(ctx, partition, end)
            return ListOffsetsPartitionResponse(partition_index=index)
        return ListOffsetsPartitionResponse(
            partition_index=index,
            timestamp=place.timestamp_ms,
            offset=place.offset,
            leader_epoch=partition.epoch_at(place.offset),
        )
    except ApiError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    except StorageError as error:
        ctx.broker.on_storage_error(error)
        return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)


async def _look_up(ctx: RequestContext, partition: Partition, timestamp: int, end: int) -> TimestampAndOffset | None:
    run, log = ctx.broker.loop.run_in_executor, partition.log
    while True:
        before = (log.first_offset, log.directory, log.replacements)
        try:
            if timestamp == MAX_TIMESTAMP:
                return await run(None, max_timestamp, log, end)
            return await run(None, find_timestamp, log, timestamp, end)
        except (ApiError, StorageError):
            if (log.first_offset, log.directory, log.replacements) == before:
                raise
            # A segment had had its time while a thread was looking at it, or was cleaned, and then its file may be
            # another than was expected; or all of them moved to another directory: what is left is looked at again,
            # where it is.


@api(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=range(2, 5))
def offset_for_leader_epoch(ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """v3 names the asking replica; v4 is flexible. Where an epoch ended (KIP-101, KIP-320)."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_epoch_end(ctx, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _epoch_end(ctx: RequestContext, name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = ctx.broker.replicas.get(TopicPartition(name, wanted.partition))
        partition.check_leader(wanted.current_leader_epoch)
        epoch, end = partition.epoch_end(wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end)
    except ApiError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
