"""The tables of APIs: what is dispatched is what ApiVersions announces. Part of hot path 2/9.

There is one for the listeners that clients use (`APIS`), and one for those of the quorum (`CONTROLLER_APIS`). A handler
is registered where it is written, with the versions that it answers. Most handlers see one message class,
whatever version travelled; Produce and Fetch are raw: they read the frame in place and write their own answer.

What only the active controller may decide is in both tables (`admin_api`): every other node, Heimdall or Odin, passes
it on.

This is the only file that may catch everything: here a bug becomes UNKNOWN_SERVER_ERROR, a line in the log and a
counter, and never a crash of somebody else's request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any

from bifrost.broker.connection import NOTHING, WRITES, Buffers, Connection, Reply
from bifrost.broker.context import Broker, Context, ControllerContext, Host, RequestContext
from bifrost.broker.odin import Odin
from bifrost.broker.quotas.client_quotas import ClientQuotas
from bifrost.broker.request_time import in_time
from bifrost.broker.throttling import passed_on, told_to_wait
from bifrost.errors import ApiError, ErrorCode, ProtocolError, StorageError
from bifrost.peers.names import node_name
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import (
    LENGTH_BYTES,
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

RawHandler = Callable[[Any, Connection, RequestHeader, memoryview, int], Buffers | Reply | None]
Handler = Callable[[Any, Any], Message | bytes | Awaitable[Message | bytes]]
ErrorAnswer = Callable[[Any, ErrorCode, str], Message]


@dataclass(slots=True, frozen=True)
class Api:
    """One row: who answers which versions of which API."""

    key: ApiKey
    versions: range
    announced_min: int
    start: RawHandler
    handler: Callable[..., Any]
    on_error: ErrorAnswer | None = None
    is_for_anybody: bool = False
    """Whether another node may pass it on for a client."""


APIS: dict[int, Api] = {}
CONTROLLER_APIS: dict[int, Api] = {}


def _register(table: dict[int, Api], entry: Api) -> None:
    assert entry.key not in table, f"{entry.key.name} registered twice"
    table[entry.key] = entry


def raw_api(key: ApiKey, versions: range, announced_min: int | None = None) -> Callable[[RawHandler], RawHandler]:
    """Register a handler that reads the frame itself."""

    def register(handler: RawHandler) -> RawHandler:
        low = versions.start if announced_min is None else announced_min
        _register(APIS, Api(key, versions, low, handler, handler))
        return handler

    return register


def raw_controller_api(key: ApiKey, versions: range) -> Callable[[RawHandler], RawHandler]:
    """The same, for the quorum's listeners."""

    def register(handler: RawHandler) -> RawHandler:
        _register(CONTROLLER_APIS, Api(key, versions, versions.start, handler, handler))
        return handler

    return register


def api(key: ApiKey, versions: range, on_error: ErrorAnswer | None = None) -> Callable[[Handler], Handler]:
    """Register a handler of messages.

    `on_error` shapes the answer to a request that failed as a whole; by default it is an otherwise empty response
    with `error_code`.
    """

    def register(handler: Handler) -> Handler:
        start = _starter(handler, on_error or _default_error(key), RequestContext)
        _register(APIS, Api(key, versions, versions.start, start, handler))
        return handler

    return register


def controller_api(key: ApiKey, versions: range, on_error: ErrorAnswer | None = None) -> Callable[[Handler], Handler]:
    """Register a handler of messages for the quorum's listeners."""

    def register(handler: Handler) -> Handler:
        start = _starter(handler, on_error or _default_error(key), ControllerContext)
        _register(CONTROLLER_APIS, Api(key, versions, versions.start, start, handler))
        return handler

    return register


def admin_api(
    key: ApiKey, versions: range, on_error: ErrorAnswer | None = None, *, timed: bool = False
) -> Callable[[Handler], Handler]:
    """Register what the active controller decides, whichever node was asked; if `timed`, within the request's time."""

    def register(handler: Handler) -> Handler:
        answer = on_error or _default_error(key)
        within = wraps(handler)(lambda ctx, request: in_time(handler(ctx, request), request))
        decide = within if timed else handler
        here = _starter(decide, answer, ControllerContext)

        def at_controller(
            odin: Odin, connection: Connection, header: RequestHeader, frame: memoryview, at: int
        ) -> Buffers | Reply | None:
            if odin.controller.is_active:
                return here(odin, connection, header, frame, at)
            return _pass_on(answer, odin, connection, header, frame, at, timed=timed)

        def at_broker(
            broker: Broker, connection: Connection, header: RequestHeader, frame: memoryview, at: int
        ) -> Buffers | Reply | None:
            return at_controller(broker.odin, connection, header, frame, at)

        _register(APIS, Api(key, versions, versions.start, at_broker, handler))
        _register(
            CONTROLLER_APIS, Api(key, versions, versions.start, at_controller, decide, answer, is_for_anybody=True)
        )
        return handler

    return register


def _starter(handler: Handler, on_error: ErrorAnswer, kind: Callable[..., Context]) -> RawHandler:
    def start(host: Host, connection: Connection, header: RequestHeader, body: memoryview, at: int) -> Any:
        context = kind(host, connection, header.api_version, header.client_id)
        return _start(handler, on_error, context, connection, header, body, at)

    return start


def _pass_on(
    on_error: ErrorAnswer,
    odin: Odin,
    connection: Connection,
    header: RequestHeader,
    frame: memoryview,
    at: int,
    *,
    timed: bool,
) -> Reply:
    """Let the active controller answer (KIP-590). The request is read here all the same: a broken one ends here."""
    request, _ = _reader(header.api_key, header.api_version)(frame, at)
    reply = Reply(connection)
    answer = odin.forward(bytes(frame), connection.peer)
    pending = asyncio.ensure_future(in_time(answer, request) if timed else answer)
    reply.cancel = pending.cancel

    def finish(done: asyncio.Future[bytes]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            answer = done.result()
            if header.throttle_ms is not None:
                answer = passed_on(connection, header, answer)
            reply.send((len(answer).to_bytes(LENGTH_BYTES, "big") + answer,))
        elif isinstance(error, ApiError):
            reply.send(_encode(header, on_error(request, error.code, error.detail)))
        else:
            reply.fail(error)

    pending.add_done_callback(finish)
    return reply


async def answer_here(odin: Odin, request: Message) -> Message:
    """The answer of this node's own controller to its own broker; ApiError if it is refused as a whole."""
    handler = CONTROLLER_APIS[request.api].handler
    answer = handler(ControllerContext(odin, None, request.versions[-1], node_name(odin.member.me)), request)
    message: Message = await answer if isinstance(answer, Awaitable) else answer
    return message


async def answer_inside(odin: Odin, connection: Connection | None, frame: bytes) -> bytes:
    """The answer to a request that a node passed on, header and all; ApiError if it is not to be passed on."""
    header, at = read_request_header(frame)
    entry = CONTROLLER_APIS.get(header.api_key)
    if entry is None or not entry.is_for_anybody or header.api_version not in entry.versions:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"api {header.api_key} is not passed on")
    request, _ = _reader(header.api_key, header.api_version)(frame, at)
    ctx = ControllerContext(odin, connection, header.api_version, header.client_id)
    try:
        answer = entry.handler(ctx, request)
        answer = await answer if isinstance(answer, Awaitable) else answer
    except ApiError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise  # the node that passed it on asks somebody else
        assert entry.on_error is not None, f"{entry.key.name} has no way to refuse"
        answer = entry.on_error(request, error.code, error.detail)
    return b"".join(map(bytes, _encode(header, answer)))[LENGTH_BYTES:]  # type: ignore[arg-type]


def _default_error(key: ApiKey) -> ErrorAnswer:
    def answer(_request: Any, code: ErrorCode, _detail: str) -> Message:
        return response_class(key)(error_code=code)

    return answer


def _start(
    handler: Handler,
    on_error: ErrorAnswer,
    ctx: Context,
    connection: Connection,
    header: RequestHeader,
    body: memoryview,
    at: int,
) -> Buffers | Reply:
    request, _ = _reader(header.api_key, header.api_version)(body, at)
    try:
        answer = handler(ctx, request)
    except Exception as error:
        answer = _failed(on_error, ctx, request, error)
    if isinstance(answer, Message | bytes):
        return _encode(header, answer, connection)
    if header.throttle_ms is not None:
        answer = ctx.host.quotas.timed(connection.user, header.client_id, answer)
    reply = Reply(connection, followed_by=WRITES if header.api_key in WRITES else NOTHING)
    pending = asyncio.ensure_future(answer)
    reply.cancel = pending.cancel  # the reply also keeps a task alive
    pending.add_done_callback(partial(_finish, reply, on_error, ctx, connection, header, request))
    return reply


@cache
def _reader(api_key: int, version: int) -> Callable[[Buffer, int], tuple[Message, int]]:
    return reader(request_class(api_key), version)


def _finish(
    reply: Reply,
    on_error: ErrorAnswer,
    ctx: Context,
    connection: Connection,
    header: RequestHeader,
    request: Message,
    done: asyncio.Future[Message | bytes],
) -> None:
    if done.cancelled():
        return  # the client is gone
    try:
        buffers = _encode(header, done.result(), connection)
    except Exception as error:
        try:
            buffers = _encode(header, _failed(on_error, ctx, request, error), connection)
        except Exception as fatal:
            reply.fail(fatal)
            return
    reply.send(buffers)


def _encode(header: RequestHeader, answer: Message | bytes, connection: Connection | None = None) -> Buffers:
    """Small answers are one piece: to copy them is cheaper than to write them alone (see `Connection`)."""
    api_key, version, correlation_id, _, throttle_ms = header
    if throttle_ms is not None and connection is not None:
        answer = told_to_wait(connection, header, answer)
    body = answer if isinstance(answer, bytes) else writer(type(answer), version)(answer)
    prefix = response_prefix(correlation_id, has_flexible_response_header(api_key, version), len(body))
    return (prefix + body,) if len(body) <= _SMALL_BYTES else (prefix, body)


def _failed(on_error: ErrorAnswer, ctx: Context, request: Any, error: Exception) -> Message:
    """Turn a failure into an answer, or raise it on when no answer is right."""
    if isinstance(error, ApiError):
        return on_error(request, error.code, error.detail)
    if isinstance(error, StorageError):
        ctx.host.on_storage_error(error)
        return on_error(request, ErrorCode.KAFKA_STORAGE_ERROR, "the disk failed")
    if isinstance(error, ProtocolError):
        raise error
    unexpected(ctx.host, type(request).__name__, error)
    return on_error(request, ErrorCode.UNKNOWN_SERVER_ERROR, "")


def unexpected(host: Host, what: str, error: Exception) -> None:
    """A bug: say so, count it, and stop the node when it broke a promise of ours."""
    host.metrics.unexpected_errors += 1
    log.error("unexpected error request=%s", what, exc_info=error)
    if isinstance(error, AssertionError):
        host.on_bug(error)


def _start_metered(
    quotas: ClientQuotas,
    entry: Api,
    host: Host,
    connection: Connection,
    header: RequestHeader,
    frame: memoryview,
    at: int,
) -> Buffers | Reply | None:
    """Start a request, count it, and mute its client if it has used more than it may."""
    user, client_id = connection.user, header.client_id
    wait_ms = quotas.on_request(user, client_id, header.api_key, len(frame))
    if wait_ms > 0:
        connection.mute(wait_ms)
    started = quotas.stopwatch()
    try:
        return entry.start(host, connection, header._replace(throttle_ms=wait_ms), frame, at)
    finally:
        quotas.on_work(user, client_id, quotas.stopwatch() - started)


class ApiDispatcher:
    """Finds the handler of each frame. See broker.connection for what it may return."""

    def __init__(
        self,
        host: Host,
        apis: Mapping[int, Api] | None = None,
        *,
        max_bytes: int,
        quotas: ClientQuotas | None = None,
    ) -> None:
        self._host = host
        self._apis = APIS if apis is None else apis
        self._requests = host.metrics.requests
        self._max_bytes = max_bytes
        self._quotas = quotas

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers | Reply | None:
        header, at = read_request_header(frame)
        entry = self._apis.get(header.api_key)
        if entry is None or header.api_version not in entry.versions:
            if header.api_key == ApiKey.API_VERSIONS:
                return self._unknown_api_versions(header)
            raise ProtocolError(f"no version {header.api_version} of api {header.api_key}")
        if len(frame) > self._max_bytes and header.api_key != ApiKey.PRODUCE:
            # A megabyte can name half a million topics, and reading them takes a good part of a second of the loop.
            raise ProtocolError(f"{entry.key.name} of {len(frame)} bytes, {self._max_bytes} are allowed")
        self._requests[header.api_key] += 1
        quotas = self._quotas
        try:
            if quotas is not None and quotas.is_metering:
                return _start_metered(quotas, entry, self._host, connection, header, frame, at)
            return entry.start(self._host, connection, header, frame, at)
        except ProtocolError:
            raise
        except Exception as error:
            unexpected(self._host, entry.key.name, error)
            raise ProtocolError(f"{entry.key.name} failed") from error

    def _unknown_api_versions(self, header: RequestHeader) -> Buffers:
        """KIP-511: answered in the oldest format, so that every client can read it and try again."""
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=announced(self._apis))
        return _encode(header._replace(api_version=0), answer)


def announced(apis: Mapping[int, Api] | None = None) -> list[ApiVersion]:
    """What ApiVersions tells on listeners that have these APIs."""
    return [
        ApiVersion(api_key=key, min_version=entry.announced_min, max_version=entry.versions.stop - 1)
        for key, entry in sorted((APIS if apis is None else apis).items())
    ]
