"""Asking another node: answers in order, and an end to everything as soon as something is not as it should be."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.peers.connection import PeerConnection, PeerError, connect
from bifrost.peers.transport import TcpTransport
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import writer
from bifrost.protocol.frame import has_flexible_response_header, read_request_header, response_prefix
from bifrost.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse

Answering = Callable[[asyncio.Transport, int, int], None]
Asking = Callable[[PeerConnection], Awaitable[None]]
VERSION = DescribeClusterRequest.versions[-1]


class Door(asyncio.Protocol):
    """Cuts frames and lets the test answer them: (transport, correlation id, how many came before)."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._received = b""
        self._count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + length:
                return
            header, _ = read_request_header(self._received[4 : 4 + length])
            self._received = self._received[4 + length :]
            self._answering(self._transport, header.correlation_id, self._count)
            self._count += 1


def answer(correlation_id: int, cluster_id: str) -> bytes:
    body = writer(DescribeClusterResponse, VERSION)(DescribeClusterResponse(cluster_id=cluster_id))
    flexible = has_flexible_response_header(ApiKey.DESCRIBE_CLUSTER, VERSION)
    return response_prefix(correlation_id, flexible, len(body)) + body


def with_door(answering: Answering, asking: Asking, *, answer_bytes_max: int = 1 << 20) -> list[str]:
    """Run `asking` on a connection to a door that answers so; what was told of the connection's end."""
    told: list[str] = []

    async def run() -> None:
        transport = TcpTransport()
        listening = await transport.listen("127.0.0.1", 0, lambda: Door(answering), backlog=1)
        await listening.start()
        peer = PeerConnection("node-1", answer_bytes_max=answer_bytes_max, on_lost=lambda: told.append("lost"))
        await connect(transport, "127.0.0.1", listening.port, peer, timeout_s=5)
        try:
            await asking(peer)
        finally:
            peer.close()
            listening.close()
            await asyncio.sleep(0)

    asyncio.run(run())
    return told


async def ask(peer: PeerConnection, timeout_s: float = 5) -> str:
    response = await peer.ask(DescribeClusterRequest(), DescribeClusterResponse, timeout_s=timeout_s)
    return response.cluster_id


def test_answers_are_for_those_who_asked_in_that_order() -> None:
    waiting: list[bytes] = []

    def both_at_once(transport: asyncio.Transport, correlation_id: int, count: int) -> None:
        waiting.append(answer(correlation_id, f"cluster-{count}"))
        if count == 1:
            transport.write(b"".join(waiting))

    async def asking(peer: PeerConnection) -> None:
        assert await asyncio.gather(ask(peer), ask(peer)) == ["cluster-0", "cluster-1"]

    assert with_door(both_at_once, asking) == []


def test_an_answer_may_arrive_byte_by_byte() -> None:
    def slowly(transport: asyncio.Transport, correlation_id: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        for number, byte in enumerate(answer(correlation_id, "slow")):
            loop.call_later(number / 10_000, transport.write, bytes([byte]))

    async def asking(peer: PeerConnection) -> None:
        assert await ask(peer) == "slow"

    assert with_door(slowly, asking) == []


class NoTransport(asyncio.Transport):
    """Takes what is written, and drops it."""

    def write(self, data: object) -> None: ...

    def abort(self) -> None: ...


@given(
    sizes=st.lists(st.sampled_from([0, 1, 100, 16_000, 16_384, 40_000]), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 60_000), min_size=1, max_size=20),
)
def test_answers_of_any_size_in_any_pieces(sizes: list[int], cuts: list[int]) -> None:
    """Small ones share a buffer, large ones have their own; pieces end anywhere."""

    async def run() -> None:
        peer = PeerConnection("node-1", answer_bytes_max=1 << 20)
        peer.connection_made(NoTransport())
        bodies = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
        asked = [asyncio.ensure_future(peer.send(lambda _: b"", False, timeout_s=5)) for _ in bodies]
        await asyncio.sleep(0)
        stream = b"".join(struct.pack(">ii", 4 + len(body), number) + body for number, body in enumerate(bodies, 1))
        pieces = cycle(cuts)
        while stream:
            buffer = peer.get_buffer(-1)
            size = min(next(pieces), len(buffer), len(stream))
            buffer[:size] = stream[:size]
            stream = stream[size:]
            peer.buffer_updated(size)
        assert [bytes(await one) for one in asked] == bodies

    asyncio.run(run())


def nonsense(make: Callable[[int], bytes]) -> Answering:
    return lambda transport, correlation_id, _count: transport.write(make(correlation_id))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda number: answer(number + 1, "x"), "instead of"),
        (lambda _: struct.pack(">i", 1 << 30), "an answer of 1073741824 bytes"),
        (lambda _: struct.pack(">i", -1), "an answer of -1 bytes"),
        (lambda number: response_prefix(number, True, 1) + b"\0", "DescribeCluster|buffer|short|unpack"),
    ],
    ids=["another's", "too long", "negative", "cut short"],
)
def test_nonsense_ends_the_connection(make: Callable[[int], bytes], reason: str) -> None:
    async def asking(peer: PeerConnection) -> None:
        with pytest.raises(PeerError, match=reason):
            await ask(peer)
        assert not peer.is_open
        with pytest.raises(PeerError, match="closed"):
            await ask(peer)

    assert with_door(nonsense(make), asking) == ["lost"]


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    twice: Answering = nonsense(lambda number: answer(number, "x") * 2)

    async def asking(peer: PeerConnection) -> None:
        assert await ask(peer) == "x"
        with pytest.raises(PeerError):
            await ask(peer)

    assert with_door(twice, asking) == ["lost"]


def test_a_late_answer_ends_the_connection_for_all() -> None:
    async def asking(peer: PeerConnection) -> None:
        patient = asyncio.ensure_future(ask(peer))
        with pytest.raises(PeerError, match=r"no answer for 0\.01 s"):
            await ask(peer, timeout_s=0.01)
        with pytest.raises(PeerError, match=r"no answer for 0\.01 s"):
            await patient

    assert with_door(lambda *_: None, asking) == ["lost"]


def test_whoever_waits_hears_of_a_broken_connection() -> None:
    def hang_up(transport: asyncio.Transport, _correlation_id: int, _count: int) -> None:
        transport.abort()

    async def asking(peer: PeerConnection) -> None:
        with pytest.raises(PeerError):
            await ask(peer)

    assert with_door(hang_up, asking) == ["lost"]


def test_closing_tells_those_who_wait_and_nobody_else() -> None:
    async def asking(peer: PeerConnection) -> None:
        waiting = asyncio.ensure_future(ask(peer))
        await asyncio.sleep(0)
        peer.close()
        with pytest.raises(PeerError, match="was closed"):
            await waiting

    assert with_door(lambda *_: None, asking) == []


def test_a_shut_door_is_told_from_one_that_cannot_be_reached() -> None:
    async def run() -> PeerError:
        transport = TcpTransport()
        listening = await transport.listen("127.0.0.1", 0, asyncio.Protocol, backlog=1)
        listening.close()
        with pytest.raises(PeerError) as refused:
            await connect(transport, "127.0.0.1", listening.port, PeerConnection("me", answer_bytes_max=1), timeout_s=5)
        return refused.value

    assert asyncio.run(run()).refused
