"""The one table of APIs: what is dispatched is what ApiVersions announces. Part of hot path 2/9.

A handler is registered where it is written, with the versions that it answers. Most handlers see one message class,
whatever version travelled; Produce and Fetch are raw: they read the frame in place and write their own answer.

This is the only file that may catch everything: here a bug becomes UNKNOWN_SERVER_ERROR, a line in the log and a
counter, and never a crash of somebody else's request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from bifrost.broker.connection import PIPELINED, Buffers, Connection, Reply
from bifrost.broker.context import Broker, RequestContext
from bifrost.errors import ApiError, ErrorCode, ProtocolError, StorageError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import (
    RequestHeader,
    has_flexible_response_header,
    read_request_header,
    response_prefix,
)
from bifrost.protocol.messages import request_class, response_class
from bifrost.protocol.messages.cluster import ApiVersion, ApiVersionsResponse
from bifrost.protocol.schema import Message
from bifrost.protocol.wire import Buffer

log = logging.getLogger(__name__)

_SMALL_BYTES = 8 << 10

RawHandler = Callable[[Broker, Connection, RequestHeader, memoryview, int], Buffers | Reply | None]
Handler = Callable[[RequestContext, Any], Message | bytes | Awaitable[Message | bytes]]
ErrorAnswer = Callable[[Any, ErrorCode, str], Message]


@dataclass(slots=True, frozen=True)
class Api:
    """One row: who answers which versions of which API."""

    key: ApiKey
    versions: range
    announced_min: int
    start: RawHandler
    handler: Callable[..., Any]


APIS: dict[int, Api] = {}


def _register(entry: Api) -> None:
    assert entry.key not in APIS, f"{entry.key.name} registered twice"
    APIS[entry.key] = entry


def raw_api(key: ApiKey, versions: range, announced_min: int | None = None) -> Callable[[RawHandler], RawHandler]:
    """Register a handler that reads the frame itself."""

    def register(handler: RawHandler) -> RawHandler:
        low = versions.start if announced_min is None else announced_min
        _register(Api(key, versions, low, handler, handler))
        return handler

    return register


def api(key: ApiKey, versions: range, on_error: ErrorAnswer | None = None) -> Callable[[Handler], Handler]:
    """Register a handler of messages.

    `on_error` shapes the answer to a request that failed as a whole; by default it is an otherwise empty response
    with `error_code`.
    """

    def register(handler: Handler) -> Handler:
        answer = on_error or _default_error(key)

        def start(broker: Broker, connection: Connection, header: RequestHeader, body: memoryview, at: int) -> Any:
            context = RequestContext(broker, connection, header.api_version, header.client_id)
            return _start(handler, answer, context, header, body, at)

        _register(Api(key, versions, versions.start, start, handler))
        return handler

    return register


def _default_error(key: ApiKey) -> ErrorAnswer:
    def answer(_request: Any, code: ErrorCode, _detail: str) -> Message:
        return response_class(key)(error_code=code)

    return answer


def _start(
    handler: Handler, on_error: ErrorAnswer, ctx: RequestContext, header: RequestHeader, body: memoryview, at: int
) -> Buffers | Reply:
    request, _ = _reader(header.api_key, header.api_version)(body, at)
    try:
        answer = handler(ctx, request)
    except Exception as error:
        answer = _failed(on_error, ctx, request, error)
    if isinstance(answer, Message | bytes):
        return _encode(header, answer)
    reply = Reply(ctx.connection, pipelined=header.api_key in PIPELINED)
    pending = asyncio.ensure_future(answer)
    reply.cancel = pending.cancel  # the reply also keeps a task alive
    pending.add_done_callback(partial(_finish, reply, on_error, ctx, header, request))
    return reply


@cache
def _reader(api_key: int, version: int) -> Callable[[Buffer, int], tuple[Message, int]]:
    return reader(request_class(api_key), version)


def _finish(
    reply: Reply,
    on_error: ErrorAnswer,
    ctx: RequestContext,
    header: RequestHeader,
    request: Message,
    done: asyncio.Future[Message | bytes],
) -> None:
    if done.cancelled():
        return  # the client is gone
    try:
        buffers = _encode(header, done.result())
    except Exception as error:
        try:
            buffers = _encode(header, _failed(on_error, ctx, request, error))
        except Exception as fatal:
            reply.fail(fatal)
            return
    reply.send(buffers)


def _encode(header: RequestHeader, answer: Message | bytes) -> Buffers:
    """Small answers are one piece: to copy them is cheaper than to write them alone (see `Connection`)."""
    api_key, version, correlation_id, _ = header
    body = answer if isinstance(answer, bytes) else writer(type(answer), version)(answer)
    prefix = response_prefix(correlation_id, has_flexible_response_header(api_key, version), len(body))
    return (prefix + body,) if len(body) <= _SMALL_BYTES else (prefix, body)


def _failed(on_error: ErrorAnswer, ctx: RequestContext, request: Any, error: Exception) -> Message:
    """Turn a failure into an answer, or raise it on when no answer is right."""
    if isinstance(error, ApiError):
        return on_error(request, error.code, error.detail)
    if isinstance(error, StorageError):
        ctx.broker.on_storage_error(error)
        return on_error(request, ErrorCode.KAFKA_STORAGE_ERROR, "the disk failed")
    if isinstance(error, ProtocolError):
        raise error
    unexpected(ctx.broker, type(request).__name__, error)
    return on_error(request, ErrorCode.UNKNOWN_SERVER_ERROR, "")


def unexpected(broker: Broker, what: str, error: Exception) -> None:
    """A bug: say so, count it, and stop the node when it broke a promise of ours."""
    broker.metrics.unexpected_errors += 1
    log.error("unexpected error request=%s", what, exc_info=error)
    if isinstance(error, AssertionError):
        broker.on_bug(error)


class ApiDispatcher:
    """Finds the handler of each frame. See broker.connection for what it may return."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._requests = broker.metrics.requests
        self._max_bytes = broker.settings.request_max_bytes

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers | Reply | None:
        header, at = read_request_header(frame)
        entry = APIS.get(header.api_key)
        if entry is None or header.api_version not in entry.versions:
            if header.api_key == ApiKey.API_VERSIONS:
                return self._unknown_api_versions(header)
            raise ProtocolError(f"no version {header.api_version} of api {header.api_key}")
        if len(frame) > self._max_bytes and header.api_key != ApiKey.PRODUCE:
            # A megabyte can name half a million topics, and reading them takes a good part of a second of the loop.
            raise ProtocolError(f"{entry.key.name} of {len(frame)} bytes, {self._max_bytes} are allowed")
        self._requests[header.api_key] += 1
        try:
            return entry.start(self._broker, connection, header, frame, at)
        except ProtocolError:
            raise
        except Exception as error:
            unexpected(self._broker, entry.key.name, error)
            raise ProtocolError(f"{entry.key.name} failed") from error

    def _unknown_api_versions(self, header: RequestHeader) -> Buffers:
        """KIP-511: answered in the oldest format, so that every client can read it and try again."""
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=announced())
        return _encode(header._replace(api_version=0), answer)


def announced() -> list[ApiVersion]:
    """What ApiVersions tells."""
    return [
        ApiVersion(api_key=key, min_version=entry.announced_min, max_version=entry.versions.stop - 1)
        for key, entry in sorted(APIS.items())
    ]
