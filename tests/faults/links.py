"""The network between the nodes of a cluster: every link can be cut or slowed, in both directions or in one.

Nodes reach each other through doors here. A voter has a door for each node that may knock, since every node can be told
addresses of its own; a broker tells all others the same, so there who knocks is found out by looking up which process
has the other end of the connection. So a single pair of nodes can be parted and all others left alone.

A cut link loses nothing and ends nothing, as TCP sees it: bytes, ends of connections and new connections wait, and go
on when it heals. Clients of the cluster have addresses of their own, and never come through here.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

_HOST = "127.0.0.1"
_CHUNK_BYTES = 64 * 1024
_PATIENCE_S = 10.0
_LOOKS_MAX = 20
_LOOK_AGAIN_S = 0.02

Way = tuple[int, int]
"""From one node to another."""
T = TypeVar("T")


class Late(NamedTuple):
    """What a slow link has held up since it became slow."""

    bytes: int = 0
    least_s: float = inf
    """How long the luckiest of them was held."""


class Links:
    """All of them, in a thread of their own. `pids` tells which nodes run now, and as which processes."""

    def __init__(self, pids: Callable[[], Mapping[int, int]]) -> None:
        self._pids = pids
        self._cut: set[Way] = set()
        self._delay_s: dict[Way, float] = {}
        self._late: dict[Way, Late] = {}
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._passages: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def door(self, node: int, port: int, source: int | None = None) -> int:
        """A port at which others, or `source` alone, reach what the node serves on `port`."""
        return self._run(self._open(node, port, source))

    def cut(self, source: int, target: int) -> None:
        """Nothing that `source` says reaches `target` any more; the other direction stays as it is."""
        self._run(self._set(lambda: self._cut.add((source, target))))

    def part(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Cut every link between two parties, both ways."""
        ways = [(a, b) for a in some for b in others if a != b]
        self._run(self._set(lambda: self._cut.update(ways, [(b, a) for a, b in ways])))

    def slow(self, source: int, target: int, delay_s: float) -> None:
        """Every chunk of bytes from `source` to `target` takes so long, one after the other."""

        def change() -> None:
            self._delay_s[source, target] = delay_s
            self._late[source, target] = Late()

        self._run(self._set(change))

    def late(self, source: int, target: int) -> Late:
        """As measured on the way."""
        return self._late.get((source, target), Late())

    def heal(self) -> None:
        """Everything passes again, what was held first."""
        self._run(self._set(lambda: (self._cut.clear(), self._delay_s.clear())))

    # Inside the thread.

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    async def _set(self, change: Callable[[], object]) -> None:
        change()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _open(self, node: int, port: int, source: int | None) -> int:
        async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._passages.add(task)
            try:
                knocks = source
                if knocks is None:
                    knocks = await self._who(writer.get_extra_info("peername")[1])
                await self._pass(knocks, node, port, reader, writer)
            except (asyncio.CancelledError, OSError):
                pass  # the end of a connection, by either side or by the end of the test
            finally:
                self._passages.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(on_connection, _HOST, 0)
        self._servers.append(server)
        number: int = server.sockets[0].getsockname()[1]
        return number

    async def _who(self, port: int) -> int:
        """Whose connection it is. The kernel's table may change while it is read, so that one look can miss it; who
        cannot be told has to knock again, for nothing that is cut could keep it out."""
        for _ in range(_LOOKS_MAX):
            found = owner_of(port, self._pids())
            if found is not None:
                return found
            await asyncio.sleep(_LOOK_AGAIN_S)
        raise ConnectionAbortedError(f"nobody is known to have port {port}")

    async def _pass(
        self, source: int, node: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = (source, node), (node, source)
        await self._until_open(there, back)
        upstream_reader, upstream_writer = await asyncio.open_connection(_HOST, port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(there, reader, upstream_writer))
                both.create_task(self._carry(back, upstream_reader, writer))
        except* (OSError, _EndedError):
            pass
        finally:
            upstream_writer.transport.abort()

    async def _carry(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            chunk = await reader.read(_CHUNK_BYTES)
            came_at, is_slow = time.monotonic(), way in self._delay_s
            await asyncio.sleep(self._delay_s.get(way, 0.0))
            await self._until_open(way)
            if not chunk:
                raise _EndedError
            writer.write(chunk)
            if is_slow:
                before = self._late[way]
                self._late[way] = Late(before.bytes + len(chunk), min(before.least_s, time.monotonic() - came_at))
            await writer.drain()

    async def _until_open(self, *ways: Way) -> None:
        while any(way in self._cut for way in ways):
            await self._changed.wait()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._passages):
            task.cancel()
        await asyncio.gather(*self._passages, return_exceptions=True)


class _EndedError(Exception):
    """One side has ended the connection: so the other one is told."""


def owner_of(port: int, pids: Mapping[int, int]) -> int | None:
    """The node whose process has a connection from this local port, or None."""
    inode = _inode(port)
    if inode is None:
        return None
    for node, pid in pids.items():
        try:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                if os.readlink(entry.path) == f"socket:[{inode}]":
                    return node
        except OSError:
            continue  # it has just ended, or closed the file
    return None


def _inode(port: int) -> str | None:
    """Of the socket that has this local port and is connected; `/proc/net/tcp` has ports in hexadecimal."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{port:04X}") and fields[3] == "01":
            return fields[9]
    return None
