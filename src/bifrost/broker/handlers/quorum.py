"""What members of the quorum, and those who follow it, ask a controller: votes, epochs, the log and its snapshots."""

from __future__ import annotations

import asyncio
from functools import partial

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.context import ControllerContext, RequestContext
from bifrost.broker.handlers.cluster import check_software
from bifrost.broker.handlers.features import tell_features
from bifrost.broker.odin import Odin
from bifrost.broker.registry import CONTROLLER_APIS, announced, api, controller_api, raw_controller_api
from bifrost.errors import ApiError, ErrorCode, ProtocolError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.fetch.request import decode_request
from bifrost.protocol.fetch.response import FetchResponse, encode_response
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from bifrost.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumPartitionResult,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResult,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from bifrost.raft import wire


@controller_api(
    ApiKey.API_VERSIONS,
    versions=range(5),
    on_error=lambda _request, code, _detail: ApiVersionsResponse(error_code=code, api_keys=[]),
)
def controller_api_versions(ctx: ControllerContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """As on a broker's listener, with the APIs of this one."""
    check_software(ctx.version, request)
    answer = ApiVersionsResponse(api_keys=announced(CONTROLLER_APIS))
    return tell_features(answer, ctx.odin.replica.image, ctx.version)


@controller_api(ApiKey.VOTE, versions=range(3))
def vote(ctx: ControllerContext, request: VoteRequest) -> VoteResponse:
    """KIP-595. v1 names voters by directory too (KIP-853); v2 may be a pre-vote (KIP-996)."""
    return ctx.odin.service.vote(request)


@controller_api(ApiKey.BEGIN_QUORUM_EPOCH, versions=range(2))
def begin_quorum_epoch(ctx: ControllerContext, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """KIP-595. v1 says to which voter, and where the leader listens (KIP-853)."""
    return ctx.odin.service.begin_epoch(request)


@controller_api(ApiKey.END_QUORUM_EPOCH, versions=range(2))
def end_quorum_epoch(ctx: ControllerContext, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """KIP-595. v1 names voters as KIP-853 does."""
    return ctx.odin.service.end_epoch(request)


@controller_api(ApiKey.FETCH_SNAPSHOT, versions=range(2))
async def fetch_snapshot(ctx: ControllerContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """KIP-630."""
    return await ctx.odin.service.fetch_snapshot(request)


@raw_controller_api(ApiKey.FETCH, versions=range(13, 19))
def fetch_metadata(odin: Odin, connection: Connection, header: RequestHeader, frame: memoryview, at: int) -> Reply:
    """The metadata log, by its topic id. v17 says from which directory (KIP-853), v18 how far one knows (KIP-1166)."""
    request = decode_request(frame, at, header.api_version)
    reply = Reply(connection)
    pending = asyncio.ensure_future(odin.service.fetch(request))
    reply.cancel = pending.cancel
    pending.add_done_callback(partial(_finish_fetch, reply, odin, header))
    return reply


def _finish_fetch(reply: Reply, odin: Odin, header: RequestHeader, done: asyncio.Future[FetchResponse]) -> None:
    if done.cancelled():
        return
    error = done.exception()
    if error is None:
        response = done.result()
    elif isinstance(error, ApiError):
        response = FetchResponse([], error_code=error.code)
    else:
        odin.on_bug(error)
        reply.fail(ProtocolError("the fetch failed"))
        return
    buffers: Buffers = encode_response(header.api_version, header.correlation_id, response)  # type: ignore[assignment]
    reply.send(buffers)


def _none_described(request: DescribeQuorumRequest, code: ErrorCode, detail: str) -> DescribeQuorumResponse:
    if code is ErrorCode.NOT_CONTROLLER:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # as every other question to the quorum's log is refused
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumTopicResult(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumPartitionResult(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=detail,
                        leader_id=-1,
                        leader_epoch=-1,
                        high_watermark=-1,
                        current_voters=[],
                        observers=[],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@controller_api(ApiKey.DESCRIBE_QUORUM, versions=range(3), on_error=_none_described)
async def describe_quorum(ctx: ControllerContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """v1 adds times (KIP-836), v2 directories, addresses and messages (KIP-853)."""
    try:
        wire.only_partition(request.topics)
    except ApiError as error:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error.detail) from None
    return await ctx.odin.describe_quorum()


@api(ApiKey.DESCRIBE_QUORUM, versions=range(3), on_error=_none_described)
async def describe_quorum_for_clients(ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """As the leader of the quorum tells it, which alone knows how far the others are."""
    return await ctx.broker.channel.ask(request, DescribeQuorumResponse)
