"""The time that a request names for what it asks for (`timeout_ms`). Kafka: ControllerRequestContext."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey

_OF_TOPICS: Final = {ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ALTER_PARTITION_REASSIGNMENTS}


async def in_time(answer: Any, request: Any) -> Any:
    """The answer, or ApiError(REQUEST_TIMED_OUT). Without any time nothing is done, as in Kafka; what names no topic,
    or none once, is nothing to do."""
    limit_s: float | None = request.timeout_ms / 1000
    if request.api in _OF_TOPICS and 1 not in Counter(one.name for one in request.topics).values():
        limit_s = None
    try:
        return await asyncio.wait_for(answer, limit_s)
    except TimeoutError:
        detail = f"not answered within {request.timeout_ms} ms; it may be done all the same"
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, detail) from None
