"""How a partition's directory, or some of its segments, leave: renamed at once, then removed in their time, or kept.

This file decides what becomes of files that belong to no log any more. A deleted partition gives its name free at once,
since a topic may be made again under it, and its files are removed later, since somebody may still be reading them.
What was not deleted, but is unknown to the metadata, is stray, and never removed here (Kafka: LogManager.addStrayLog).
Lost metadata must not cost data too, and a deletion whose rename the power took cannot be told from it.

One thread removes at a time, a few files in a go: disks have other things to do.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from bifrost.errors import StorageError
from bifrost.log.disk import Disk
from bifrost.log.names import deleted_directory, stray_directory
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)

_MS: Final = 1000
_FILES_AT_ONCE: Final = 64


class Removal:
    """The directories of a node that are on their way out. Belongs to the loop's thread; what blocks runs elsewhere."""

    def __init__(
        self,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        *,
        delay_ms: int,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._disk = disk
        self._loop = loop
        self._rng = rng
        self.delay_ms = delay_ms
        """How long deleted files stay; a change counts from the next deletion on."""
        self._on_failure = on_failure
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._due: deque[str] = deque()
        self._is_removing = False

    def delete(self, partition: TopicPartition, directory: str) -> None:
        """The files go as soon as whoever reads them has had the time to finish."""
        path = self._rename(directory, deleted_directory(partition, self._unique()))
        _log.info("log deleted directory=%s as=%s", directory, path)
        self._remove_later(path, self.delay_ms / _MS)

    def delete_files(self, paths: Sequence[str], delay_ms: int) -> None:
        """Files of a log that goes on; they have their last names already."""
        key = object()  # the same names may be on their way out twice: those of a segment that was cleaned again
        self._timers[key] = self._loop.call_later(delay_ms / _MS, self._take_due, key, paths)

    def keep(self, partition: TopicPartition, directory: str, reason: str) -> None:
        """The files stay under a name that no start takes for a partition's. What to do with them is for people."""
        path = self._rename(directory, stray_directory(partition, self._unique()))
        _log.warning("stray log kept directory=%s as=%s reason=%r", directory, path, reason)

    def finish(self, path: str) -> None:
        """Go on with a deletion that the end of an earlier process interrupted."""
        self._remove_later(path, 0)

    def stop(self) -> None:
        """What is not gone yet is for the next start."""
        for timer in self._timers.values():
            timer.cancel()
        self._due.clear()

    def _rename(self, directory: str, name: str) -> str:
        parent = posixpath.dirname(directory)
        path = f"{parent}/{name}"
        self._disk.rename(directory, path)
        self._in_background(partial(self._disk.sync_directory, parent))
        return path

    def _unique(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def _remove_later(self, path: str, delay_s: float) -> None:
        self._timers[path] = self._loop.call_later(delay_s, self._remove, path)

    def _remove(self, path: str) -> None:
        del self._timers[path]
        self._in_background(partial(self._disk.remove_tree, path))

    def _take_due(self, key: object, paths: Sequence[str]) -> None:
        del self._timers[key]
        self._due.extend(paths)
        if not self._is_removing:
            self._remove_due()

    def _remove_due(self) -> None:
        self._is_removing = bool(self._due)
        if self._due:
            paths = [self._due.popleft() for _ in range(min(_FILES_AT_ONCE, len(self._due)))]
            removing = self._in_background(partial(_remove_files, self._disk, paths))
            removing.add_done_callback(lambda _: self._remove_due())

    def _in_background(self, work: Callable[[], None]) -> asyncio.Future[None]:
        working = self._loop.run_in_executor(None, work)
        working.add_done_callback(self._finish_background)
        return working

    def _finish_background(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        try:
            done.result()
        except StorageError as error:
            self._on_failure(error)


def _remove_files(disk: Disk, paths: Sequence[str]) -> None:
    """All that are still there: a topic that was deleted meanwhile has taken its directory with it."""
    for path in paths:
        if disk.exists(path):
            try:
                disk.remove(path)
            except StorageError:
                if disk.exists(path):
                    raise
