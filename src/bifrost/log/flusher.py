"""Group commit: the logs of one log directory share their syncs.

This file decides when the disk is asked to sync and what that asks for. Appends only mark their log; a round takes
all logs marked by then, is done by the kernel (`kernel_sync`) or in the loop's executor, and when it is over their
durable offsets advance. What is appended meanwhile waits for the next round: at most one is under way, so under load
rounds grow instead of queueing.

A failed sync is never tried again, because the kernel may have dropped the pages and would call it a success: the
flusher stops for good, nothing after it is ever acknowledged, and `on_failure` takes the directory offline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from bifrost.errors import StorageError
from bifrost.log.disk import Disk, File
from bifrost.log.flush_job import FlushJob
from bifrost.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from bifrost.log.kernel_sync import KernelSync

_log = logging.getLogger(__name__)

PARALLEL_MAX: Final = 4
"""Threads that sync at once. Journalling file systems merge syncs that meet; more than a few only take threads away."""

SYNCFS_FILES_MIN: Final = 16
"""From so many files on, one sync of the whole file system is faster than one of each (measured on ext4: 64 files 21 ms
one by one, 12 ms by four threads, 1.6 ms by syncfs)."""


class Flusher:
    """The rounds of one log directory."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        directory: str,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._directory = directory
        self._on_failure = on_failure
        self._dirty: dict[PartitionLog, None] = {}
        self._round: list[tuple[PartitionLog, FlushJob]] = []
        self._parts_left = 0
        self._kernel: KernelSync | None = None
        self._kernel_was_asked = False
        self._scheduled = False
        self._failed = False
        self._idle: asyncio.Future[None] | None = None

    def mark_dirty(self, log: PartitionLog) -> None:
        """The log owes something to the disk. The round starts when this turn of the loop is over, so that all that
        is appended in it takes part."""
        self._dirty[log] = None
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start_round)

    def forget(self, log: PartitionLog) -> None:
        """The log is closed or deleted: nobody waits for it any more."""
        self._dirty.pop(log, None)

    async def drain(self) -> None:
        """Waits until nothing is dirty and no round is under way; returns at once after a failure."""
        while self._scheduled and not self._failed:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def _start_round(self) -> None:
        if self._failed or not self._dirty:
            self._become_idle()
            return
        logs, self._dirty = self._dirty, {}
        self._round = [(log, log.begin_flush()) for log in logs]
        jobs = [job for _, job in self._round]
        files = [file for job in jobs for file in job.files]
        taken = self._start_in_kernel(files) if all(job.is_plain for job in jobs) else 0
        self._parts_left = int(taken > 0)
        if not files or taken < len(files):
            parts = _parts(self._disk, self._directory, jobs)
            self._parts_left += len(parts)
            for part in parts:
                self._loop.run_in_executor(None, part).add_done_callback(self._finish_in_executor)

    def _start_in_kernel(self, files: list[File]) -> int:
        """How many of the files the kernel has agreed to sync."""
        if not files or len(files) >= SYNCFS_FILES_MIN:
            return 0
        if not self._kernel_was_asked:
            self._kernel_was_asked = True
            self._kernel = self._disk.background_sync(self._loop)
        return 0 if self._kernel is None else self._kernel.start(files, self._finish_in_kernel)

    def _finish_in_kernel(self, errors: Mapping[File, StorageError]) -> None:
        try:
            for _, job in self._round:
                job.check(errors)
        except StorageError as error:
            self._fail(error)
        self._finish_part()

    def _finish_in_executor(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            self._failed = True  # the executor was shut down: nobody knows what was synced
        else:
            try:
                done.result()
            except StorageError as error:
                self._fail(error)
        self._finish_part()

    def _finish_part(self) -> None:
        self._parts_left -= 1
        if self._parts_left:
            return
        finished, self._round = self._round, []
        self._tell(iter(finished if not self._failed else ()))

    def _tell(self, finished: Iterator[tuple[PartitionLog, FlushJob]]) -> None:
        """Tell logs that they are safe. If one of those that hear of it fails, that is for the loop to report: the
        others are told all the same, and the next round begins, or nothing would ever be acknowledged again."""
        told_all = False
        try:
            for log, job in finished:
                log.finish_flush(job)
            told_all = True
        finally:
            if told_all:
                self._start_round()
            else:
                self._loop.call_soon(self._tell, finished)

    def _fail(self, error: StorageError) -> None:
        if not self._failed:
            self._failed = True
            _log.error("sync failed directory=%s error=%r", self._directory, str(error))
            self._on_failure(error)

    def _become_idle(self) -> None:
        self._scheduled = False
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None


def sync_together(disk: Disk, directory: str, jobs: Sequence[FlushJob]) -> None:
    """Runs all jobs at once, by a sync of the file system where there is one. Blocks."""
    for job in jobs:
        job.prepare()
    if not disk.sync_filesystem(directory):
        for job in jobs:
            job.run()


def _parts(disk: Disk, directory: str, jobs: list[FlushJob]) -> list[Callable[[], None]]:
    """The round's work, cut into what runs side by side."""
    if sum(len(job.files) for job in jobs) >= SYNCFS_FILES_MIN:
        return [lambda: sync_together(disk, directory, jobs)]
    hands = min(PARALLEL_MAX, len(jobs))
    return [_run_all(jobs[hand::hands]) for hand in range(hands)]


def _run_all(jobs: list[FlushJob]) -> Callable[[], None]:
    def run() -> None:
        for job in jobs:
            job.run()

    return run
