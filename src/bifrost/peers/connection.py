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

T = TypeVar("T")


class PeerError(Exception):
    """There is no answer: the other node is not there, does not answer in time, or answers nonsense."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """Nobody listens at the address: the process that did is gone."""


class _Expected(NamedTuple):
    correlation_id: int
    flexible_header: bool
    answer: asyncio.Future[memoryview]


class PeerConnection(asyncio.Protocol):
    """Made by `connect`. `on_lost` is called once, when it ends for any reason but `close`."""

    def __init__(self, client_id: str, *, answer_bytes_max: int, on_lost: Callable[[], None] | None = None) -> None:
        self.client_id = client_id
        self.is_open = False
        self._answer_bytes_max = answer_bytes_max
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._expected: deque[_Expected] = deque()
        self._received = bytearray()
        self._correlation_id = 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            while self._take_answer():
                pass
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
        if not self.is_open or self._transport is None:
            raise PeerError("the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._expected.append(_Expected(self._correlation_id, flexible_header, answer))
        self._transport.write(frame(self._correlation_id))
        try:
            return await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            self._end(f"no answer for {timeout_s:g} s")
            raise PeerError(f"no answer for {timeout_s:g} s") from None

    def close(self) -> None:
        """End it on purpose: nobody is told, but those who still wait for an answer."""
        self._on_lost = None
        self._end("the connection was closed")

    # Inside.

    def _take_answer(self) -> bool:
        """Hand one whole answer to whoever waits for it; False if there is none."""
        received = self._received
        if len(received) < LENGTH_BYTES:
            return False
        (length,) = _LENGTH.unpack_from(received)
        if not LENGTH_BYTES <= length <= self._answer_bytes_max:
            raise ProtocolError(f"an answer of {length} bytes")
        end = LENGTH_BYTES + length
        if len(received) < end:
            return False
        if not self._expected:
            raise ProtocolError("an answer that nobody asked for")
        frame = memoryview(bytes(memoryview(received)[LENGTH_BYTES:end]))
        del received[:end]
        expected = self._expected.popleft()
        correlation_id, body = read_response_header(frame, 0, expected.flexible_header)
        if correlation_id != expected.correlation_id:
            self._expected.appendleft(expected)
            raise ProtocolError(f"answer {correlation_id} instead of {expected.correlation_id}")
        if not expected.answer.done():
            expected.answer.set_result(frame[body:])
        return True

    def _end(self, reason: str) -> None:
        was_open, self.is_open = self.is_open, False
        if self._transport is not None:
            self._transport.abort()
        self._received.clear()
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
        raise PeerError(f"nobody listens at {host}:{port}", refused=True) from None
    except TimeoutError:
        raise PeerError(f"{host}:{port} cannot be reached") from None
    except OSError as error:
        raise PeerError(f"{host}:{port} cannot be reached: {error.strerror or error}") from error
    return connection
