"""One node: what keeps it from starting, what ends it, and what it leaves behind."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from bifrost.broker.node import Node, StartError
from bifrost.broker.registry import APIS
from bifrost.clock import SystemClock
from bifrost.errors import DiskFullError, StorageError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.frame import encode_request
from bifrost.settings import parse_settings
from tests.unit.broker.hosting import BrokenDisk
from tests.unit.broker.stand_ins import Doors, Peer, on_loop, turns


def make(disk: BrokenDisk, doors: Doors | None = None, **properties: str) -> Node:
    named = {
        "flush.policy": "memory",
        "log.dirs": "/data",
        **{key.replace("_", "."): v for key, v in properties.items()},
    }
    settings, _ = parse_settings(named)
    return Node(settings, disk=disk, clock=SystemClock(), rng=random.Random(1), transport=doors or Doors())


async def stop(node: Node, *, clean: bool = True) -> None:
    node.request_stop(clean)
    await node.run_until_stopped()


@on_loop
async def test_a_node_starts_serves_and_stops() -> None:
    doors = Doors()
    node = make(BrokenDisk(), doors)
    await node.start()
    assert [door.is_open for door in doors.opened] == [True]
    await stop(node)
    assert [door.is_open for door in doors.opened] == [False]


@pytest.mark.parametrize("broken", ["/one", "/two"])
@on_loop
async def test_a_node_starts_with_the_directories_that_open(broken: str) -> None:
    disk = BrokenDisk()
    disk.fails = lambda path: StorageError(path, "input/output error") if path.startswith(f"{broken}/meta") else None
    node = make(disk, log_dirs="/one,/two", metadata_log_dir="/metadata")
    await node.start()
    running = asyncio.create_task(node.run_until_stopped())
    await turns()
    assert not running.done()
    node.request_stop()
    await running


@on_loop
async def test_a_node_does_not_start_without_any_directory() -> None:
    disk = BrokenDisk()
    disk.fails = lambda path: StorageError(path, "input/output error") if "/meta.properties" in path else None
    with pytest.raises(StartError, match="input/output error"):
        await make(disk, log_dirs="/one,/two", metadata_log_dir="/metadata").start()


@on_loop
async def test_two_nodes_do_not_share_a_directory() -> None:
    disk = BrokenDisk()
    first, second = make(disk), make(disk)
    await first.start()
    with pytest.raises(StartError, match="another node uses this directory"):
        await second.start()
    await stop(first)
    third = make(disk)
    await third.start()
    await stop(third)


@pytest.mark.parametrize("clean", [True, False])
@on_loop
async def test_a_node_that_has_stopped_gives_its_directory_back(clean: bool) -> None:
    disk = BrokenDisk()
    for _ in range(3):
        node = make(disk)
        await node.start()
        await stop(node, clean=clean)


@on_loop
async def test_a_port_that_is_taken_keeps_it_from_starting() -> None:
    node = make(BrokenDisk(), Doors(taken=(9092,)))
    with pytest.raises(StartError, match="in use"):
        await node.start()


@on_loop
async def test_a_directory_of_another_node_keeps_it_from_starting() -> None:
    disk = BrokenDisk()
    first = make(disk, node_id="1")
    await first.start()
    await stop(first)
    second = make(disk, node_id="2")
    with pytest.raises(StartError, match=r"node\.id is 1, this node's is 2"):
        await second.start()


@on_loop
async def test_a_disk_that_cannot_be_read_keeps_it_from_starting() -> None:
    disk = BrokenDisk()
    disk.fails = lambda path: StorageError(path, "input/output error")
    with pytest.raises(StartError, match="input/output error"):
        await make(disk).start()


@on_loop
async def test_the_loss_of_its_last_directory_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    disk = BrokenDisk()
    node = make(disk)
    await node.start()
    assert node._logs is not None
    node._logs.take_offline(StorageError("/data/t-0/00.log", "input/output error"))
    with pytest.raises(StorageError, match="input/output error"):
        await node.run_until_stopped()
    assert [record.levelno for record in caplog.records].count(logging.CRITICAL) == 1


@on_loop
async def test_the_loss_of_one_directory_of_two_does_not_end_it() -> None:
    node = make(BrokenDisk(), log_dirs="/one,/two")
    await node.start()
    assert node._logs is not None
    node._logs.take_offline(StorageError("/two/t-0/00.log", "input/output error"))
    await turns(5)
    assert not node._stopping.done()
    await stop(node)


@on_loop
async def test_a_task_that_fails_ends_it_and_says_why() -> None:
    node = make(BrokenDisk())
    await node.start()

    async def fail() -> None:
        raise AssertionError("a promise of ours")

    node._spawn(fail(), "work")
    with pytest.raises(AssertionError, match="a promise of ours"):
        await node.run_until_stopped()


@on_loop
async def test_a_broken_promise_in_a_callback_of_the_loop_ends_it_too() -> None:
    """A sync that ends, a timer: nobody awaits those, and a log line would not keep the node from writing on."""
    loop = asyncio.get_running_loop()
    node = make(BrokenDisk())
    loop.set_exception_handler(node.on_loop_error)
    await node.start()

    def broken() -> None:
        raise AssertionError("a promise of ours")

    loop.call_soon(broken)
    with pytest.raises(AssertionError, match="a promise of ours"):
        await node.run_until_stopped()
    assert node.metrics.unexpected_errors == 1


@on_loop
async def test_another_error_in_a_callback_of_the_loop_is_counted_and_a_broken_connection_is_not() -> None:
    loop = asyncio.get_running_loop()
    node = make(BrokenDisk())
    loop.set_exception_handler(node.on_loop_error)
    await node.start()
    for error in (KeyError("bug"), TimeoutError("no route to host")):
        loop.call_exception_handler({"message": "here", "exception": error})
    assert node.metrics.unexpected_errors == 1
    await stop(node)


@pytest.mark.parametrize(
    "failure",
    [lambda path: DiskFullError(path, "no space left"), lambda path: StorageError(path, "read-only file system")],
    ids=["full", "read-only"],
)
@on_loop
async def test_a_disk_that_takes_nothing_more_does_not_keep_it_from_stopping(
    failure: Callable[[str], StorageError],
) -> None:
    disk = BrokenDisk()
    node = make(disk)
    await node.start()
    disk.fails = failure
    node.request_stop()
    await asyncio.wait_for(asyncio.gather(node.run_until_stopped(), return_exceptions=True), 5)
    disk.fails = lambda _: None
    again = make(disk)
    await again.start()
    await stop(again)


@on_loop
async def test_a_node_that_met_a_bug_writes_nothing_any_more() -> None:
    disk = BrokenDisk()
    node = make(disk)
    await node.start()
    touched: list[str] = []
    disk.fails = touched.append  # type: ignore[assignment]
    node._on_bug(AssertionError("a promise of ours"))
    with pytest.raises(AssertionError):
        await node.run_until_stopped()
    assert touched == []


@on_loop
async def test_after_a_broken_promise_not_even_the_requests_of_the_same_read_are_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[int] = []

    def broken(*_: object) -> None:
        started.append(1)
        raise AssertionError("a promise of ours")

    monkeypatch.setitem(APIS, ApiKey.PRODUCE, replace(APIS[ApiKey.PRODUCE], start=broken))
    doors = Doors()
    node = make(BrokenDisk(), doors)
    await node.start()
    connections = [doors.opened[0].accept() for _ in range(2)]
    for connection in connections:
        connection.connection_made(Peer(connection, room=1 << 20))
    frame = encode_request(ApiKey.PRODUCE, 9, 1, "me", b"")
    buffer = connections[0].get_buffer(-1)
    buffer[: 3 * len(frame)] = frame * 3
    connections[0].buffer_updated(3 * len(frame))
    assert started == [1]
    assert all(connection.transport.is_closing() for connection in connections)
    with pytest.raises(AssertionError, match="a promise of ours"):
        await node.run_until_stopped()


@on_loop
async def test_what_ended_it_is_told_even_if_its_books_cannot_be_closed() -> None:
    disk = BrokenDisk()
    node = make(disk)
    await node.start()
    disk.fails = lambda path: StorageError(path, "read-only file system")
    node._on_bug(AssertionError("the first reason"))
    with pytest.raises(AssertionError, match="the first reason"):
        await node.run_until_stopped()
