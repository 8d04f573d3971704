"""Where an Odin is reached over HTTP. The application behind the door is built when somebody first knocks.

FastAPI and what belongs to it take a third of a second and 20 MB, half as much as all the rest of an Odin, which may
never be asked. The first to come waits in the socket's queue meanwhile; nobody else does, since all of it is built in
another thread.

The one place outside `peers/transport.py` that opens a socket; the simulator never comes here.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Final

from bifrost.controller.http.side import ClusterSide
from bifrost.settings.listeners import HttpListener

if TYPE_CHECKING:
    from bifrost.controller.http.server import HttpServer

_QUEUE: Final = 128


class HttpDoor:
    """One listener of one Odin."""

    def __init__(self, side: ClusterSide, listener: HttpListener, token: str | None) -> None:
        self._side = side
        self._listener = listener
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        """Where it really listens, when any port was asked for. Every interface is told as this machine's own."""
        assert self._socket is not None, "it has not been started"
        host = self._listener.host if self._listener.host not in ("", "0.0.0.0", "::") else socket.gethostname()
        return HttpListener(host, self._socket.getsockname()[1]).url

    def start(self) -> None:
        """Take the address and wait for somebody to come. OSError if it is not to be had."""
        self._socket = _bound(self._listener)
        self._socket.listen(_QUEUE)
        self._loop.add_reader(self._socket, self._on_knock)

    async def stop(self, *, clean: bool) -> None:
        """In good order, answers that are under way are finished; streams end in any case."""
        self._side.history.close()
        assert self._socket is not None, "it has not been started"
        if self._opening is None:
            self._loop.remove_reader(self._socket)
        else:
            await asyncio.wait([self._opening])
        if self._server is not None:
            await self._server.stop(clean=clean)
        self._socket.close()

    def _on_knock(self) -> None:
        assert self._socket is not None, "it has not been started"
        self._loop.remove_reader(self._socket)
        self._opening = asyncio.create_task(self._open(self._socket), name="http opening")
        self._opening.add_done_callback(self._on_opened)

    async def _open(self, bound: socket.socket) -> None:
        self._server = await self._loop.run_in_executor(None, self._build)
        self._server.start(bound)

    def _on_opened(self, opening: asyncio.Task[None]) -> None:
        """If it could not be built, nobody is answered here any more; the cluster is served all the same."""
        error = None if opening.cancelled() else opening.exception()
        if isinstance(error, Exception):
            assert self._socket is not None, "somebody has come to it"
            self._socket.close()
            self._side.on_unexpected("HTTP", error)

    def _build(self) -> HttpServer:
        from bifrost.controller.http.server import HttpServer

        return HttpServer(self._side, self._listener.host, self._token)


def _bound(listener: HttpListener) -> socket.socket:
    """A socket that has the address."""
    try:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            if listener.port:  # with any port, it would also be given one that somebody holds and does not use yet
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((listener.host, listener.port))
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise OSError(error.errno, f"cannot speak HTTP on {listener.url}: {reason}") from error
    return bound
