"""A connection on which this node asks another. Several requests may be under way; answers come in their order.

Whatever goes wrong ends the connection and everything that is under way on it: an answer that nobody waits for must
never be taken for another. Whoever asked does not know then whether the other node has acted.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar, cast

from bifrost.errors import ProtocolError
from bifrost.peers.transport import Transport
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import LENGTH_BYTES, encode_request, has_flexible_response_header, read_response_header
from bifrost.protocol.messages import response_class
from bifrost.protocol.schema import Message

_LENGTH: Final = struct.Struct(">i")
_SMALL_BYTES: Final = 16 * 1024

T = TypeVar("T")


class PeerError(Exception):
    """There is no answer: the other node is not there, does not answer in time, or answers nonsense."""

    def __init__(self, reason: str, *, refused: bool = False, unsent: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """Nobody listens at the address: the process that did is gone."""
        self.unsent = unsent
        """The request has not left this node: the other one cannot have acted."""


class _Expected(NamedTuple):
    correlation_id: int
    flexible_header: bool
    answer: asyncio.Future[memoryview]


class PeerConnection(asyncio.BufferedProtocol):
    """Made by `connect`. `on_lost` is called once, when it ends for any reason but `close`.

    An answer that does not fit into the small buffer gets one of its own size, and is received straight into it: what
    followers fetch is megabytes.
    """

    def __init__(self, client_id: str, *, answer_bytes_max: int, on_lost: Callable[[], None] | None = None) -> None:
        self.client_id = client_id
        self.is_open = False
        self._answer_bytes_max = answer_bytes_max
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._expected: deque[_Expected] = deque()
        self._small = memoryview(bytearray(_SMALL_BYTES))
        self._small_end = 0
        self._large: memoryview | None = None
        self._large_end = 0
        self._correlation_id = 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio calls it so
        return self._small[self._small_end :] if self._large is None else self._large[self._large_end :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._large is None:
                self._small_end += nbytes
                self._take_small()
                return
            self._large_end += nbytes
            if self._large_end == len(self._large):
                whole, self._large = self._large, None
                self._answer(whole)
        except ProtocolError as error:
            self._end(f"its answer makes no sense: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else "it closed the connection")

    # What the rest of the node calls.

    async def ask(self, request: Message, kind: type[T], *, timeout_s: float) -> T:
        """The answer to a request, in the newest version; PeerError if there is none."""
        version = request.versions[-1]
        answer_type = response_class(request.api)
        assert answer_type is kind, f"{type(request).__name__} is not answered by {kind.__name__}"
        body = writer(type(request), version)(request)

        def frame(correlation_id: int) -> bytes:
            return encode_request(request.api, version, correlation_id, self.client_id, body)

        answer = await self.send(frame, has_flexible_response_header(request.api, version), timeout_s=timeout_s)
        try:
            message, _ = reader(answer_type, version)(answer, 0)
        except ProtocolError as error:
            self._end(f"its answer makes no sense: {error}")
            raise PeerError(str(error)) from error
        return cast("T", message)

    async def send(self, frame: Callable[[int], bytes], flexible_header: bool, *, timeout_s: float) -> memoryview:
        """The body of the answer to a request whose frame is made for a correlation id."""
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self.write(frame, flexible_header, answer, timeout_s=timeout_s)
        return await answer

    def write(
        self,
        frame: Callable[[int], bytes],
        flexible_header: bool,
        answer: asyncio.Future[memoryview],
        *,
        timeout_s: float,
    ) -> None:
        """Send a request now: those of several calls leave in their order. `answer` will have the answer's body."""
        if not self.is_open or self._transport is None:
            raise PeerError("the connection is closed", unsent=True)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._expected.append(_Expected(self._correlation_id, flexible_header, answer))
        self._transport.write(frame(self._correlation_id))
        patience = answer.get_loop().call_later(timeout_s, self._give_up, answer, timeout_s)
        answer.add_done_callback(lambda _: patience.cancel())

    def close(self, reason: str = "the connection was closed") -> None:
        """End it on purpose: nobody is told, but those who still wait for an answer."""
        self._on_lost = None
        self._end(reason)

    # Inside.

    def _take_small(self) -> None:
        """Hand out every whole answer in the small buffer; begin a large one with what there is of it."""
        position, end = 0, self._small_end
        while self.is_open and end - position >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(self._small, position)
            if not LENGTH_BYTES <= length <= self._answer_bytes_max:
                raise ProtocolError(f"an answer of {length} bytes")
            if not self._expected:
                raise ProtocolError("an answer that nobody asked for")
            start = position + LENGTH_BYTES
            position = min(start + length, end)
            frame = memoryview(bytearray(length))
            frame[: position - start] = self._small[start:position]
            if position < start + length:
                self._large, self._large_end = frame, position - start
            else:
                self._answer(frame)
        rest = end - position
        self._small[:rest] = self._small[position:end]
        self._small_end = rest

    def _answer(self, frame: memoryview) -> None:
        """Hand a whole answer to whoever waits for it."""
        expected = self._expected.popleft()
        correlation_id, body = read_response_header(frame, 0, expected.flexible_header)
        if correlation_id != expected.correlation_id:
            self._expected.appendleft(expected)
            raise ProtocolError(f"answer {correlation_id} instead of {expected.correlation_id}")
        if not expected.answer.done():
            expected.answer.set_result(frame[body:])

    def _give_up(self, answer: asyncio.Future[memoryview], timeout_s: float) -> None:
        if not answer.done():
            self._end(f"no answer for {timeout_s:g} s")

    def _end(self, reason: str) -> None:
        was_open, self.is_open = self.is_open, False
        if self._transport is not None:
            self._transport.abort()
        expected, self._expected = self._expected, deque()
        for one in expected:
            if not one.answer.done():
                one.answer.set_exception(PeerError(reason))
        if was_open and self._on_lost is not None:
            self._on_lost()


async def connect(
    transport: Transport, host: str, port: int, connection: PeerConnection, *, timeout_s: float
) -> PeerConnection:
    """Open a connection, or PeerError."""
    try:
        await asyncio.wait_for(transport.connect(host, port, connection), timeout_s)
    except ConnectionRefusedError:
        raise PeerError(f"nobody listens at {host}:{port}", refused=True, unsent=True) from None
    except TimeoutError:
        raise PeerError(f"{host}:{port} cannot be reached", unsent=True) from None
    except OSError as error:
        raise PeerError(f"{host}:{port} cannot be reached: {error.strerror or error}", unsent=True) from error
    return connection
