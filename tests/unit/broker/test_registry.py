"""One table of APIs: what it announces it answers, and whatever a handler raises becomes the right kind of end."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from bifrost.broker import registry
from bifrost.broker.connection import Connection
from bifrost.broker.context import RequestContext
from bifrost.broker.handlers.cluster import api_versions
from bifrost.broker.receive import BufferPool
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import ApiError, ErrorCode, ProtocolError, StorageError
from bifrost.metrics import Metrics
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import encode_request, has_flexible_response_header, read_response_header
from bifrost.protocol.messages import response_class
from bifrost.protocol.messages.cluster import ApiVersionsRequest, DescribeClusterRequest
from bifrost.protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from bifrost.settings import Settings
from tests.unit.broker.stand_ins import Peer, on_loop, turns

VERSION = 4


@dataclass
class FakeBroker:
    """As much of a broker as the registry touches."""

    metrics: Metrics = field(default_factory=Metrics)
    settings: Settings = field(default_factory=Settings)
    image: MetadataImage = field(default_factory=MetadataImage)
    storage_errors: list[StorageError] = field(default_factory=list)
    bugs: list[BaseException] = field(default_factory=list)

    def on_storage_error(self, error: StorageError) -> None:
        self.storage_errors.append(error)

    def on_bug(self, error: BaseException) -> None:
        self.bugs.append(error)


class Served:
    """A connection to a broker that has the APIs of the test."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.closed: list[str | None] = []
        self.connection = Connection(
            registry.ApiDispatcher(self.broker, max_bytes=self.broker.settings.request_max_bytes),
            BufferPool(1 << 20),
            self.broker.metrics,
            listener="PLAINTEXT",
            max_frame_bytes=1 << 20,
            max_pipelined=10,
            max_unsent_bytes=1 << 20,
            on_open=lambda _: True,
            on_close=lambda _, error: self.closed.append(error),
        )
        self.peer = Peer(self.connection, room=1 << 30)
        self.connection.connection_made(self.peer)

    def sends(self, frame: bytes) -> None:
        buffer = self.connection.get_buffer(-1)
        buffer[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))

    async def asks(self, request: Any, version: int = VERSION) -> Any:
        """The answer, or None when there is none."""
        self.sends(encode_request(request.api, version, 77, "me", writer(type(request), version)(request)))
        await turns(5)
        if not self.peer.received:
            return None
        (answer,) = self.peer.answers()
        correlation_id, at = read_response_header(answer, 0, has_flexible_response_header(request.api, version))
        assert correlation_id == 77
        return reader(response_class(request.api), version)(answer, at)[0]


@pytest.fixture(autouse=True)
def own_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "APIS", {})
    logging.getLogger("bifrost.broker.registry").setLevel(logging.CRITICAL + 1)
    yield
    logging.getLogger("bifrost.broker.registry").setLevel(logging.NOTSET)


ASK = InitProducerIdRequest(transaction_timeout_ms=1)


def answer_with(outcome: Callable[[], Any], *, later: bool) -> None:
    """Register InitProducerId with a handler that does `outcome`, at once or after a turn of the loop."""
    if later:

        async def handle_later(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            await asyncio.sleep(0)
            return outcome()  # type: ignore[no-any-return]

        registry.api(ApiKey.INIT_PRODUCER_ID, versions=range(6))(handle_later)
    else:
        registry.api(ApiKey.INIT_PRODUCER_ID, versions=range(6))(lambda ctx, request: outcome())


def raising(error: BaseException) -> Callable[[], Any]:
    def outcome() -> Any:
        raise error

    return outcome


def raw_frame(api_key: int, version: int, body: bytes) -> bytes:
    """A request with header version 1 and no client id."""
    frame = struct.pack(">hhih", api_key, version, 77, -1) + body
    return struct.pack(">i", len(frame)) + frame


LATER = pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])


@LATER
@pytest.mark.parametrize("version", range(6))
@on_loop
async def test_an_answer_comes_back_in_the_version_of_its_request(later: bool, version: int) -> None:
    answer_with(lambda: InitProducerIdResponse(producer_id=5, producer_epoch=3), later=later)
    answer = await Served().asks(ASK, version)
    assert (answer.producer_id, answer.producer_epoch, answer.error_code) == (5, 3, 0)


@LATER
@on_loop
async def test_an_api_error_is_the_answer(later: bool) -> None:
    answer_with(raising(ApiError(ErrorCode.NOT_CONTROLLER, "elsewhere")), later=later)
    served = Served()
    assert (await served.asks(ASK)).error_code == ErrorCode.NOT_CONTROLLER
    assert served.broker.metrics.unexpected_errors == 0


@LATER
@on_loop
async def test_a_failed_disk_is_answered_and_reported(later: bool) -> None:
    failure = StorageError("/data", "input/output error")
    answer_with(raising(failure), later=later)
    served = Served()
    assert (await served.asks(ASK)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert served.broker.storage_errors == [failure]
    assert served.broker.metrics.unexpected_errors == 0


@LATER
@on_loop
async def test_a_bug_is_answered_and_counted_and_the_connection_lives(later: bool) -> None:
    answer_with(raising(KeyError("oops")), later=later)
    served = Served()
    assert (await served.asks(ASK)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert served.broker.metrics.unexpected_errors == 1
    assert (served.broker.bugs, served.closed) == ([], [])


@LATER
@on_loop
async def test_a_broken_promise_of_ours_stops_the_node(later: bool) -> None:
    broken = AssertionError("never")
    answer_with(raising(broken), later=later)
    served = Served()
    assert (await served.asks(ASK)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert served.broker.bugs == [broken]


@LATER
@on_loop
async def test_a_request_that_makes_no_sense_closes_the_connection(later: bool) -> None:
    answer_with(raising(ProtocolError("nonsense")), later=later)
    served = Served()
    assert await served.asks(ASK) is None
    assert served.closed == ["ProtocolError: nonsense"]
    assert served.broker.metrics.unexpected_errors == 0


@LATER
@on_loop
async def test_an_answer_that_cannot_be_written_is_a_bug_and_not_silence(later: bool) -> None:
    answer_with(lambda: InitProducerIdResponse(producer_id=1 << 80), later=later)
    served = Served()
    answer = await served.asks(ASK)
    assert served.broker.metrics.unexpected_errors == 1
    assert served.closed or answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@on_loop
async def test_a_whole_request_may_be_refused_in_a_shape_of_its_own() -> None:
    def shape(request: Any, code: ErrorCode, detail: str) -> InitProducerIdResponse:
        return InitProducerIdResponse(error_code=code, producer_id=len(detail))

    registry.api(ApiKey.INIT_PRODUCER_ID, versions=range(6), on_error=shape)(
        lambda ctx, request: raising(ApiError(ErrorCode.INVALID_REQUEST, "four"))()
    )
    answer = await Served().asks(ASK)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, 4)


@on_loop
async def test_a_client_that_leaves_takes_its_request_with_it() -> None:
    cancelled = []

    async def wait_for_ever(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        raise AssertionError

    registry.api(ApiKey.INIT_PRODUCER_ID, versions=range(6))(wait_for_ever)
    served = Served()
    assert await served.asks(ASK) is None
    served.peer.abort()
    await turns(5)
    assert cancelled == [True]


@on_loop
async def test_a_raw_handler_that_fails_closes_its_connection_and_is_counted() -> None:
    @registry.raw_api(ApiKey.PRODUCE, versions=range(3, 14))
    def fail(*_: Any) -> None:
        raise ValueError("oops")

    served = Served()
    served.sends(encode_request(ApiKey.PRODUCE, 3, 1, "me", b"\0" * 10))
    await turns()
    assert served.closed == ["ProtocolError: PRODUCE failed"]
    assert (served.broker.metrics.unexpected_errors, served.broker.metrics.protocol_errors) == (1, 1)


@pytest.mark.parametrize(("api_key", "version"), [(999, 0), (-1, 0), (22, 6), (22, -1)])
@on_loop
async def test_an_api_or_version_that_is_not_there_closes_the_connection(api_key: int, version: int) -> None:
    answer_with(InitProducerIdResponse, later=False)
    served = Served()
    served.sends(raw_frame(api_key, version, bytes(20)))
    await turns()
    assert served.closed == [f"ProtocolError: no version {version} of api {api_key}"]
    assert served.broker.metrics.requests == {}


@on_loop
async def test_a_request_cut_short_closes_the_connection_before_its_handler_runs() -> None:
    ran: list[bool] = []
    answer_with(lambda: ran.append(True), later=False)
    served = Served()
    served.sends(encode_request(ApiKey.INIT_PRODUCER_ID, VERSION, 1, "me", b"\x01"))
    await turns()
    assert len(served.closed) == 1
    assert ran == []


@pytest.mark.parametrize(("api_key", "closed"), [(ApiKey.METADATA, True), (ApiKey.PRODUCE, False)])
@on_loop
async def test_only_a_request_with_records_may_be_large(api_key: ApiKey, closed: bool) -> None:
    started: list[int] = []
    registry.raw_api(api_key, versions=range(3, 14))(lambda *_: started.append(1))  # type: ignore[arg-type, return-value]
    served = Served()
    served.connection._dispatcher._max_bytes = 1000  # type: ignore[attr-defined]
    served.sends(raw_frame(api_key, 3, bytes(900)))
    served.sends(raw_frame(api_key, 3, bytes(1000)))
    await turns()
    assert (len(started), bool(served.closed)) == ((1, True) if closed else (2, False))


@on_loop
async def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_format() -> None:
    """KIP-511."""
    registry.api(ApiKey.API_VERSIONS, versions=range(5))(api_versions)
    served = Served()
    served.sends(raw_frame(ApiKey.API_VERSIONS, 99, b"\0and what version 99 brings"))
    (answer,) = served.peer.answers()
    decoded, _ = reader(response_class(ApiKey.API_VERSIONS), 0)(answer, 4)
    assert decoded.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in decoded.api_keys] == [(18, 0, 4)]
    assert served.closed == []


@on_loop
async def test_what_is_announced_is_what_is_registered() -> None:
    registry.api(ApiKey.API_VERSIONS, versions=range(5))(api_versions)
    registry.raw_api(ApiKey.PRODUCE, versions=range(3, 14), announced_min=0)(lambda *_: None)
    answer = await Served().asks(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    rows = [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys]
    assert rows == [(0, 0, 13), (18, 0, 4)]


def test_an_api_is_registered_once() -> None:
    answer_with(InitProducerIdResponse, later=False)
    with pytest.raises(AssertionError, match="twice"):
        answer_with(InitProducerIdResponse, later=False)


@on_loop
async def test_requests_are_counted_by_api() -> None:
    answer_with(InitProducerIdResponse, later=False)
    served = Served()
    await served.asks(ASK)
    assert served.broker.metrics.requests == {ApiKey.INIT_PRODUCER_ID: 1}


def test_the_handlers_see_who_asks() -> None:
    seen: list[tuple[int, str | None, str]] = []

    @on_loop
    async def run() -> None:
        def handle(ctx: RequestContext, request: Any) -> Any:
            seen.append((ctx.version, ctx.client_id, ctx.connection.listener))
            raise ApiError(ErrorCode.INVALID_REQUEST)

        registry.api(ApiKey.DESCRIBE_CLUSTER, versions=range(3))(handle)
        await Served().asks(DescribeClusterRequest(), 1)

    run()
    assert seen == [(1, "me", "PLAINTEXT")]


@on_loop
async def test_small_answers_to_requests_that_came_together_share_a_write() -> None:
    answer_with(lambda: InitProducerIdResponse(producer_id=5, producer_epoch=3), later=False)
    served = Served()
    served.sends(encode_request(ASK.api, VERSION, 77, "me", writer(type(ASK), VERSION)(ASK)) * 5)
    assert (len(served.peer.answers()), served.peer.writes) == (5, 1)
