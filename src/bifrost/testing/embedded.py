"""A node in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import NoReturn

from bifrost.broker.node import Node
from bifrost.broker.real_node import real_node
from bifrost.metrics import Metrics
from bifrost.settings import Settings, parse_settings

START_TIMEOUT_S = 30


class EmbeddedNode:
    """Runs a production node on a loop of its own."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        self.id = int(settings["node.id"])
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._made = threading.Event()
        """Set once it is known whether there is a node that can be stopped."""
        self.address = ""
        self.metrics = Metrics()
        """What the node has counted since it was started last."""

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        host, port = (self.address or "127.0.0.1:0").rsplit(":", 1)
        listeners = {"listeners": f"PLAINTEXT://{host}:{port}"}
        settings, _ = parse_settings({**listeners, **self.settings})
        ready: Future[str] = Future()
        thread = threading.Thread(target=self._run, args=(settings, ready), name="bifrost-node", daemon=True)
        self._made = threading.Event()
        self._thread = thread
        thread.start()
        try:
            self.address = ready.result(START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        self._end(clean=True)

    def kill(self) -> None:
        self._end(clean=False)

    def pause(self) -> NoReturn:
        raise RuntimeError("only a process can be paused: Cluster(processes=True)")

    def resume(self) -> NoReturn:
        self.pause()

    def _end(self, *, clean: bool) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._made.wait()
        if self._node is None:
            thread.join()
            return
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._node.request_stop, clean)
        except RuntimeError:
            assert self._loop.is_closed(), "the node ended by itself, and its loop with it"
        thread.join()
        self._loop = self._node = None  # so that nothing keeps the node's files open

    def _run(self, settings: Settings, ready: Future[str]) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._node = node = real_node(settings)
            self._made.set()
            self.metrics = node.metrics
            self._loop.set_exception_handler(node.on_loop_error)
            await node.start()
            ready.set_result(node.address)
            await node.run_until_stopped()

        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(main())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            self._made.set()  # whether there is one or not

    def __repr__(self) -> str:
        return f"EmbeddedNode(id={self.id}, address={self.address!r})"


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
