"""What a node's settings mean for its place in the quorum, and whose silence counts for the one who leads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from bifrost.broker.odin import Odin, quorum_settings
from bifrost.clock import SystemClock
from bifrost.controller.core.brokers import Registration
from bifrost.controller.core.heartbeats import Heartbeat
from bifrost.controller.core.records import Endpoint
from bifrost.log.memory_disk import MemoryDisk
from bifrost.metrics import Metrics
from bifrost.peers.transport import TcpTransport
from bifrost.settings import parse_settings
from tests.unit.broker.stand_ins import on_loop, turns, until

BROKER = 6


@pytest.mark.parametrize(("timeout_ms", "wait_ms"), [(2000, 500), (1000, 500), (500, 250), (1, 0)])
def test_a_leader_with_nothing_to_tell_answers_before_its_followers_lose_patience(
    timeout_ms: int, wait_ms: int
) -> None:
    settings, _ = parse_settings({"controller.quorum.fetch.timeout.ms": str(timeout_ms)})
    told = quorum_settings(settings)
    assert (told.timing.fetch_timeout_ms, told.fetch_wait_ms) == (timeout_ms, wait_ms)


class Line:
    """A connection, as far as heartbeats need one."""

    def __init__(self, opened_at: float = 0.0) -> None:
        self.opened_at = opened_at
        self.when_lost: dict[str, Callable[[], None]] = {}

    def end(self) -> None:
        for tell in self.when_lost.values():
            tell()


class NoWayThere(TcpTransport):
    """Nobody can be reached, which tells nothing of who is there."""

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        raise OSError(113, "No route to host")


class Watching:
    """An Odin that is the whole quorum, and a broker that it watches."""

    def __init__(self) -> None:
        settings, _ = parse_settings(
            {
                "process.roles": "controller",
                "node.id": "1",
                "controller.quorum.voters": "1@localhost:9093",
                "controller.listener.names": "CONTROLLER",
                "listeners": "CONTROLLER://localhost:9093",
                "log.dirs": "data",
            }
        )
        self.failures: list[BaseException] = []
        self.odin = Odin.open(
            settings,
            MemoryDisk(),
            transport=NoWayThere(),
            clock=SystemClock(),
            rng=Random(1),
            metrics=Metrics(),
            on_failure=self.failures.append,
        )
        self.broker_epoch = -1

    async def start(self) -> None:
        self.odin.start()
        self.running = asyncio.ensure_future(self.odin.run())
        await self.odin.until_founded()
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")
        cluster_id = self.odin.replica.image.cluster_id or ""
        asked = Registration(broker_id=BROKER, cluster_id=cluster_id, incarnation=bytes(16), endpoints=(endpoint,))
        self.broker_epoch = await self.odin.register(asked)

    async def beat(self, line: Line) -> None:
        connection: Any = line
        offset = self.odin.replica.next_offset - 1
        asked = Heartbeat(broker_id=BROKER, broker_epoch=self.broker_epoch, metadata_offset=offset)
        await self.odin.heartbeat(asked, connection)

    async def stop(self) -> None:
        await self.odin.stop(clean=False)
        await asyncio.gather(self.running, return_exceptions=True)
        assert self.failures == []

    @property
    def is_fenced(self) -> bool:
        return self.odin.replica.image.brokers[BROKER].fenced


@pytest.mark.parametrize("led_before", [False, True])
@on_loop
async def test_a_connection_that_ends_counts_for_who_led_when_it_was_last_used(led_before: bool) -> None:
    """A broker may have turned to others meanwhile, and have come back on another connection that is slow."""
    it, line = Watching(), Line()
    await it.start()
    await it.beat(line)
    assert not it.is_fenced
    if led_before:
        it.odin.controller.deactivate()
        it.odin._on_change()
        assert it.odin.controller.is_active
    line.end()
    if led_before:
        await turns(50)
    else:
        await until(lambda: it.is_fenced)
    assert it.is_fenced != led_before
    await it.stop()


@on_loop
async def test_words_that_were_long_on_their_way_do_not_bring_back_the_connection_that_they_came_on() -> None:
    """The broker got no answer there, gave it up, and speaks on another."""
    it, first, second = Watching(), Line(1.0), Line(2.0)
    await it.start()
    for line in (first, second, first):
        await it.beat(line)
    first.end()
    await turns(50)
    assert not it.is_fenced
    second.end()
    await until(lambda: it.is_fenced)
    await it.stop()
