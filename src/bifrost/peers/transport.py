"""How a node is reached, and reaches others. Passed in, so that a simulator can be the network."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, Protocol

_NO_WAY_THERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH)
"""Not an address that this machine could reach, as ::1 where there is no IPv6: it tells nothing of who is there."""


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
        failures: list[OSError] = []
        for address in await _addresses(host, port):
            try:
                transport, _ = await loop.create_connection(lambda: protocol, address, port)
                break
            except OSError as error:
                failures.append(error)
        else:
            raise _of_all(failures)
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


async def _addresses(host: str, port: int) -> list[str]:
    """Every address of a host. They are tried one by one: a loop that does it itself (asyncio's own is one) tells only
    the text of several failures, not whether all of them were refusals."""
    try:
        ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))
    return [host]


def _of_all(failures: list[OSError]) -> OSError:
    """One for many: nobody listens if somebody said so at one address, and the others cannot be had from here."""
    told = [error for error in failures if error.errno not in _NO_WAY_THERE]
    others = [error for error in told if not isinstance(error, ConnectionRefusedError)]
    return [*others, *told, *failures][0]


class _TcpListening:
    def __init__(self, server: asyncio.Server, host: str, port: int) -> None:
        self._server = server
        self.host = host
        self.port = port

    async def start(self) -> None:
        await self._server.start_serving()

    def close(self) -> None:
        self._server.close()
