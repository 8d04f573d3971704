"""The real network: what is set on a listener holds for every connection that it accepts."""

import asyncio
import errno
import socket

import pytest

from bifrost.peers.connection import PeerConnection, PeerError, connect
from bifrost.peers.transport import TcpTransport


@pytest.mark.parametrize(("option", "name"), [(socket.SO_SNDBUF, "send"), (socket.SO_RCVBUF, "receive")])
def test_accepted_sockets_have_the_buffer_sizes_of_the_settings(option: int, name: str) -> None:
    async def accepted_size(transport: TcpTransport) -> int:
        loop = asyncio.get_running_loop()
        met: asyncio.Future[int] = loop.create_future()

        class Door(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                met.set_result(transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option))

        listening = await transport.listen("127.0.0.1", 0, Door, backlog=1)
        await listening.start()
        _, writer = await asyncio.open_connection("127.0.0.1", listening.port)
        try:
            return await met
        finally:
            writer.close()
            await writer.wait_closed()
            listening.close()

    small = asyncio.run(accepted_size(TcpTransport(**{f"{name}_buffer_bytes": 20_000})))
    large = asyncio.run(accepted_size(TcpTransport(**{f"{name}_buffer_bytes": 100_000})))
    assert 20_000 <= small < large
    assert 100_000 <= large <= 200_000  # Linux doubles what it is asked for, and tells the double


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """The host `odin.example` has these addresses."""

    async def found(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        assert host == "odin.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)


def fail_at(monkeypatch: pytest.MonkeyPatch, failures: dict[str, OSError]) -> None:
    async def refuse(_protocol: object, host: str, _port: int) -> None:
        raise failures[host]

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refuse)


async def knock(port: int) -> PeerError | None:
    try:
        door = PeerConnection("me", answer_bytes_max=1)
        await connect(TcpTransport(), "odin.example", port, door, timeout_s=5)
    except PeerError as error:
        return error
    door.close()
    return None


def test_nobody_listens_if_every_address_of_a_host_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio tries all addresses, and then raises an OSError that only lists in its text what each of them said."""

    async def run() -> PeerError | None:
        listening = await TcpTransport().listen("127.0.0.1", 0, asyncio.Protocol, backlog=1)
        listening.close()
        resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2")
        return await knock(listening.port)

    failure = asyncio.run(run())
    assert failure is not None
    assert failure.refused


def test_a_host_is_there_if_any_of_its_addresses_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> PeerError | None:
        listening = await TcpTransport().listen("127.0.0.1", 0, asyncio.Protocol, backlog=1)
        await listening.start()
        resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
        try:
            return await knock(listening.port)
        finally:
            listening.close()

    assert asyncio.run(run()) is None


@pytest.mark.parametrize(
    ("number", "refused"), [(errno.EHOSTUNREACH, False), (errno.ETIMEDOUT, False), (errno.EADDRNOTAVAIL, True)]
)
def test_who_cannot_be_reached_at_one_address_may_live_behind_it(
    monkeypatch: pytest.MonkeyPatch, number: int, refused: bool
) -> None:
    """But not behind one of a kind that this machine does not have."""

    async def run() -> PeerError | None:
        resolve_to(monkeypatch, "10.0.0.1", "10.0.0.2")
        fail_at(monkeypatch, {"10.0.0.1": ConnectionRefusedError(), "10.0.0.2": OSError(number, "what it says")})
        return await knock(9)

    failure = asyncio.run(run())
    assert failure is not None
    assert failure.refused is refused
