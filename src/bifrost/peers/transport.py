"""How a node is reached, and reaches others. Passed in, so that a simulator can be the network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol


class Listening(Protocol):
    """An open door."""

    host: str
    port: int
    """The port that is really open, when any was asked for."""

    async def start(self) -> None:
        """Accept connections from now on."""

    def close(self) -> None: ...


class Transport(Protocol):
    """Opens doors, and knocks at those of others."""

    async def listen(
        self, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int
    ) -> Listening:
        """Take an address, without accepting yet; raises OSError when it is not to be had."""
        ...

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        """Reach a door. ConnectionRefusedError: the machine is there, and nobody listens; other OSError: not now."""
        ...

    def host_name(self) -> str:
        """What others may call this machine, where a listener names no host."""
        ...


class TcpTransport:
    """The network of this machine.

    The size of the kernel's send buffer matters more than it seems: with the few megabytes that Linux grows it to, most
    of an answer leaves the processor's caches before the client reads it, which costs half of the rate of a fetch.
    """

    __slots__ = ("_buffer_sizes",)

    def __init__(self, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        sizes = {socket.SO_SNDBUF: send_buffer_bytes, socket.SO_RCVBUF: receive_buffer_bytes}
        self._buffer_sizes = {option: size for option, size in sizes.items() if size != -1}

    async def listen(
        self, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int
    ) -> Listening:
        loop = asyncio.get_running_loop()
        # Every interface means both families, which would take two ports where one is to be chosen.
        anywhere = None if port else "0.0.0.0"
        server = await loop.create_server(
            protocol, host or anywhere, port, backlog=backlog, reuse_address=True, start_serving=False
        )
        for listening in server.sockets:
            for option, size in self._buffer_sizes.items():
                listening.setsockopt(socket.SOL_SOCKET, option, size)  # accepted sockets inherit it
        return _TcpListening(server, host, server.sockets[0].getsockname()[1])

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: protocol, host, port)
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport

    def host_name(self) -> str:
        name = socket.gethostname()
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            return "localhost"
        return name


class _TcpListening:
    def __init__(self, server: asyncio.Server, host: str, port: int) -> None:
        self._server = server
        self.host = host
        self.port = port

    async def start(self) -> None:
        await self._server.start_serving()

    def close(self) -> None:
        self._server.close()
