"""Three brokers and a controller on one loop, joined by cables in memory: for what must be counted, not timed.

The loop's time is virtual and stands still while there is anything to do, so between a request and its answer no timer
runs and no heartbeat comes: the same work takes the same calls every time. Each node is a simulated process, so each
call can be put down to the node that makes it.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from pathlib import Path
from types import FrameType
from typing import Any

import bifrost
from bifrost.broker.node import Node
from bifrost.log.memory_disk import MemoryDisk
from bifrost.realm.plan import PlannedNode, Ports, Shape, plan
from bifrost.settings import parse_settings
from tests.sim.loop import SimClock, SimLoop
from tests.sim.process import CURRENT, Process

BROKERS = 3
_SOURCES = str(Path(bifrost.__file__).parent)


class Cable(asyncio.Transport):
    """One end of a connection: what is written here is received there, in the context of whoever is there."""

    far: Cable

    def __init__(self, protocol: Any, context: Context) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._context = context
        self._is_cut = False

    def write(self, data: Any) -> None:
        if not self._is_cut:
            self._loop.call_soon(self.far._receive, bytes(data), context=self.far._context)

    def writelines(self, buffers: Any) -> None:
        self.write(b"".join(buffers))

    def abort(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)
            self.far.abort()

    close = abort

    def is_closing(self) -> bool:
        return self._is_cut

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # asyncio calls it so
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def _receive(self, data: bytes) -> None:
        position = 0
        while position < len(data) and not self._is_cut:
            buffer = memoryview(self._protocol.get_buffer(len(data)))
            size = min(len(buffer), len(data) - position)
            buffer[:size] = data[position : position + size]
            position += size
            self._protocol.buffer_updated(size)


class _Door:
    def __init__(self, host: str, port: int, accept: Callable[[], Any], context: Context) -> None:
        self.host, self.port, self.accept, self.context = host, port, accept, context
        self.is_open = False

    async def start(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class _Network:
    """As one node sees it; all see the same doors."""

    def __init__(self, doors: dict[int, _Door], context: Context) -> None:
        self._doors = doors
        self._context = context

    async def listen(self, host: str, port: int, protocol: Callable[[], Any], *, backlog: int) -> _Door:
        del backlog
        door = self._doors[port] = _Door(host, port, protocol, self._context)
        return door

    async def connect(self, host: str, port: int, protocol: Any) -> Cable:
        del host
        await asyncio.sleep(0)
        door = self._doors.get(port)
        if door is None or not door.is_open:
            raise ConnectionRefusedError
        here, there = Cable(protocol, self._context), Cable(door.accept(), door.context)
        here.far, there.far = there, here
        door.context.run(there._protocol.connection_made, there)
        protocol.connection_made(here)
        return here

    def host_name(self) -> str:
        return "here"


class Machine:
    """One node, and the process that all of its work belongs to."""

    def __init__(self, planned: PlannedNode, doors: dict[int, _Door], loop: SimLoop, settings: dict[str, str]) -> None:
        self.port = int(planned.address.rpartition(":")[2])
        self.process = Process(planned.name)
        parsed, _ = parse_settings({**planned.settings, **settings})
        parts = {"disk": MemoryDisk(), "clock": SimClock(loop), "rng": random.Random(planned.id)}
        network = _Network(doors, self.process.context)
        self.node: Node = self.process.run(lambda: Node(parsed, transport=network, **parts))  # type: ignore[arg-type]


class Client(asyncio.BufferedProtocol):
    """Sends frames that are ready, and collects what comes back."""

    def __init__(self) -> None:
        self._buffer = bytearray(1 << 16)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:  # asyncio calls it so
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._answer.set_result(bytes(self._buffer[:nbytes]))

    async def ask(self, frame: bytes) -> bytes:
        """The answer, which comes in one piece."""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return await self._answer


class LoopCluster:
    """To be made, started and stopped on a `SimLoop`."""

    def __init__(self, loop: SimLoop, **settings: str) -> None:
        self._doors: dict[int, _Door] = {}
        ports = Ports(range(1, 1 + BROKERS), [1 + BROKERS])
        chosen = {name.replace("_", "."): value for name, value in settings.items()}
        planned = plan(Shape(BROKERS, 1), Path("/data"), ports)
        self.machines = {each.id: Machine(each, self._doors, loop, chosen) for each in planned}

    async def start(self) -> None:
        await asyncio.gather(*[each.process.spawn(each.node.start()) for each in self.machines.values()])

    async def stop(self) -> None:
        for each in self.machines.values():
            each.node.request_stop(False)
            await each.process.spawn(each.node.run_until_stopped())

    async def connect(self, broker_id: int) -> Client:
        client = Client()
        await _Network(self._doors, copy_context()).connect("here", self.machines[broker_id].port, client)
        return client


async def count_calls(work: Coroutine[Any, Any, object]) -> dict[str, Counter[str]]:
    """Which calls the code of each node makes until the work is done, those into C among them; not the loop's own."""
    calls: dict[str, Counter[str]] = {}

    def on_call(frame: FrameType, event: str, argument: Any) -> None:
        process = CURRENT.get()
        if process is None or not frame.f_code.co_filename.startswith(_SOURCES) or event not in ("call", "c_call"):
            return
        name = frame.f_code.co_qualname if event == "call" else getattr(argument, "__qualname__", str(argument))
        calls.setdefault(process.name, Counter())[name] += 1

    sys.setprofile(on_call)
    try:
        await work
    finally:
        sys.setprofile(None)
    return calls
