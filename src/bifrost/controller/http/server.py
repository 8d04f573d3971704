"""Runs the application on the node's own loop: uvicorn without its signals, its process, or its logging."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Generator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bifrost.controller.http.access import Access
from bifrost.controller.http.app import build_app
from bifrost.controller.http.side import ClusterSide

_CONNECTIONS_MAX: Final = 1000
_SILENCE_S: Final = 30.0
"""How long a client may take to say what it wants, or to read any of what it was sent."""
_DRAIN_S: Final = 1
_BUILDING: Final = threading.Lock()
"""FastAPI turns off a warning while it reads signatures, and warnings belong to the process: nodes that start in
several threads at once, as in tests, would turn it on for each other."""


class HttpServer:
    """What answers behind the door of one Odin."""

    def __init__(self, side: ClusterSide, host: str, token: str | None) -> None:
        with _BUILDING:
            app = build_app(side, Access(host, token), self._is_crowded)
        config = uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_S,
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    def start(self, bound: socket.socket) -> None:
        """Answer whoever comes to this socket."""
        self._serving = asyncio.create_task(self._server.serve([bound]), name="http")

    def _is_crowded(self) -> bool:
        """The application refuses them: uvicorn would in a form of its own."""
        return len(self._server.server_state.connections) > _CONNECTIONS_MAX

    async def stop(self, *, clean: bool) -> None:
        """In good order, answers that are under way are finished."""
        self._server.should_exit = True
        if not clean:
            self._server.force_exit = True
            self._server.hang_up()
        if self._serving is not None:
            await self._serving
        self._server.hang_up()


class _Server(uvicorn.Server):
    """Signals are the command's affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class _Connection(H11Protocol):
    """Hangs up on those who neither ask nor read."""

    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None  # of its own: who does not read may well go on asking

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._asking = self._hang_up_later()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None:
            _stop(self._asking)

    def pause_writing(self) -> None:
        super().pause_writing()
        _stop(self._reading)
        self._reading = self._hang_up_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        _stop(self._reading)

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._asking)
        _stop(self._reading)
        super().connection_lost(exc)

    def _hang_up_later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(_SILENCE_S, self.transport.abort)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
