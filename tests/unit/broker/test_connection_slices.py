"""Answers that carry slices of files, over real sockets: in order, bounded, and complete when the connection closes."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bifrost.broker.connection import Buffers, Connection
from bifrost.broker.receive import BufferPool
from bifrost.log.real_disk import RealDisk, RealFile
from bifrost.log.slices import LogSlice
from bifrost.metrics import Metrics
from tests.unit.broker.stand_ins import FETCH, METADATA, loop_factories, request, turns, until

CONTENT = random.Random(2).randbytes(4_000_000)
LOOPS = pytest.mark.parametrize("new_loop", loop_factories(), ids=lambda factory: factory.__module__.partition(".")[0])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> RealFile:
    path: Path = tmp_path_factory.mktemp("slices") / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return RealDisk().open(str(path))


class Slices:
    """A dispatcher that answers `text` with that many bytes of the file, as a slice, or as bytes for Metadata."""

    def __init__(self, file: RealFile) -> None:
        self.file = file
        self.started = 0

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers:
        self.started += 1
        (api_key,) = struct.unpack_from(">h", frame)
        size = int(bytes(frame[8:]))
        prefix = struct.pack(">i", size)
        if api_key == METADATA:
            return (prefix, CONTENT[:size])
        assert connection.can_send_slices()
        return (prefix, LogSlice(self.file, 0, size, 0))


class Open:
    """A connection between two real sockets."""

    def __init__(self, file: RealFile) -> None:
        self.dispatcher = Slices(file)
        self.metrics = Metrics()
        self.lost = asyncio.Event()
        self.connection = Connection(
            self.dispatcher,
            BufferPool(1 << 30),
            self.metrics,
            listener="PLAINTEXT",
            max_frame_bytes=1 << 20,
            max_pipelined=10,
            max_unsent_bytes=1 << 20,
            on_open=lambda _: True,
            on_close=lambda *_: self.lost.set(),
        )

    async def start(self) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        self.peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
        server.close()
        ours.setblocking(False)
        self.peer.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.connection, ours)

    async def ask(self, *asked: tuple[int, int]) -> None:
        frames = b"".join(request(api_key, str(size)) for api_key, size in asked)
        await asyncio.get_running_loop().sock_sendall(self.peer, frames)

    async def expect(self, *sizes: int) -> None:
        for size in sizes:
            (announced,) = struct.unpack(">i", await self._read(4))
            assert announced == size
            assert await self._read(size) == CONTENT[:size]

    async def _read(self, size: int) -> bytes:
        loop, got = asyncio.get_running_loop(), bytearray()
        while len(got) < size:
            piece = await loop.sock_recv(self.peer, min(1 << 18, size - len(got)))
            assert piece, f"closed with {size - len(got)} bytes to come"
            got += piece
        return bytes(got)


def run(
    new_loop: Callable[[], asyncio.AbstractEventLoop], file: RealFile, test: Callable[[Open], Awaitable[None]]
) -> None:
    async def main() -> None:
        opened = Open(file)
        await opened.start()
        try:
            await asyncio.wait_for(test(opened), 20)
        finally:
            opened.connection.abort()
            await opened.lost.wait()
            opened.peer.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@LOOPS
def test_slices_and_bytes_arrive_in_order(new_loop: Callable[[], asyncio.AbstractEventLoop], file: RealFile) -> None:
    sizes = [40_000, 3_900_000, 10, 1_500_000, 100_000, 3_000_000, 5]
    kinds = [FETCH, FETCH, METADATA, METADATA, FETCH, FETCH, METADATA]

    async def test(opened: Open) -> None:
        await opened.ask(*zip(kinds, sizes))
        await opened.expect(*sizes)
        assert opened.metrics.bytes_out == sum(sizes) + 4 * len(sizes)

    run(new_loop, file, test)


@LOOPS
def test_a_peer_that_does_not_read_slices_is_not_read_from(
    new_loop: Callable[[], asyncio.AbstractEventLoop], file: RealFile
) -> None:
    async def test(opened: Open) -> None:
        await opened.ask(*[(FETCH, 4_000_000)] * 100)
        await until(lambda: opened.dispatcher.started > 0)
        await turns(100)  # in which more could have been started
        assert opened.dispatcher.started <= 3, "as much as the two sockets hold, and one more"
        await opened.expect(*[4_000_000] * 100)

    run(new_loop, file, test)


@LOOPS
def test_closing_waits_for_slices_that_are_on_their_way(
    new_loop: Callable[[], asyncio.AbstractEventLoop], file: RealFile
) -> None:
    async def test(opened: Open) -> None:
        await opened.ask(*[(FETCH, 4_000_000)] * 5)
        await until(lambda: opened.dispatcher.started > 0)
        started = opened.dispatcher.started
        opened.connection.close()
        await opened.expect(*[4_000_000] * started)
        assert await asyncio.get_running_loop().sock_recv(opened.peer, 1) == b""
        await opened.lost.wait()
        assert opened.dispatcher.started == started

    run(new_loop, file, test)


@LOOPS
def test_a_peer_that_vanishes_in_the_middle_of_a_slice_ends_its_connection(
    new_loop: Callable[[], asyncio.AbstractEventLoop], file: RealFile
) -> None:
    async def test(opened: Open) -> None:
        await opened.ask((FETCH, 4_000_000), (FETCH, 4_000_000))
        await until(lambda: opened.dispatcher.started > 0)
        opened.peer.close()
        await opened.lost.wait()

    run(new_loop, file, test)
