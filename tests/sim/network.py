"""A network inside the simulator: bytes arrive late and in pieces, and links stall, crawl and break, as the seed says.

A link is what TCP gives: bytes arrive in order or not at all. What a process wrote before it died may still arrive, as
it does when a kernel goes on sending for it. Each machine has a name, and a way to every other one (`ways.py`): where a
way is cut, whatever is under way waits, be it bytes, a new connection, or the news that one has ended.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tests.sim.loop import SimLoop
from tests.sim.process import CURRENT, Process
from tests.sim.trace import Trace, brief
from tests.sim.ways import Ways

Door = tuple[Callable[[], asyncio.BaseProtocol], Process | None]
Ear = Callable[[Any], object]
"""Is told of all that is written on a connection."""
Spy = Callable[[str, tuple[str, int]], Awaitable[Ear]]
"""Is told before a machine connects to an address."""

_PIECES = (7, 64, 1000, 20_000, 1 << 20, 1 << 20, 1 << 20)
_LATENCY_S = (0.00005, 0.003)
_AGAIN_S = 1.0
"""How often a kernel tries again to get through."""
CLIENTS = "clients"
"""The machine that all clients share, unless they say otherwise."""


class SimNetwork:
    """Doors by address, and the connections between them."""

    def __init__(self, loop: SimLoop, rng: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.is_down = False
        """Nobody can connect; open links go on."""
        self.links: list[Link] = []
        self.ways = Ways()
        self.spy: Spy | None = None
        self._doors: dict[tuple[str, int], Door] = {}
        self._next_port = 10_000
        self._links_made = 0

    async def listen(
        self, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int
    ) -> SimListening:
        if port == 0:
            self._next_port += 1
            port = self._next_port
        if (host, port) in self._doors:
            raise OSError(f"{host}:{port} is taken")
        return SimListening(self, host, port, (protocol, CURRENT.get()))

    def open_door(self, host: str, port: int, door: Door) -> None:
        self._doors[host, port] = door

    def close_door(self, host: str, port: int) -> None:
        self._doors.pop((host, port), None)

    async def connect(
        self, host: str, port: int, protocol: asyncio.BaseProtocol, source: str = CLIENTS
    ) -> SimTransport:
        """As a client would; the door may be shut, or the way to it."""
        await asyncio.sleep(self.rng.uniform(*_LATENCY_S) * self.ways.slowness(source, host))
        while not (self.ways.is_open(source, host) and self.ways.is_open(host, source)):  # noqa: ASYNC110  # as TCP does
            await asyncio.sleep(_AGAIN_S * self.rng.uniform(0.5, 1.0))
        accept, owner = self._doors.get((host, port), (None, None))
        server = None if accept is None or self.is_down else accept() if owner is None else owner.run(accept)
        if server is None:
            raise ConnectionRefusedError(f"{host}:{port}")
        self._links_made += 1
        link = Link(self, self._links_made, client=(source, protocol), server=(host, server), owner=owner)
        self.links.append(link)
        link.open()
        return link.client

    def end_process(self, process: Process, silence_s: float) -> None:
        """The process is dead: its doors are shut, and its peers notice after `silence_s`, if they can be told."""
        self._doors = {address: door for address, door in self._doors.items() if door[1] is not process}
        for link in self.links:
            for end in (link.server, link.client):
                if end.owner is process:
                    end.orphan()
                    self.loop.call_outside(silence_s * self.rng.random(), end.tell_peer, link.cut)

    def resume(self, process: Process) -> None:
        """It was paused: what came for it meanwhile is in the buffers of its kernel."""
        for link in self.links:
            for end in (link.server, link.client):
                if end.owner is process:
                    end.peer.nudge()

    def mend(self, ways: Iterable[tuple[str, str]]) -> None:
        self.ways.mend(ways)
        for link in self.links:
            link.client.nudge()
            link.server.nudge()

    def heal(self) -> None:
        self.is_down = False
        self.ways.heal()
        for link in self.links:
            link.slowness = 1.0
            link.resume()
            link.client.nudge()
            link.server.nudge()


class MachineTransport:
    """The network as one machine sees it: what a node is given (`bifrost.peers.transport`)."""

    def __init__(self, network: SimNetwork, host: str) -> None:
        self._network = network
        self._host = host

    async def listen(
        self, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int
    ) -> SimListening:
        return await self._network.listen(host, port, protocol, backlog=backlog)

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> SimTransport:
        spy = self._network.spy
        ear = None if spy is None else await spy(self._host, (host, port))
        transport = await self._network.connect(host, port, protocol, self._host)
        transport.ear = ear
        return transport

    def host_name(self) -> str:
        return self._host


class SimListening:
    """A door, shut until it is started."""

    def __init__(self, network: SimNetwork, host: str, port: int, door: Door) -> None:
        self._network = network
        self._door = door
        self.host = host
        self.port = port

    async def start(self) -> None:
        self._network.open_door(self.host, self.port, self._door)

    def close(self) -> None:
        self._network.close_door(self.host, self.port)


class Link:
    """One connection: two transports, back to back."""

    def __init__(
        self,
        network: SimNetwork,
        number: int,
        *,
        client: tuple[str, asyncio.BaseProtocol],
        server: tuple[str, asyncio.BaseProtocol],
        owner: Process | None,
    ) -> None:
        self.network = network
        self.number = number
        self.slowness = 1.0
        """How many times longer than usual everything takes."""
        self.client = SimTransport(self, *client, CURRENT.get(), "client")
        self.server = SimTransport(self, *server, owner, "server")
        self.client.peer, self.server.peer = self.server, self.client

    def open(self) -> None:
        self.server.tell("connection_made", self.server)
        self.client.tell("connection_made", self.client)

    def cut(self) -> None:
        """Break the link at once, with whatever was on its way."""
        self.client.lose(ConnectionResetError("cut"))
        self.server.lose(ConnectionResetError("cut"))

    def stall(self, *, client: bool, server: bool) -> None:
        """What these ends send does not arrive until `resume`; nobody is told."""
        self.client.stalled |= client
        self.server.stalled |= server

    def resume(self) -> None:
        for end in (self.client, self.server):
            if end.stalled:
                end.stalled = False
                end.schedule()

    def end_lost(self) -> None:
        if self.client.lost and self.server.lost and self in self.network.links:
            self.network.links.remove(self)


class SimTransport(asyncio.Transport):
    """One end. Bytes written here reach the peer's protocol later, in order, cut wherever the seed likes."""

    peer: SimTransport

    def __init__(self, link: Link, host: str, protocol: asyncio.BaseProtocol, owner: Process | None, side: str) -> None:
        super().__init__()
        self.host = host
        self.owner = owner
        self.lost = False
        self.stalled = False
        self.ear: Ear | None = None
        self._link = link
        self._network = link.network
        self._protocol: Any = protocol
        self._side = side
        self._pending = bytearray()
        self._scheduled = False
        self._held = False
        self._closing = False
        self._reading = True
        self._writing_paused = False
        self._high, self._low = 64 * 1024, 16 * 1024

    def tell(self, method: str, *args: Any) -> Any:
        """Call the protocol inside the process that it belongs to."""
        call = getattr(self._protocol, method)
        if self.owner is None:
            return call(*args)
        if self.owner.paused:
            return self._network.loop.call_soon(call, *args, context=self.owner.context)
        return self.owner.run(call, *args)

    # What a protocol may ask of its transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (f"{self._side}-{self._link.number}", 0) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._pending)

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
        if self.ear is not None:
            self.ear(data)
        self._pending += data
        if len(self._pending) > self._high and not self._writing_paused:
            self._writing_paused = True
            self.tell("pause_writing")
        self.schedule()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        """What was written still arrives, then the end of the stream."""
        if not self._closing:
            self._closing = True
            self.schedule()

    def abort(self) -> None:
        self.lose(None)
        reset = ConnectionResetError("reset by peer")
        self._network.loop.call_outside(self._delay(), self.tell_peer, self.peer.lose, reset)

    # What the network does.

    def tell_peer(self, call: Callable[..., object], *args: Any) -> None:
        """A kernel tells that of the peer something, and tries for as long as it cannot get through."""
        if self._network.ways.is_open(self.host, self.peer.host) and not self.stalled:
            call(*args)
        else:
            self._network.loop.call_outside(_AGAIN_S, self.tell_peer, call, *args)

    def orphan(self) -> None:
        """The process behind this end is gone; some of what it wrote is still sent for it."""
        kept = self._network.rng.choice((0, len(self._pending), self._network.rng.randint(0, len(self._pending))))
        del self._pending[kept:]
        self._closing = True
        self._writing_paused = False

    def lose(self, error: Exception | None) -> None:
        """The protocol hears of the end as soon as the loop gets to it."""
        self._closing = True
        self._pending.clear()
        if not self.lost:
            self.lost = True
            self._network.trace.note("net", self._link.number, self._side, "lost", repr(error))
            self._network.loop.call_outside(0, self.tell, "connection_lost", error)
            self._link.end_lost()

    def schedule(self) -> None:
        if not self._scheduled and not self.lost:
            self._scheduled = True
            self._network.loop.call_outside(self._delay(), self._deliver)

    def nudge(self) -> None:
        """What kept bytes from arriving may be over."""
        if self._held:
            self._held = False
            self.schedule()

    def _delay(self) -> float:
        slowness = self._link.slowness * self._network.ways.slowness(self.host, self.peer.host)
        return self._network.rng.uniform(*_LATENCY_S) * slowness

    def _deliver(self) -> None:
        self._scheduled = False
        peer = self.peer
        if self.lost or self.stalled:
            return
        if not self._network.ways.is_open(self.host, peer.host) or (peer.owner is not None and peer.owner.paused):
            self._held = True  # a kernel keeps it until somebody can take it
            return
        if self._pending:
            if peer.lost:
                self.lose(ConnectionResetError("nobody reads"))
                return
            if not peer._reading:
                return  # its resume_reading schedules us again
            size = min(len(self._pending), self._network.rng.choice(_PIECES))
            data = bytes(self._pending[:size])
            taken = peer._receive(data)
            self._network.trace.note("net", self._link.number, self._side, brief(data[:taken]))
            del self._pending[:taken]
        if self._writing_paused and len(self._pending) <= self._low:
            self._writing_paused = False
            self.tell("resume_writing")
        if self._pending:
            self.schedule()
        elif self._closing:
            self.lose(None)
            peer._end()

    def _end(self) -> None:
        """The peer has closed: asyncio then closes this end too, unless the protocol wants to go on writing."""
        if not self.lost and not self.tell("eof_received"):
            self.lose(None)

    def _receive(self, data: bytes) -> int:
        """Hand bytes to the protocol for as long as it reads; returns how many it took."""
        if self._closing:
            return len(data)  # nobody looks at them any more
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self.tell("data_received", data)
            return len(data)
        taken = 0
        while taken < len(data) and self._reading and not self._closing:
            buffer: Any = self.tell("get_buffer", -1)
            if buffer is None:
                break  # the process is dead
            size = min(len(buffer), len(data) - taken)
            buffer[:size] = data[taken : taken + size]
            taken += size
            self.tell("buffer_updated", size)
        return taken
