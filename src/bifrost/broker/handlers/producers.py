"""InitProducerId: an identity for an idempotent producer."""

from __future__ import annotations

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse


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
