"""InitProducerId and DescribeProducers: an identity for an idempotent producer, and what a log knows of them."""

from __future__ import annotations

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.controller.core.names import check_topic_name
from bifrost.errors import ApiError, ErrorCode
from bifrost.log.producers import ProducerEntry
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducerState,
)
from bifrost.types import TopicPartition


@api(ApiKey.INIT_PRODUCER_ID, versions=range(6))
async def init_producer_id(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """v3 brings the id and epoch that the producer had (KIP-360); v6 is not stable in Kafka."""
    if request.transactional_id == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    if request.transactional_id is not None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "transactions are not there yet")
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id comes with its epoch")
    # Without a transactional id there is nothing to fence: whoever asks gets an identity of its own.
    producer_id = await ctx.broker.producer_ids.next_id()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


@api(ApiKey.DESCRIBE_PRODUCERS, versions=range(1))
def describe_producers(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """KIP-664. Every replica answers for its own log; one that only another node has is not passed on."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersTopicResponse(
                name=topic.name,
                partitions=[_producers_of(ctx, TopicPartition(topic.name, index)) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _producers_of(ctx: RequestContext, tp: TopicPartition) -> DescribeProducersPartitionResponse:
    try:
        check_topic_name(tp.topic)
        entries = ctx.broker.replicas.get(tp).log.producers.entries
    except ApiError as error:
        return DescribeProducersPartitionResponse(
            partition_index=tp.partition, error_code=error.code, error_message=error.detail, active_producers=[]
        )
    return DescribeProducersPartitionResponse(
        partition_index=tp.partition,
        active_producers=[_state(producer_id, entry) for producer_id, entry in entries.items()],
    )


def _state(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else -1,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
