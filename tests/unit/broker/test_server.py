"""The doors of a node: who is let in, how long they may stay, and what each is told of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bifrost.broker.connection import Connection
from bifrost.broker.server import Server
from bifrost.metrics import Metrics
from bifrost.settings import Settings, parse_settings
from tests.unit.broker.stand_ins import Doors, Peer, no_quotas, on_loop, turns, until


class FakeBroker:
    metrics = Metrics()
    settings = Settings()
    quotas = no_quotas()


class Open:
    """A server that serves, without any API behind it."""

    def __init__(self, **properties: str) -> None:
        named = {"listeners": "PLAINTEXT://127.0.0.1:0", **{key.replace("_", "."): v for key, v in properties.items()}}
        settings, _ = parse_settings(named)
        self.metrics = Metrics()
        self.doors = Doors()
        self.server = Server(settings, self.doors, self.metrics)

    def connect(self, door: int = 0) -> tuple[Connection, Peer]:
        connection = self.doors.opened[door].accept()
        peer = Peer(connection, room=1 << 30)
        connection.connection_made(peer)
        return connection, peer


@asynccontextmanager
async def serving(**properties: str) -> AsyncIterator[Open]:
    opened = Open(**properties)
    await opened.server.bind()
    await opened.server.serve(FakeBroker())  # type: ignore[arg-type]
    try:
        yield opened
    finally:
        await opened.server.close(clean=False)


@on_loop
async def test_nobody_is_let_in_before_there_is_somebody_to_answer() -> None:
    opened = Open()
    await opened.server.bind()
    assert [door.is_open for door in opened.doors.opened] == [False]
    await opened.server.serve(FakeBroker())  # type: ignore[arg-type]
    assert [door.is_open for door in opened.doors.opened] == [True]
    await opened.server.close(clean=True)
    assert [door.is_open for door in opened.doors.opened] == [False]


@on_loop
async def test_every_listener_has_a_door_and_an_address_of_its_own() -> None:
    async with serving(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://:0,FIXED://10.1.1.1:9999",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,FIXED:PLAINTEXT",
    ) as opened:
        told = [(one.listener, one.host, one.port) for one in opened.server.endpoints()]
        assert told == [("INSIDE", "127.0.0.1", 5001), ("OUTSIDE", "this-host", 5002), ("FIXED", "10.1.1.1", 9999)]
        assert opened.server.address == "127.0.0.1:5001"
        assert [opened.connect(door)[0].listener for door in range(3)] == ["INSIDE", "OUTSIDE", "FIXED"]


@on_loop
async def test_clients_are_told_what_is_advertised_where_something_is() -> None:
    async with serving(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://:0",
        advertised_listeners="OUTSIDE://example.org:443",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    ) as opened:
        told = [(one.listener, one.host, one.port) for one in opened.server.endpoints()]
        assert told == [("INSIDE", "127.0.0.1", 5001), ("OUTSIDE", "example.org", 443)]


@on_loop
async def test_an_address_of_ipv6_is_written_so_that_clients_can_read_it() -> None:
    async with serving(listeners="PLAINTEXT://[::1]:0") as opened:
        assert opened.server.address == "[::1]:5001"


@on_loop
async def test_a_port_that_is_taken_is_an_error_of_the_system() -> None:
    settings, _ = parse_settings({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    server = Server(settings, Doors(taken=(9092,)), Metrics())
    with pytest.raises(OSError, match="in use"):
        await server.bind()


@on_loop
async def test_a_limit_may_change_and_nobody_who_is_in_has_to_leave() -> None:
    async with serving(max_connections="9") as opened:
        _, first = opened.connect()
        opened.server.reconfigure(Settings(max_connections=1))
        _, refused = opened.connect()
        opened.server.reconfigure(Settings(max_connections=2))
        _, welcome = opened.connect()
        await turns()
        assert (first.aborted, refused.aborted, welcome.aborted) == (False, True, False)


@on_loop
async def test_connections_beyond_the_limit_are_refused_until_one_leaves() -> None:
    async with serving(max_connections="2") as opened:
        (_, first), _ = opened.connect(), opened.connect()
        _, refused = opened.connect()
        await turns()
        assert (refused.aborted, opened.metrics.connections_refused) == (True, 1)
        first.close()
        await turns()
        _, welcome = opened.connect()
        await turns()
        assert not welcome.aborted
        assert (opened.metrics.connections_opened, opened.metrics.connections_closed) == (3, 1)


@on_loop
async def test_a_connection_that_says_nothing_for_long_is_closed_and_one_that_talks_is_not() -> None:
    async with serving(connections_max_idle_ms="60") as opened:
        (_, silent), (busy, talking) = opened.connect(), opened.connect()
        busy.last_active = asyncio.get_running_loop().time() + 1000
        await until(lambda: silent.aborted)
        assert not talking.aborted
        assert opened.metrics.connections_expired == 1


@on_loop
async def test_connections_may_be_silent_for_ever_where_the_setting_says_so() -> None:
    async with serving(connections_max_idle_ms="-1") as opened:
        opened.connect()
        assert opened.server._idle_check is None


@on_loop
async def test_a_clean_close_waits_for_what_is_already_answered() -> None:
    async with serving() as opened:
        _, peer = opened.connect()
        peer.room = 0
        peer.write(b"answer")
        closing = asyncio.ensure_future(opened.server.close(clean=True))
        await turns(5)
        assert not closing.done()
        peer.read(100)
        await closing
        assert (bytes(peer.received), peer.aborted) == (b"answer", False)


@on_loop
async def test_an_unclean_close_waits_for_nobody() -> None:
    async with serving() as opened:
        _, peer = opened.connect()
        peer.room = 0
        peer.write(b"answer")
        await opened.server.close(clean=False)
        assert peer.aborted


@on_loop
async def test_why_a_connection_was_closed_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as opened:
        connection, _ = opened.connect()
        connection.fail(ValueError("bad frame"))
        await turns()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "bifrost.broker.server"]
    assert line == "connection closed peer=10.0.0.1:4711 listener=PLAINTEXT reason='ValueError: bad frame'"
