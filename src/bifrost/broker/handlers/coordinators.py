"""FindCoordinator: which broker looks after a group. The topic that groups live in is made when first needed."""

from __future__ import annotations

from bifrost.broker.context import RequestContext
from bifrost.broker.internal_topics import new_topic
from bifrost.broker.registry import api
from bifrost.broker.topic_creation import create_topics
from bifrost.coordinator.router import OFFSETS_TOPIC, partition_for
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION = 0, 1
_BATCHED_SINCE = 4


def _none_found(request: FindCoordinatorRequest, code: ErrorCode, detail: str) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code,
        error_message=detail,
        coordinators=[Coordinator(key=key, error_code=code, error_message=detail) for key in request.coordinator_keys],
    )


@api(ApiKey.FIND_COORDINATOR, versions=range(7), on_error=_none_found)
async def find_coordinator(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """v1 key types; v4 many keys at once (KIP-699); v6 share groups (KIP-932), which are not there yet."""
    if request.key_type == TRANSACTION:
        # An error that clients give up on: they would look for a coordinator that is merely not available for ever.
        raise ApiError(ErrorCode.INVALID_REQUEST, "transactions are not there yet")
    if request.key_type != GROUP:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"no coordinator for keys of type {request.key_type}")
    await _ensure_topic(ctx)
    if ctx.version >= _BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=[_find(ctx, key) for key in request.coordinator_keys])
    found = _find(ctx, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        # A success has a text too: the name of Kafka's error code for it.
        error_message=found.error_message or ErrorCode.NONE.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _ensure_topic(ctx: RequestContext) -> None:
    """Kafka answers COORDINATOR_NOT_AVAILABLE while the topic is made; here the client need not ask again."""
    broker = ctx.broker
    if OFFSETS_TOPIC in broker.image.topics:
        return
    try:
        await create_topics(broker.channel, [new_topic(OFFSETS_TOPIC, broker.settings, len(broker.image.brokers))])
    except ApiError as error:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.detail) from error


def _find(ctx: RequestContext, key: str) -> Coordinator:
    """The leader of the group's partition, where clients of this listener reach it."""
    image = ctx.broker.image
    topic = image.topics.get(OFFSETS_TOPIC)
    state = topic.partitions[partition_for(key, len(topic.partitions))] if topic is not None else None
    leader = image.brokers.get(state.leader) if state is not None and state.has_leader else None
    endpoint = leader.endpoint(ctx.connection.listener) if leader is not None and not leader.fenced else None
    if leader is None or endpoint is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=key, error_code=code, error_message=f"{OFFSETS_TOPIC} has no leader for it")
    return Coordinator(key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port, error_message="")
