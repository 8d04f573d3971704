"""What brokers tell the active controller: that they start, live and stop, who is in sync, and what clients asked; and
what an operator tells it of a broker that will not come back."""

from __future__ import annotations

from uuid import UUID

from bifrost.broker.context import ControllerContext
from bifrost.broker.registry import admin_api, answer_inside, controller_api
from bifrost.controller.core.brokers import Registration
from bifrost.controller.core.directories import Assigned, assign_directories
from bifrost.controller.core.heartbeats import Heartbeat
from bifrost.controller.core.partition_changes import ChangedTopic, IsrChange, IsrMember, TopicIsrChanges
from bifrost.controller.core.records import Endpoint
from bifrost.errors import ErrorCode, OutcomeUnknownError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.brokers import (
    SECURITY_PROTOCOLS,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from bifrost.protocol.messages.envelopes import EnvelopeRequest, EnvelopeResponse
from bifrost.protocol.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from bifrost.protocol.messages.replicas import (
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
    AssignedDirectoryResult,
    AssignedPartitionResult,
    AssignedTopicResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


@controller_api(ApiKey.BROKER_REGISTRATION, versions=range(5))
async def broker_registration(ctx: ControllerContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    """KIP-631. v2 adds log directories (KIP-858), v3 the epoch of a clean stop (KIP-966)."""
    epoch = await ctx.odin.register(
        Registration(
            broker_id=request.broker_id,
            cluster_id=request.cluster_id,
            incarnation=request.incarnation_id.bytes,
            endpoints=tuple(
                Endpoint(one.name, one.host, one.port, SECURITY_PROTOCOLS[one.security_protocol & 3])
                for one in request.listeners
            ),
            rack=request.rack,
            previous_epoch=request.previous_broker_epoch,
            directories=tuple(directory.bytes for directory in request.log_dirs),
        )
    )
    return BrokerRegistrationResponse(broker_epoch=epoch)


@controller_api(ApiKey.BROKER_HEARTBEAT, versions=range(3))
async def broker_heartbeat(ctx: ControllerContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """KIP-631. v1 reports failed directories (KIP-858), v2 cordoned ones (KIP-1066)."""
    answer = await ctx.odin.heartbeat(
        Heartbeat(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            failed_directories=tuple(directory.bytes for directory in request.offline_log_dirs),
        ),
        ctx.connection,
    )
    return BrokerHeartbeatResponse(
        is_caught_up=answer.is_caught_up, is_fenced=answer.is_fenced, should_shut_down=answer.should_shut_down
    )


@controller_api(ApiKey.ALLOCATE_PRODUCER_IDS, versions=range(1))
async def allocate_producer_ids(
    ctx: ControllerContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """KIP-730."""
    block = await ctx.odin.controller.allocate_producer_ids(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch
    )
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


@controller_api(ApiKey.ALTER_PARTITION, versions=range(2, 4))
async def alter_partition(ctx: ControllerContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """KIP-497. v2 by topic ids (KIP-841), v3 with the epochs of members (KIP-903)."""
    wanted = [
        TopicIsrChanges(
            topic.topic_id.bytes,
            [
                IsrChange(
                    partition.partition_index,
                    partition.leader_epoch,
                    partition.partition_epoch,
                    [IsrMember(one.broker_id, one.broker_epoch) for one in partition.new_isr_with_epochs]
                    or [IsrMember(broker_id) for broker_id in partition.new_isr],
                    recovering=partition.leader_recovery_state == 1,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    changed = await ctx.odin.controller.alter_partitions(
        wanted, broker_id=request.broker_id, broker_epoch=request.broker_epoch
    )
    return AlterPartitionResponse(topics=[_changed_topic(topic) for topic in changed])


@controller_api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions=range(1))
async def assign_replicas_to_dirs(
    ctx: ControllerContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """KIP-858."""
    wanted = [
        Assigned(directory.id.bytes, topic.topic_id.bytes, one.partition_index)
        for directory in request.directories
        for topic in directory.topics
        for one in topic.partitions
    ]
    codes = await ctx.odin.controller.submit(
        lambda image: assign_directories(image, wanted, broker_id=request.broker_id, broker_epoch=request.broker_epoch)
    )
    answers = iter(codes)
    return AssignReplicasToDirsResponse(
        directories=[
            AssignedDirectoryResult(
                id=directory.id,
                topics=[
                    AssignedTopicResult(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignedPartitionResult(partition_index=one.partition_index, error_code=next(answers))
                            for one in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def _not_forgotten(_request: UnregisterBrokerRequest, code: ErrorCode, detail: str) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code, error_message=detail)


@admin_api(ApiKey.UNREGISTER_BROKER, versions=range(1), on_error=_not_forgotten)
async def unregister_broker(ctx: ControllerContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """KIP-631."""
    await ctx.odin.controller.unregister_broker(request.broker_id)
    return UnregisterBrokerResponse()


@controller_api(ApiKey.ENVELOPE, versions=range(1))
async def envelope(ctx: ControllerContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """What a client asked of a broker and only the active controller can answer (KIP-590)."""
    try:
        return EnvelopeResponse(response_data=await answer_inside(ctx.odin, ctx.connection, request.request_data))
    except OutcomeUnknownError as error:  # our nodes tell it from a refusal, which has null
        return EnvelopeResponse(error_code=error.code, response_data=b"")


def _changed_topic(topic: ChangedTopic) -> AlterPartitionTopicResult:
    return AlterPartitionTopicResult(
        topic_id=UUID(bytes=topic.topic_id),
        partitions=[
            AlterPartitionPartitionResult(
                partition_index=one.partition,
                error_code=one.error,
                leader_id=one.leader,
                leader_epoch=one.leader_epoch,
                isr=list(one.isr),
                partition_epoch=one.partition_epoch,
            )
            for one in topic.partitions
        ],
    )
