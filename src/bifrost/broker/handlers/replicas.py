"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders: where replicas shall be, who shall lead."""

from __future__ import annotations

from bifrost.broker.context import ControllerContext
from bifrost.broker.registry import admin_api
from bifrost.controller.core.elect_leaders import ElectionType
from bifrost.controller.core.reassignments import TopicMoves, WantedMove
from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)


def _none_moved(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, detail: str
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_code=code, error_message=detail
    )


@admin_api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=range(2), on_error=_none_moved, timed=True)
async def alter_partition_reassignments(
    ctx: ControllerContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """KIP-455. v1 may insist on the number of replicas (KIP-860)."""
    results = await ctx.odin.controller.alter_reassignments(
        [
            TopicMoves(topic.name, [WantedMove(one.partition_index, one.replicas) for one in topic.partitions])
            for topic in request.topics
        ],
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.topic,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=one.partition, error_code=one.error, error_message=one.message
                    )
                    for one in topic.partitions
                ],
            )
            for topic in results
        ],
    )


def _none_listed(
    _request: ListPartitionReassignmentsRequest, code: ErrorCode, detail: str
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=detail)


@admin_api(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1), on_error=_none_listed)
async def list_partition_reassignments(
    ctx: ControllerContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """KIP-455. What does not move is not mentioned, whether it exists or not."""
    wanted = None if request.topics is None else {topic.name: topic.partition_indexes for topic in request.topics}
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(
                name=topic.topic,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=partition,
                        replicas=list(state.replicas),
                        adding_replicas=list(state.adding),
                        removing_replicas=list(state.removing),
                    )
                    for partition, state in topic.partitions
                ],
            )
            for topic in await ctx.odin.controller.list_reassignments(wanted)
        ]
    )


@admin_api(ApiKey.ELECT_LEADERS, versions=range(3), timed=True)
async def elect_leaders(ctx: ControllerContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """KIP-183: to the first replica. v1 also to one that may lack writes, where no other is left (KIP-460)."""
    named = request.topic_partitions
    wanted = None if named is None else [(topic.topic, index) for topic in named for index in topic.partitions]
    topics: dict[str, ReplicaElectionResult] = {}
    uncleanly = request.election_type == ElectionType.UNCLEAN
    log_ends = await ctx.odin.lost.survivors_of(wanted) if uncleanly else {}
    for one in await ctx.odin.controller.elect_leaders(request.election_type, wanted, log_ends):
        result = topics.setdefault(one.topic, ReplicaElectionResult(topic=one.topic, partition_result=[]))
        result.partition_result.append(
            PartitionResult(partition_id=one.partition, error_code=one.error, error_message=one.message)
        )
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
