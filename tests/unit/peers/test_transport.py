"""The real network: what is set on a listener holds for every connection that it accepts."""

import asyncio
import socket

import pytest

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
