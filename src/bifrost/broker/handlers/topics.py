"""CreateTopics, DeleteTopics, CreatePartitions: what clients ask the controller to change."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from bifrost.broker.context import ControllerContext
from bifrost.broker.registry import admin_api
from bifrost.controller.core.partitions import MorePartitions
from bifrost.controller.core.topics import CreatedTopic, NewTopic, TopicRef
from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from bifrost.settings import TopicDescriber


def _all_failed(request: CreateTopicsRequest, code: ErrorCode, detail: str) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=code, error_message=detail) for name in names]
    )


@admin_api(ApiKey.CREATE_TOPICS, versions=range(2, 8), on_error=_all_failed, timed=True)
async def create_topics(ctx: ControllerContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """v4 takes -1 for the broker's defaults (KIP-464); v5 returns the configs (KIP-525); v6 may be refused because
    of a limit (KIP-599); v7 returns the topic id (KIP-516)."""
    mutations = ctx.mutations(strict_since=6)
    created = await ctx.odin.controller.create_topics(
        [_new_topic(topic) for topic in request.topics], validate_only=request.validate_only, charge=mutations.charge
    )
    describer = ctx.odin.live.topic_describer()
    return CreateTopicsResponse(
        throttle_time_ms=mutations.wait_ms(), topics=[_result(describer, topic) for topic in created]
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        [(config.name, config.value) for config in topic.configs],
    )


def _result(describer: TopicDescriber, topic: CreatedTopic) -> CreatableTopicResult:
    if topic.error is not ErrorCode.NONE:
        return CreatableTopicResult(name=topic.name, error_code=topic.error, error_message=topic.message)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=UUID(bytes=topic.topic_id),
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
            for entry in describer.describe(topic.configs)
        ],
    )


def _none_deleted(request: DeleteTopicsRequest, code: ErrorCode, detail: str) -> DeleteTopicsResponse:
    refs = [(topic.name, topic.topic_id) for topic in request.topics]
    named = [DeletableTopicResult(name=name, error_code=code, error_message=detail) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=named
        + [
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=detail)
            for name, topic_id in refs
        ]
    )


@admin_api(ApiKey.DELETE_TOPICS, versions=range(1, 7), on_error=_none_deleted, timed=True)
async def delete_topics(ctx: ControllerContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """v5 says why in words, and may be refused because of a limit (KIP-599); v6 takes topic ids (KIP-516)."""
    mutations = ctx.mutations(strict_since=5)
    refs = [TopicRef(name) for name in request.topic_names]
    refs += [TopicRef(topic.name, topic.topic_id.bytes) for topic in request.topics]
    deleted = await ctx.odin.controller.delete_topics(refs, charge=mutations.charge)
    return DeleteTopicsResponse(
        throttle_time_ms=mutations.wait_ms(),
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=UUID(bytes=topic.topic_id),
                error_code=topic.error,
                error_message=topic.message,
            )
            for topic in deleted
        ],
    )


def _none_grown(request: CreatePartitionsRequest, code: ErrorCode, detail: str) -> CreatePartitionsResponse:
    names = Counter(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=name, error_code=code, error_message=detail) for name in names]
    )


@admin_api(ApiKey.CREATE_PARTITIONS, versions=range(4), on_error=_none_grown, timed=True)
async def create_partitions(ctx: ControllerContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """KIP-195. v2 is flexible; v3 may be refused because of a limit (KIP-599)."""
    mutations = ctx.mutations(strict_since=3)
    results = await ctx.odin.controller.create_partitions(
        [
            MorePartitions(
                topic.name,
                topic.count,
                None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
            )
            for topic in request.topics
        ],
        validate_only=request.validate_only,
        charge=mutations.charge,
    )
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.wait_ms(),
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=topic.error, error_message=topic.message)
            for topic in results
        ],
    )
