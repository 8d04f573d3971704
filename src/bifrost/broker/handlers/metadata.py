"""Metadata and DescribeTopicPartitions: which topics there are and who leads their partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from uuid import UUID

from bifrost.broker.context import RequestContext
from bifrost.broker.handlers.cluster import CLUSTER_OPERATIONS
from bifrost.broker.internal_topics import new_topic
from bifrost.broker.registry import api
from bifrost.broker.topic_creation import create_topics
from bifrost.controller.core.names import check_topic_name
from bifrost.controller.core.state import Topic
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages import AUTHORIZED_OPERATIONS_OMITTED
from bifrost.protocol.messages.cluster import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from bifrost.protocol.metadata import encode_response, encode_topic
from bifrost.protocol.schema import ZERO_UUID

TOPIC_IDS_SINCE = 12
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Everything that can be done to a topic (AclOperation 3 to 8, 10, 11), since there is no access control yet."""
PARTITIONS_PER_PAGE_MAX = 2000


def _all_failed(request: MetadataRequest, code: ErrorCode, _detail: str) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=code, name=wanted.name or "", topic_id=wanted.topic_id)
        for wanted in _distinct(request.topics or ())
    ]
    return MetadataResponse(brokers=[], topics=topics, error_code=code)


@api(ApiKey.METADATA, versions=range(14), on_error=_all_failed)
def metadata(ctx: RequestContext, request: MetadataRequest) -> bytes | Awaitable[bytes]:
    """v0 takes an empty list for all topics, later ones null; v4 may forbid creation; v12 asks by id (KIP-516)."""
    if request.topics is None or (ctx.version == 0 and not request.topics):
        return _answer(ctx, request, None)
    _check_references(ctx, request.topics)
    missing = _to_create(ctx, request)
    if missing:
        return _create_and_answer(ctx, request, missing)
    return _answer(ctx, request, {})


def _check_references(ctx: RequestContext, topics: Iterable[MetadataRequestTopic]) -> None:
    """Every topic is named, or from version 12 on given by its id; versions 10 and 11 only seem to take ids."""
    for topic in topics:
        if topic.topic_id != ZERO_UUID and ctx.version < TOPIC_IDS_SINCE:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"version {ctx.version} cannot ask by id")
        if topic.name is None and topic.topic_id == ZERO_UUID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "neither a name nor an id is given")


def _to_create(ctx: RequestContext, request: MetadataRequest) -> list[str]:
    if not (request.allow_auto_topic_creation and ctx.broker.settings.auto_create_topics_enable):
        return []
    topics = ctx.broker.image.topics
    wanted = [topic for topic in request.topics or () if topic.topic_id == ZERO_UUID]
    named = dict.fromkeys(topic.name for topic in wanted if topic.name is not None)
    return [name for name in named if name not in topics]


async def _create_and_answer(ctx: RequestContext, request: MetadataRequest, missing: list[str]) -> bytes:
    """Kafka answers that there is no such topic and lets the client ask again; here the topic is there at once."""
    broker = ctx.broker
    wanted = [new_topic(name, broker.settings, len(broker.image.brokers)) for name in missing]
    created = await create_topics(broker.channel, wanted)
    refused = {name: _as_lookup_error(error) for name, error in created.items() if error is not ErrorCode.NONE}
    return _answer(ctx, request, refused)


def _as_lookup_error(code: ErrorCode) -> ErrorCode:
    """Somebody else may have been faster, and a client that looks a topic up knows nothing of its replication."""
    if code is ErrorCode.INVALID_REPLICATION_FACTOR:
        return ErrorCode.INVALID_REPLICATION_FACTOR
    return code if code is ErrorCode.INVALID_TOPIC_EXCEPTION else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _answer(ctx: RequestContext, request: MetadataRequest, refused: dict[str, ErrorCode] | None) -> bytes:
    """The whole answer; `refused` is None when every topic was asked for."""
    cache, image = ctx.broker.metadata, ctx.broker.image
    if refused is None:
        topics = [_encode(ctx, request, topic) for topic in image.topics.values()]
    else:
        topics = [_look_up(ctx, request, wanted, refused) for wanted in _distinct(request.topics or ())]
    return encode_response(
        ctx.version,
        brokers=cache.listed_brokers(ctx.connection.listener),
        cluster_id=cache.cluster_id,
        controller_id=cache.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else AUTHORIZED_OPERATIONS_OMITTED
        ),
    )


def _distinct(topics: Iterable[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    return list({(topic.name, topic.topic_id): topic for topic in topics}.values())


def _look_up(
    ctx: RequestContext, request: MetadataRequest, wanted: MetadataRequestTopic, refused: dict[str, ErrorCode]
) -> bytes:
    image = ctx.broker.image
    by_id = wanted.topic_id != ZERO_UUID
    topic = image.topics_by_id.get(wanted.topic_id.bytes) if by_id else image.topics.get(wanted.name or "")
    if topic is not None:
        return _encode(ctx, request, topic)
    if by_id:
        code = ErrorCode.UNKNOWN_TOPIC_ID
        return encode_topic(ctx.version, error_code=code, name=None, topic_id=wanted.topic_id)
    name = wanted.name or ""
    code = refused.get(name) or _name_error(name)
    return encode_topic(ctx.version, error_code=code, name=name, topic_id=ZERO_UUID)


def _name_error(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _encode(ctx: RequestContext, request: MetadataRequest, topic: Topic) -> bytes:
    cache = ctx.broker.metadata
    if not request.include_topic_authorized_operations:
        return cache.encoded_topic(topic, ctx.version)
    return encode_topic(
        ctx.version,
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=UUID(bytes=topic.topic_id),
        is_internal=topic.is_internal,
        partitions=cache.partitions(topic),
        authorized_operations=TOPIC_OPERATIONS,
    )


def _none_described(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, _detail: str
) -> DescribeTopicPartitionsResponse:
    names = {topic.name: None for topic in request.topics}
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name=name, error_code=code) for name in names]
    )


@api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=range(1), on_error=_none_described)
def describe_topic_partitions(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """KIP-966: topics in the order of their names, in pages; the cursor says where the next one starts."""
    topics = ctx.broker.image.topics
    names = sorted({topic.name for topic in request.topics} or topics)
    first = request.cursor
    if first is not None:
        if first.topic_name not in names or first.partition_index < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"no page starts at {first.topic_name}-{first.partition_index}")
        names = [name for name in names if name >= first.topic_name]
    left = max(1, min(request.response_partition_limit, PARTITIONS_PER_PAGE_MAX))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = topics.get(name)
        if topic is None:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(
                    name=name, error_code=_name_error(name), topic_authorized_operations=TOPIC_OPERATIONS
                )
            )
            continue
        start = first.partition_index if first is not None and first.topic_name == name else 0
        described = _describe(ctx, topic, start, start + left)
        response.topics.append(described)
        left -= len(described.partitions)
        if start + len(described.partitions) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=start + len(described.partitions))
            break
    return response


def _describe(ctx: RequestContext, topic: Topic, start: int, end: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=UUID(bytes=topic.topic_id),
        is_internal=topic.is_internal,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=partition.error_code,
                partition_index=partition.partition_index,
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replica_nodes),
                isr_nodes=list(partition.isr_nodes),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(partition.offline_replicas),
            )
            for partition in ctx.broker.metadata.partitions(topic)[start:end]
        ],
    )
