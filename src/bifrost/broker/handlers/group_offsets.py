"""Offsets that groups commit: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from collections.abc import Awaitable

from bifrost.broker.context import RequestContext
from bifrost.broker.handlers.groups import check_group_id
from bifrost.broker.registry import api
from bifrost.coordinator.driver import Question
from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_MANY_GROUPS_SINCE = 8
_OWN_ERROR_SINCE = 2
_NOT_KNOWN_TO_OLD_CLIENTS = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)


def _none_committed(request: OffsetCommitRequest, code: ErrorCode, _detail: str) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@api(ApiKey.OFFSET_COMMIT, versions=range(2, 11), on_error=_none_committed)
def offset_commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """v6 leader epochs (KIP-320); v7 static members; v9 members of the newer protocol (KIP-848); v10 topic ids."""
    return ctx.broker.groups.ask(
        request.group_id,
        lambda shard, respond: shard.offsets.commit(request, version=ctx.version, respond=respond),
    )


@api(ApiKey.OFFSET_FETCH, versions=range(1, 11))
async def offset_fetch(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """v2 null for all; v7 stable offsets only (KIP-447); v8 many groups (KIP-709); v9 KIP-848; v10 topic ids."""
    asked = request.groups if ctx.version >= _MANY_GROUPS_SINCE else [_as_group(request)]
    in_turn = iter(asked)  # a group may be asked about twice, for other partitions
    found = await ctx.broker.groups.ask_each(
        [group.group_id for group in asked],
        lambda _: _question(next(in_turn), ctx.version),
        lambda group_id, error: OffsetFetchResponseGroup(group_id=group_id, error_code=_as_told(error.code)),
    )
    if ctx.version >= _MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=found)
    return _as_single(request, found[0], ctx.version)


@api(ApiKey.OFFSET_DELETE, versions=range(1))
def offset_delete(
    ctx: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """KIP-496."""
    check_group_id(request.group_id)
    return ctx.broker.groups.ask(
        request.group_id, lambda shard, respond: shard.offsets.delete(request, respond=respond)
    )


def _question(group: OffsetFetchRequestGroup, version: int) -> Question[OffsetFetchResponseGroup]:
    return lambda shard, respond: respond(shard.offsets.fetch(group, version=version))


def _as_told(code: ErrorCode) -> ErrorCode:
    """Consumers before Kafka 3.9 do not ask again after any other error of this kind."""
    return ErrorCode.NOT_COORDINATOR if code in _NOT_KNOWN_TO_OLD_CLIENTS else code


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=one.name, partition_indexes=one.partition_indexes) for one in topics],
    )


def _as_single(request: OffsetFetchRequest, group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """The answer to a request for one group; version 1 has no error of its own, so each partition carries it."""
    if group.error_code and version < _OWN_ERROR_SINCE:
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, error_code=group.error_code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
        return OffsetFetchResponse(topics=topics)
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)
