"""The loop, the peer and the dispatcher of a connection under test, each doing only what it is told."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import struct
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec

from bifrost.broker.connection import NOTHING, WRITES, Buffers, Connection, Reply
from bifrost.broker.quotas.client_quotas import ClientQuotas
from bifrost.broker.receive import BufferPool
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import ProtocolError
from bifrost.metrics import Metrics
from bifrost.settings import Settings

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT = 0, 1, 2, 3, 8
P = ParamSpec("P")


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Runs a test on a loop of its own; one that hangs fails."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(*args, **kwargs), 20)

        asyncio.run(bounded())

    return run


def no_quotas() -> ClientQuotas:
    """Nobody is limited."""
    return ClientQuotas(Settings(), MetadataImage(), Metrics(), lambda: 0.0)


def loop_factories() -> list[Callable[[], asyncio.AbstractEventLoop]]:
    """The loops that a node may run on."""
    factories: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        factories.append(uvloop.new_event_loop)
    return factories


async def turns(count: int = 3) -> None:
    """Lets the loop do what is scheduled."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what no event tells of; the test's own time limit ends it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


class Peer(asyncio.Transport):
    """The transport of a peer that reads only what `read` lets it, beyond the `room` of its socket's buffers."""

    def __init__(self, protocol: Connection, *, room: int) -> None:
        super().__init__()
        self.received = bytearray()
        self.unsent = bytearray()
        self.unsent_max = 0
        self.writes = 0
        self.reading_paused = False
        self.aborted = False
        self.lost = False
        self._protocol = protocol
        self.room = room
        self._closing = False
        self._writing_paused = False
        self._high, self._low = 65_536, 16_384

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 4711) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, buffers: Any) -> None:
        assert not self._closing, "written to after close"
        self.writes += 1
        self.unsent += b"".join(buffers)
        self._move()
        self.unsent_max = max(self.unsent_max, len(self.unsent))
        if len(self.unsent) > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def read(self, size: int) -> None:
        """The peer reads: as much more fits into its socket's buffers."""
        self.room += size
        self._move()
        if self._writing_paused and len(self.unsent) <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()

    def pause_reading(self) -> None:
        assert not self.reading_paused
        self.reading_paused = True

    def resume_reading(self) -> None:
        assert self.reading_paused
        self.reading_paused = False

    def close(self) -> None:
        self._closing = True
        self._move()

    def abort(self) -> None:
        self._closing = self.aborted = True
        self.unsent.clear()
        self._move()

    def _move(self) -> None:
        taken = min(self.room, len(self.unsent))
        self.room -= taken
        self.received += self.unsent[:taken]
        del self.unsent[:taken]
        if self._closing and not self.unsent and not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def answers(self) -> list[bytes]:
        """The frames that reached the peer, without their lengths."""
        found, at = [], 0
        while at + 4 <= len(self.received):
            (size,) = struct.unpack_from(">i", self.received, at)
            if at + 4 + size > len(self.received):
                break
            found.append(bytes(self.received[at + 4 : at + 4 + size]))
            at += 4 + size
        return found


class Door:
    def __init__(self, host: str, port: int, accept: Callable[[], Any]) -> None:
        self.host = host
        self.port = port
        self.accept = accept
        self.is_open = False

    async def start(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Doors:
    """A network on which ports are counted up from 5001."""

    def __init__(self, taken: tuple[int, ...] = ()) -> None:
        self.opened: list[Door] = []
        self._taken = taken

    async def listen(self, host: str, port: int, protocol: Callable[[], Any], *, backlog: int) -> Door:
        if port in self._taken:
            raise OSError(98, "address already in use")
        door = Door(host, port or 5001 + len(self.opened), protocol)
        self.opened.append(door)
        return door

    def host_name(self) -> str:
        return "this-host"


def request(api_key: int, text: str = "") -> bytes:
    """A frame as the scripted dispatcher reads it."""
    body = struct.pack(">hhi", api_key, 0, 0) + text.encode()
    return struct.pack(">i", len(body)) + body


def answer(text: str, size: int = 0) -> bytes:
    body = text.encode().ljust(size, b".")
    return struct.pack(">i", len(body)) + body


class Script:
    """A dispatcher: what it answers is the request's text, now, later, never, or as `answers` says."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.replies: dict[str, Reply] = {}
        self.cancelled: list[str] = []
        self.answer_bytes = 0

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers | Reply | None:
        (api_key,) = struct.unpack_from(">h", frame)
        text = bytes(frame[8:]).decode()
        self.started.append(text)
        if text.startswith("bad"):
            raise ProtocolError(text)
        if text.startswith("silent"):
            return None
        if text.startswith("later"):
            reply = self.replies[text] = Reply(connection, followed_by=WRITES if api_key in WRITES else NOTHING)
            reply.cancel = lambda: self.cancelled.append(text)
            return reply
        if api_key == PRODUCE:
            return (answer(text),)
        whole = answer(text, self.answer_bytes)
        return (whole[:4], whole[4:])

    def finish(self, text: str) -> None:
        self.replies.pop(text).send((answer(text),))


class Client:
    """One connection with everything around it."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        pool: BufferPool | None = None,
        room: int = 1 << 40,
        max_pipelined: int = 100,
        max_unsent_bytes: int = 1 << 20,
        accept: bool = True,
    ) -> None:
        self.script = script or Script()
        self.metrics = Metrics()
        self.closed: list[str | None] = []
        self.pool = pool or BufferPool(limit_bytes=1 << 30)
        self.connection = Connection(
            self.script,
            self.pool,
            self.metrics,
            listener="PLAINTEXT",
            max_frame_bytes=100 << 20,
            max_pipelined=max_pipelined,
            max_unsent_bytes=max_unsent_bytes,
            on_open=lambda _: accept,
            on_close=lambda _, error: self.closed.append(error),
        )
        self.peer = Peer(self.connection, room=room)
        self.connection.connection_made(self.peer)

    def sends(self, *frames: bytes) -> bytes:
        """In one go, as one read of the socket would bring it, or in as many as it takes; what nobody would read."""
        data = b"".join(frames)
        while data and not self.peer.reading_paused and not self.peer.is_closing():
            buffer = self.connection.get_buffer(-1)
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            data = data[taken:]
            self.connection.buffer_updated(taken)
        return data

    @property
    def texts(self) -> list[str]:
        """What the peer has got."""
        return [body.decode().rstrip(".") for body in self.peer.answers()]
