"""Group commit: who waits for which sync, and what a failed one means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from bifrost.errors import StorageError
from bifrost.log import flusher as flusher_module
from bifrost.log.config import LogConfig
from bifrost.log.flusher import Flusher
from bifrost.log.partition_log import PartitionLog
from bifrost.types import TopicPartition
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import NOW, append, values_of


class HeldExecutor:
    """Takes the place of the loop's executor: work waits until the test lets it run, in the thread of the test."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = loop
        self.waiting: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        monkeypatch.setattr(loop, "run_in_executor", self.take)

    def take(self, _: object, work: Callable[[], None]) -> asyncio.Future[None]:
        future = self.loop.create_future()
        self.waiting.append((work, future))
        return future

    async def run(self) -> None:
        """Runs what waits, and lets the loop take notice."""
        waiting, self.waiting = self.waiting, []
        for work, future in waiting:
            try:
                work()
            except StorageError as error:
                future.set_exception(error)
            else:
                future.set_result(None)
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class World:
    """A flusher, a disk and some logs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, logs: int = 2) -> None:
        loop = asyncio.get_running_loop()
        self.executor = HeldExecutor(loop, monkeypatch)
        self.disk = FaultyDisk(Random(1))
        self.disk.makedirs("/data")
        self.disk.sync_directory("/")
        self.failures: list[StorageError] = []
        self.flusher = Flusher(loop, self.disk, "/data", self.failures.append)
        self.logs = [self._open(TopicPartition("t", number)) for number in range(logs)]
        self.heard: list[tuple[int, int]] = []
        for number, log in enumerate(self.logs):
            log.on_durable = lambda offset, number=number: self.heard.append((number, offset))

    def watch_disk(self) -> list[tuple[str, str]]:
        """What the disk is asked to do from now on: operation and path."""
        calls: list[tuple[str, str]] = []

        def note(operation: str, path: str) -> bool:
            calls.append((operation, path))
            return False

        self.disk.fail_on = note
        return calls

    def _open(self, partition: TopicPartition) -> PartitionLog:
        log = PartitionLog.open(
            self.disk, f"/data/{partition}", partition, LogConfig(), clean=False, recovery_point=0, now_ms=NOW
        )
        log.on_dirty = self.flusher.mark_dirty
        return log


async def test_one_round_covers_all_that_was_appended_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    append(world.logs[0], b"a")
    append(world.logs[1], b"b", b"c")
    append(world.logs[0], b"d")
    await settle()
    assert world.heard == []
    await world.executor.run()
    assert world.heard == [(0, 2), (1, 2)]
    assert [log.durable_offset for log in world.logs] == [2, 2]


async def test_what_comes_during_a_round_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    append(world.logs[0], b"a")
    await settle()
    append(world.logs[0], b"b")
    append(world.logs[1], b"c")
    await settle()
    assert len(world.executor.waiting) == 1, "one round at a time"
    await world.executor.run()
    assert world.heard == [(0, 1)]
    await world.executor.run()
    assert world.heard == [(0, 1), (0, 2), (1, 1)]


async def test_nothing_is_durable_before_every_part_of_the_round_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, logs=3)
    for log in world.logs:
        append(log, b"a")
    await settle()
    assert len(world.executor.waiting) == 3, "synced side by side"
    held = world.executor.waiting.pop()
    await world.executor.run()
    assert world.heard == []
    world.executor.waiting.append(held)
    await world.executor.run()
    assert world.heard == [(0, 1), (1, 1), (2, 1)]


async def test_a_crowd_of_files_is_synced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, logs=flusher_module.SYNCFS_FILES_MIN)
    for log in world.logs:
        append(log, b"a")
    calls = world.watch_disk()
    await settle()
    await world.executor.run()
    assert [operation for operation, _ in calls if operation.startswith("sync")] == ["sync_filesystem"]
    assert len(world.heard) == len(world.logs)
    world.disk.fail_on = None
    world.disk.crash()
    for log in world.logs:
        reopened = PartitionLog.open(
            world.disk, log.directory, log.partition, LogConfig(), clean=False, recovery_point=0, now_ms=NOW
        )
        assert values_of(reopened) == [b"a"]


async def test_where_a_file_system_cannot_be_synced_files_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, logs=flusher_module.SYNCFS_FILES_MIN)
    monkeypatch.setattr(world.disk, "sync_filesystem", lambda _: False)
    for log in world.logs:
        append(log, b"a")
    await settle()
    await world.executor.run()
    world.disk.crash()
    assert all(world.disk.file_sizes(log.directory)["00000000000000000000.log"] for log in world.logs)


async def test_a_failed_sync_is_never_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.disk.fail_on = lambda operation, path: operation == "sync" and path.startswith("/data/t-1")
    append(world.logs[0], b"a")
    append(world.logs[1], b"b")
    await settle()
    await world.executor.run()
    assert [error.path for error in world.failures] == ["/data/t-1/00000000000000000000.log"]
    assert world.heard == [], "not even the other log of the round: its directory is gone"
    world.disk.fail_on = None
    append(world.logs[0], b"c")
    await settle()
    assert world.executor.waiting == []
    await world.flusher.drain()
    assert [log.durable_offset for log in world.logs] == [0, 0]


async def test_an_executor_that_stopped_acknowledges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, logs=1)
    append(world.logs[0], b"a")
    await settle()
    world.executor.waiting.pop()[1].cancel()
    await settle()
    assert world.heard == []


async def test_drain_waits_for_the_last_round(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    await world.flusher.drain()
    append(world.logs[0], b"a")
    waiter = asyncio.ensure_future(world.flusher.drain())
    await settle()
    append(world.logs[0], b"b")
    await world.executor.run()
    assert not waiter.done()
    await world.executor.run()
    await waiter
    assert world.heard == [(0, 1), (0, 2)]


async def test_a_log_that_is_deleted_during_a_round_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    append(world.logs[0], b"a")
    append(world.logs[1], b"b")
    await settle()
    world.logs[0].release()
    world.disk.remove_tree(world.logs[0].directory)
    world.flusher.forget(world.logs[0])
    await world.executor.run()
    assert world.failures == []
    assert world.heard == [(1, 1)]


async def test_the_last_word_of_a_sync_is_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new segment's name is durable before anything in it is acknowledged."""
    world = World(monkeypatch, logs=1)
    append(world.logs[0], b"a")
    world.logs[0].roll(NOW)
    append(world.logs[0], b"b")
    calls = world.watch_disk()
    await settle()
    await world.executor.run()
    synced = [path.removeprefix("/data/t-0") for operation, path in calls if operation.startswith("sync")]
    assert synced.index("/00000000000000000001.log") < len(synced) - 2
    assert synced[-2:] == ["", "/data"]
    assert world.heard == [(0, 2)]


async def test_somebody_who_fails_when_told_keeps_nobody_else_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context["exception"])))

    def fail(_offset: int) -> None:
        raise RuntimeError("a bug of somebody's")

    world.logs[0].on_durable = fail
    append(world.logs[0], b"a")
    append(world.logs[1], b"b")
    await settle()
    await world.executor.run()
    await settle()
    assert reported == ["a bug of somebody's"]
    assert world.heard == [(1, 1)]
    append(world.logs[1], b"c")
    await settle()
    await world.executor.run()
    assert world.heard == [(1, 1), (1, 2)]
