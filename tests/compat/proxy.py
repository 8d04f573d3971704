"""A TCP proxy that cuts connections in the middle of a request, between any client and any broker.

Clients drop the address they were given for the one in the broker's answers, so the proxy puts its own port in its
place: an answer names a broker as host and then a 4-byte port, and replacing the port keeps every length. The proxy
decides only when to cut; which requests are lost, stored without an answer, or torn is what the tests are about.
"""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from types import TracebackType
from typing import Self

_HOST = "127.0.0.1"
_LINGER_S = 0.05


class CuttingProxy:
    """Cuts each connection after a seeded number of request bytes, `cuts` times in all, then lets everything pass.

    Cuts alternate: a whole chunk reaches the broker but its answer is thrown away; half a chunk reaches it.
    """

    def __init__(self, bootstrap: str, *, seed: int, cuts: int, after_bytes: tuple[int, int]) -> None:
        host, port = bootstrap.rsplit(":", 1)
        assert host == _HOST, "only the port is replaced in answers"
        self._upstream_port = int(port)
        self._random = random.Random(seed)
        self._after_bytes = after_bytes
        self._cuts_left = cuts
        self.cuts_made = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._on_client, _HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve_client(reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            pass  # the end of a connection, by either side or by the end of the test
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(_HOST, self._upstream_port)
        answers = asyncio.create_task(self._relay_answers(broker_reader, writer))
        try:
            budget = self._random.randint(*self._after_bytes)
            while chunk := await reader.read(65536):
                budget -= len(chunk)
                if budget <= 0 and self._cuts_left > 0:
                    await self._cut(chunk, writer, broker_writer, answers)
                    return
                broker_writer.write(chunk)
                await broker_writer.drain()
        finally:
            answers.cancel()
            broker_writer.close()

    async def _cut(
        self, chunk: bytes, writer: asyncio.StreamWriter, broker: asyncio.StreamWriter, answers: asyncio.Task[None]
    ) -> None:
        self._cuts_left -= 1
        self.cuts_made += 1
        answers.cancel()
        broker.write(chunk if self.cuts_made % 2 else chunk[: len(chunk) // 2])
        writer.transport.abort()
        await broker.drain()
        # The broker gets a moment to read what was sent before it sees the end of the connection.
        await asyncio.sleep(_LINGER_S)

    async def _relay_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Frame by frame, so that an address is never split."""
        theirs, ours = (_HOST.encode() + struct.pack(">i", port) for port in (self._upstream_port, self.port))
        try:
            while True:
                length = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", length)[0])
                writer.write(length + frame.replace(theirs, ours))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()
