"""Clients in the simulated world: what they share, and their connection: frames out, answers in, several in flight.

It speaks the wire protocol through the production codecs, and complains when answers do not come in the order of
their requests. What clients do with it is in `producers`, `consumers` and `admins`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple, TypeVar, cast

from bifrost.protocol.codec import reader, writer
from bifrost.protocol.fetch import FetchRequest, FetchResponse
from bifrost.protocol.fetch import decode_response as decode_fetch
from bifrost.protocol.fetch import encode_request as encode_fetch
from bifrost.protocol.frame import encode_request, has_flexible_response_header, read_response_header
from bifrost.protocol.messages import response_class
from bifrost.protocol.produce import ProduceRequest, ProduceResponse
from bifrost.protocol.produce import decode_response as decode_produce
from bifrost.protocol.produce import encode_request as encode_produce
from bifrost.protocol.schema import Message
from tests.sim.history import Complaint, History, Place
from tests.sim.network import SimNetwork, SimTransport

R = TypeVar("R", bound=Message)

Address = tuple[str, int]

ADDRESS: Address = ("sim", 9092)
TROUBLE = (OSError, TimeoutError)
"""What a client meets when the broker or the way to it is gone: it does not know what became of its request."""


class Topic(NamedTuple):
    """A topic as a client knows it."""

    name: str
    topic_id: bytes
    partitions: int

    def place(self, partition: int) -> Place:
        return Place(self.name, self.topic_id.hex(), partition)

    @property
    def places(self) -> list[Place]:
        return [self.place(partition) for partition in range(self.partitions)]


class Client:
    """Somebody who talks to the broker, and goes on trying when it is not there."""

    def __init__(self, name: str, network: SimNetwork, history: History, seed: str) -> None:
        self.name = name
        self.history = history
        self.rng = Random(f"{seed} {name}")
        self.loop = network.loop
        self.find: Callable[[], Awaitable[Address]] = _lone_broker
        """Whom to talk to; OSError if nobody knows at the moment."""
        self._network = network

    async def connect(self) -> Wire:
        return await self.connect_to(await self.find())

    async def connect_to(self, address: Address) -> Wire:
        wire = Wire(self.name, self.history, address[0])
        await self._network.connect(*address, wire)
        return wire

    async def rest(self, longest_s: float = 0.3) -> None:
        """The pause before the next try."""
        await asyncio.sleep(self.rng.uniform(0.01, longest_s))

    def complain(self, kind: str, detail: str) -> None:
        self.history.add(Complaint(self.loop.time(), kind, f"{self.name}: {detail}"))


async def _lone_broker() -> Address:
    return ADDRESS


class Wire(asyncio.Protocol):
    """One connection to the broker."""

    def __init__(self, name: str, history: History, host: str) -> None:
        self.host = host
        self._name = name
        self._history = history
        self._received = bytearray()
        self._waiting: deque[tuple[int, asyncio.Future[memoryview]]] = deque()
        self._next_id = 0
        self._lost: BaseException | None = None
        self._transport: SimTransport | None = None

    # What the network calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("SimTransport", transport)
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            frame = bytes(self._received[4:end])
            del self._received[:end]
            self._take(memoryview(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc or ConnectionResetError("closed by the broker")
        for _, answer in self._waiting:
            if not answer.done():
                answer.set_exception(ConnectionResetError(str(self._lost)))
                answer.exception()  # the one who asked may have left
        self._waiting.clear()

    # What clients call.

    @property
    def is_open(self) -> bool:
        return self._lost is None

    def close(self) -> None:
        if self._transport is not None and self._lost is None:
            self._transport.abort()

    def start_produce(self, version: int, request: ProduceRequest, timeout_s: float) -> asyncio.Future[memoryview]:
        """Send the request; what comes is for `ended_produce`. Others may follow before it does."""
        return self._start(encode_produce(version, self._new_id(), self._name, request), timeout_s)

    async def ended_produce(self, version: int, answer: asyncio.Future[memoryview]) -> ProduceResponse:
        return decode_produce(await answer, 4 + (version >= 9), version)

    def send_only(self, version: int, request: ProduceRequest) -> None:
        """For acks=0: there will be no answer."""
        self._write(encode_produce(version, self._new_id(), self._name, request))

    async def fetch(self, version: int, request: FetchRequest, timeout_s: float) -> FetchResponse:
        frame = encode_fetch(version, self._new_id(), self._name, request)
        return decode_fetch(await self._start(frame, timeout_s), 4 + (version >= 12), version)

    async def call(self, request: Message, expected: type[R], version: int, timeout_s: float = 10.0) -> R:
        """Any API that has declared messages."""
        key = type(request).api
        body = writer(type(request), version)(request)
        answer = await self._start(encode_request(key, version, self._new_id(), self._name, body), timeout_s)
        _, position = read_response_header(answer, 0, has_flexible_response_header(key, version))
        found, _ = reader(response_class(key), version)(answer, position)
        assert isinstance(found, expected)
        return found

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _write(self, frame: bytes) -> None:
        if self._lost is not None or self._transport is None:
            raise ConnectionResetError(str(self._lost))
        self._transport.write(frame)

    def _start(self, frame: bytes, timeout_s: float) -> asyncio.Future[memoryview]:
        self._write(frame)
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        self._waiting.append((self._next_id, answer))
        timer = self._loop.call_later(timeout_s, self._give_up, answer)
        answer.add_done_callback(lambda _: timer.cancel())
        return answer

    def _give_up(self, answer: asyncio.Future[Any]) -> None:
        """A client that waited in vain does not trust the connection any more."""
        if not answer.done():
            answer.set_exception(TimeoutError("no answer"))
            answer.exception()
        self.close()

    def _take(self, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4], "big")
        expected, answer = self._waiting.popleft() if self._waiting else (-1, None)
        if answer is None or correlation_id != expected:
            detail = f"{self._name} got answer {correlation_id}, expected was {expected}"
            self._history.add(Complaint(self._loop.time(), "answers out of order", detail))
            self.close()
        elif not answer.done():
            answer.set_result(frame)
