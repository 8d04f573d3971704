"""A network inside the simulator: bytes arrive late and in pieces, and links break, as the seed says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from tests.sim.loop import SimLoop

HIGH_WATER_BYTES = 64 * 1024


class SimNetwork:
    """Doors by address, and the connections between them."""

    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._doors: dict[tuple[str, int], Callable[[], asyncio.BaseProtocol]] = {}
        self._next_port = 10_000
        self.links: list[Link] = []

    async def listen(
        self, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int
    ) -> SimListening:
        if port == 0:
            self._next_port += 1
            port = self._next_port
        if (host, port) in self._doors:
            raise OSError(f"{host}:{port} is taken")
        return SimListening(self, host, port, protocol)

    def open_door(self, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._doors[host, port] = protocol

    def host_name(self) -> str:
        return "sim"

    def close_door(self, host: str, port: int) -> None:
        self._doors.pop((host, port), None)

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> SimTransport:
        """As a client would; the door may be shut."""
        await asyncio.sleep(self._rng.uniform(0.0001, 0.002))
        door = self._doors.get((host, port))
        if door is None:
            raise ConnectionRefusedError(f"{host}:{port}")
        link = Link(self._loop, self._rng, protocol, door())
        self.links.append(link)
        link.open()
        return link.client

    def cut(self, link: Link) -> None:
        """Break a link at once, with whatever was on its way."""
        link.cut()
        self.links.remove(link)

    def cut_all(self) -> None:
        for link in list(self.links):
            self.cut(link)


class SimListening:
    """A door, shut until it is started."""

    def __init__(self, network: SimNetwork, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._network = network
        self._protocol = protocol
        self.host = host
        self.port = port

    async def start(self) -> None:
        self._network.open_door(self.host, self.port, self._protocol)

    def close(self) -> None:
        self._network.close_door(self.host, self.port)


class Link:
    """One connection: two transports, back to back."""

    def __init__(
        self, loop: SimLoop, rng: random.Random, client: asyncio.BaseProtocol, server: asyncio.BaseProtocol
    ) -> None:
        self.client = SimTransport(loop, rng, client, "client")
        self.server = SimTransport(loop, rng, server, "server")
        self.client.peer, self.server.peer = self.server, self.client

    def open(self) -> None:
        self.server.protocol.connection_made(self.server)
        self.client.protocol.connection_made(self.client)

    def cut(self) -> None:
        self.client.lose(ConnectionResetError("cut"))
        self.server.lose(ConnectionResetError("cut"))

    @property
    def is_open(self) -> bool:
        return not self.client.is_closing() and not self.server.is_closing()


class SimTransport(asyncio.Transport):
    """One end. Bytes written here reach the peer's protocol later, in order, cut wherever the seed likes."""

    peer: SimTransport

    def __init__(self, loop: SimLoop, rng: random.Random, protocol: asyncio.BaseProtocol, side: str) -> None:
        super().__init__()
        self._loop = loop
        self._rng = rng
        self.protocol: Any = protocol
        self._side = side
        self._pending = bytearray()
        self._scheduled = False
        self._closing = False
        self._lost = False
        self._reading = True
        self._writing_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._side, 0) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.peer.schedule()

    def write(self, data: Any) -> None:
        if self._closing:
            return
        self._pending += data
        if len(self._pending) > HIGH_WATER_BYTES and not self._writing_paused:
            self._writing_paused = True
            self.protocol.pause_writing()
        self.schedule()

    def writelines(self, buffers: Any) -> None:
        for data in buffers:
            self.write(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.schedule()

    def abort(self) -> None:
        self._pending.clear()
        self.close()

    def lose(self, error: Exception | None) -> None:
        self._closing = True
        self._pending.clear()
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self.protocol.connection_lost, error)

    def schedule(self) -> None:
        if not self._scheduled and not self._lost:
            self._scheduled = True
            self._loop.call_later(self._rng.uniform(0.00005, 0.003), self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        peer = self.peer
        if self._lost:
            return
        if self._pending and not peer._lost and not peer._closing:
            if not peer._reading:
                return  # its resume_reading schedules us again
            size = min(len(self._pending), self._rng.choice((1, 7, 64, 1000, 20_000, 1 << 20)))
            taken = peer._receive(bytes(self._pending[:size]))
            del self._pending[:taken]
        elif peer._closing:
            self._pending.clear()
        if self._writing_paused and len(self._pending) <= HIGH_WATER_BYTES // 4:
            self._writing_paused = False
            self.protocol.resume_writing()
        if self._pending:
            self.schedule()
        elif self._closing:
            self.lose(None)
            peer.lose(None)

    def _receive(self, data: bytes) -> int:
        """Hand bytes to the protocol for as long as it reads; returns how many it took."""
        if not isinstance(self.protocol, asyncio.BufferedProtocol):
            self.protocol.data_received(data)
            return len(data)
        taken = 0
        while taken < len(data) and self._reading and not self._closing:
            buffer: Any = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(data) - taken)
            buffer[:size] = data[taken : taken + size]
            self.protocol.buffer_updated(size)
            taken += size
        return taken
