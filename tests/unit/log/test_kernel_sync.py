"""Syncs by the kernel: they happen, they tell what failed, and where they cannot be had threads do the work."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bifrost.errors import StorageError
from bifrost.log.config import LogConfig
from bifrost.log.disk import File
from bifrost.log.flusher import SYNCFS_FILES_MIN, Flusher
from bifrost.log.kernel_sync import FILES_MAX, KernelSync
from bifrost.log.partition_log import PartitionLog
from bifrost.log.real_disk import RealDisk
from bifrost.types import TopicPartition
from tests.unit.broker.stand_ins import loop_factories, on_loop, until
from tests.unit.log.batches import NOW, append

DISK = RealDisk()


@pytest.fixture(params=loop_factories(), ids=lambda factory: factory.__module__.split(".")[0])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=request.param)


def kernel_sync() -> KernelSync:
    found = KernelSync.open(asyncio.get_running_loop())
    if found is None:
        pytest.skip("this machine has no asynchronous fdatasync")
    return found


def written(directory: Path, count: int) -> list[File]:
    files: list[File] = [DISK.open(str(directory / str(number)), create=True) for number in range(count)]
    for file in files:
        file.write_at(b"x" * 5000, 0)
    return files


async def synced(kernel: KernelSync, files: list[File]) -> Mapping[File, StorageError]:
    done: asyncio.Future[Mapping[File, StorageError]] = asyncio.get_running_loop().create_future()
    assert kernel.start(files, done.set_result) == len(files)
    return await asyncio.wait_for(done, 20)


def test_files_are_synced_round_after_round(tmp_path: Path, runner: asyncio.Runner) -> None:
    async def rounds() -> None:
        kernel = kernel_sync()
        for count in (1, FILES_MAX, 3):
            assert await synced(kernel, written(tmp_path, count)) == {}

    with runner:
        runner.run(rounds())


@on_loop
async def test_a_file_that_fails_is_named_and_the_others_are_not(tmp_path: Path) -> None:
    kernel = kernel_sync()
    good, bad = written(tmp_path, 2)
    syscall = kernel._syscall

    def spoil(number: int, *arguments: Any) -> int:
        outcome: int = syscall(number, *arguments)
        if number == kernel._calls.getevents:
            for event in kernel._events[:outcome]:
                event.result = -errno.EIO if event.data == 1 else 0
        return outcome

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(kernel, "_syscall", spoil)
        errors = await synced(kernel, [good, bad])
    assert [(file.path, error.path) for file, error in errors.items()] == [(bad.path, bad.path)]
    assert os.strerror(errno.EIO) in str(errors[bad])


class Watched:
    """A flusher with its logs on a real disk, under a kernel that the test may replace."""

    def __init__(self, directory: Path, logs: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.get_running_loop()
        self.failures: list[StorageError] = []
        self.in_threads = 0
        self._run_in_executor = self.loop.run_in_executor
        monkeypatch.setattr(self.loop, "run_in_executor", self._count)
        self.flusher = Flusher(self.loop, DISK, str(directory), self.failures.append)
        self.logs = [self._open(directory, TopicPartition("t", number)) for number in range(logs)]

    def _count(self, executor: Any, work: Any, *arguments: Any) -> Any:
        self.in_threads += 1
        return self._run_in_executor(executor, work, *arguments)

    def _open(self, directory: Path, partition: TopicPartition) -> PartitionLog:
        path = str(directory / str(partition))
        log = PartitionLog.open(DISK, path, partition, LogConfig(), clean=False, recovery_point=0, now_ms=NOW)
        log.on_dirty = self.flusher.mark_dirty
        return log

    async def append_to_all(self) -> None:
        for log in self.logs:
            append(log, b"a")
        await until(lambda: bool(self.failures) or all(log.durable_offset == log.log_end_offset for log in self.logs))


@on_loop
async def test_after_its_first_round_a_log_needs_no_thread(tmp_path: Path) -> None:
    kernel_sync()
    with pytest.MonkeyPatch.context() as monkeypatch:
        watched = Watched(tmp_path, 3, monkeypatch)
        await watched.append_to_all()
        first = watched.in_threads
        assert first, "names and epochs are not the kernel's business"
        for _ in range(5):
            await watched.append_to_all()
        assert watched.in_threads == first


@on_loop
async def test_a_crowd_is_still_synced_at_once(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        watched = Watched(tmp_path, SYNCFS_FILES_MIN, monkeypatch)
        await watched.append_to_all()
        first = watched.in_threads
        await watched.append_to_all()
        assert watched.in_threads == first + 1


@pytest.mark.parametrize("taken", [0, 1])
@on_loop
async def test_what_the_kernel_does_not_take_threads_do(tmp_path: Path, taken: int) -> None:
    kernel_sync()
    with pytest.MonkeyPatch.context() as monkeypatch:
        watched = Watched(tmp_path, 2, monkeypatch)
        await watched.append_to_all()
        first, start = watched.in_threads, KernelSync.start
        take_less = lambda self, files, done: taken and start(self, files[:taken], done)  # noqa: E731
        monkeypatch.setattr(KernelSync, "start", take_less)
        await watched.append_to_all()
        assert watched.in_threads == first + 2


@on_loop
async def test_a_file_that_the_kernel_could_not_sync_is_the_end_of_its_directory(tmp_path: Path) -> None:
    kernel_sync()
    with pytest.MonkeyPatch.context() as monkeypatch:
        watched = Watched(tmp_path, 2, monkeypatch)
        await watched.append_to_all()

        def fail(_: KernelSync, files: list[File], done: Any) -> int:
            watched.loop.call_soon(done, {files[1]: StorageError(files[1].path, "flipped")})
            return len(files)

        monkeypatch.setattr(KernelSync, "start", fail)
        await watched.append_to_all()
        assert [error.path for error in watched.failures] == [watched.logs[1].segments[-1].file.path]
        assert [log.durable_offset for log in watched.logs] == [1, 1]
        await watched.flusher.drain()


@on_loop
async def test_a_log_that_was_deleted_meanwhile_has_nothing_to_lose(tmp_path: Path) -> None:
    kernel_sync()
    with pytest.MonkeyPatch.context() as monkeypatch:
        watched = Watched(tmp_path, 2, monkeypatch)
        await watched.append_to_all()

        def fail(_: KernelSync, files: list[File], done: Any) -> int:
            watched.logs[1].owed.deleted = True
            watched.loop.call_soon(done, {files[1]: StorageError(files[1].path, "gone")})
            return len(files)

        monkeypatch.setattr(KernelSync, "start", fail)
        append(watched.logs[0], b"b")
        append(watched.logs[1], b"b")
        await until(lambda: watched.logs[0].durable_offset == 2)
        assert watched.failures == []


@on_loop
async def test_a_machine_without_it_says_so(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("platform.machine", lambda: "abacus")
        assert DISK.background_sync(asyncio.get_running_loop()) is None
        watched = Watched(tmp_path, 1, monkeypatch)
        await watched.append_to_all()
        await watched.append_to_all()
        assert watched.logs[0].durable_offset == 2
