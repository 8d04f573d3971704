"""The disk of a simulated machine: `FaultyDisk`, driven by threads on a leash, traced, and able to stop a process.

It adds what only a whole machine has: a thread can be interrupted before each call, a sync takes time and covers only
what was written before it began, the process can die in the middle of any call, pages may be cold, and a tree is
removed file by file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from bifrost.log.disk import Buffer
from bifrost.log.memory_disk import MemoryDirectory, MemoryFile
from tests.sim.disk import FaultyDirectory, FaultyDisk, FaultyFile
from tests.sim.hands import Hands
from tests.sim.process import CURRENT, PowerLost
from tests.sim.trace import Trace, brief

_SECTOR_BYTES = 512


class StoppedHere(PowerLost):
    """It was this very call in which the process died."""


class _Slow:
    """Something whose syncs take time: one covers what was there when it began; the rest may wait for the next."""

    durable: Any
    unsynced: list[Any]
    _forgotten: int
    _synced: int

    def _now(self) -> Any:
        raise NotImplementedError

    def begin_sync(self) -> tuple[Any, int]:
        return self._now(), self._forgotten + len(self.unsynced)

    def end_sync(self, begun: tuple[Any, int]) -> None:
        state, changes = begun
        if changes > self._synced:  # else one that began later was faster
            self._synced = changes
            self.durable = state
            del self.unsynced[: changes - self._forgotten]
            self._forgotten = changes

    def _start_counting(self) -> None:
        self._forgotten = 0  # changes that are no longer in `unsynced`, so that changes can be counted from the start
        self._synced = 0


class SimFile(_Slow, FaultyFile):
    """A file that can be written to while it is synced."""

    disk: SimDisk

    def __init__(self, path: str, disk: SimDisk) -> None:
        super().__init__(path, disk)
        self._start_counting()

    def _now(self) -> bytes:
        return bytes(self.content)

    def write_at(self, data: Buffer, position: int) -> None:
        self.disk.trace.note("disk", "data", position, brief(data))
        try:
            super().write_at(data, position)
        except StoppedHere:
            # Whoever is killed inside pwrite(2) may leave a part of a large write behind.
            part = bytes(data[: self.disk.rng.randint(0, len(data))])
            self.unsynced.append((position, part))
            MemoryFile.write_at(self, part, position)
            raise

    def read_cached(self, size: int, position: int) -> Buffer | None:
        if self.disk.rng.random() < self.disk.cold_share:
            return None
        return super().read_cached(size, position)

    def sync(self) -> None:
        begun = self.begin_sync()
        self.disk.touch("sync", self.path)
        self.end_sync(begun)

    def crash(self, rng: random.Random, *, forget: bool, tear: bool, reorder: bool) -> None:
        self.unsynced = [sector for change in self.unsynced for sector in _sectors(*change)]
        super().crash(rng, forget=forget, tear=tear, reorder=reorder)
        self._start_counting()


class SimDirectory(_Slow, FaultyDirectory):
    """A directory whose names can change while it is synced."""

    def __init__(self) -> None:
        super().__init__()
        self._start_counting()

    def _now(self) -> dict[str, MemoryFile | MemoryDirectory]:
        return dict(self.entries)

    def crash(self, rng: random.Random, *, forget: bool) -> None:
        super().crash(rng, forget=forget)
        self._start_counting()


def _sectors(at: int, data: bytes | None) -> Iterator[tuple[int, bytes | None]]:
    """A change as the platter sees it: one sector after the other, or one without the other."""
    if data is None:
        yield at, None
        return
    start = 0
    while start < len(data):
        end = min(len(data), start + _SECTOR_BYTES - (at + start) % _SECTOR_BYTES)
        yield at + start, data[start:end]
        start = end


class SimDisk(FaultyDisk):
    """Outlives the processes that use it."""

    def __init__(self, hands: Hands, rng: random.Random, trace: Trace) -> None:
        super().__init__(rng)
        self.trace = trace
        self.cold_share = 0.05
        """How many reads find that the page cache does not hold what they want."""
        self.stop_in: int | None = None
        """So many operations from now the process that then uses the disk dies."""
        self.stop_at: str | None = None
        """Only this kind of operation counts."""
        self.has_syncfs = True
        self._hands = hands

    def new_file(self, path: str) -> MemoryFile:
        return SimFile(path, self)

    def new_directory(self) -> MemoryDirectory:
        return SimDirectory()

    def touch(self, operation: str, path: str) -> None:
        process = CURRENT.get()
        if process is not None and not process.alive:
            raise PowerLost
        self._hands.before_disk()
        self.trace.note("disk", operation, path)
        if self.stop_in is not None and process is not None and self.stop_at in (None, operation):
            self.stop_in -= 1
            if self.stop_in <= 0:
                self.stop_in = None
                process.kill()
                raise StoppedHere
        super().touch(operation, path)

    def makedirs(self, path: str) -> None:
        self.touch("makedirs", path)
        super().makedirs(path)

    def sync_directory(self, path: str) -> None:
        directory = self.directory(path)
        assert isinstance(directory, SimDirectory)
        begun = directory.begin_sync()
        self.touch("sync_directory", path)
        directory.end_sync(begun)

    def sync_filesystem(self, path: str) -> bool:
        if not self.has_syncfs:
            return False
        begun = [(node, node.begin_sync()) for node in self._inodes(self.root) if isinstance(node, _Slow)]
        self.touch("sync_filesystem", path)
        for node, state in begun:
            node.end_sync(state)
        return True

    def durable_file(self, path: str) -> bytes | None:
        """What would be in the file if the power failed now; None if it would not be there."""
        node: Any = self.root
        for name in path.strip("/").split("/"):
            node = node.durable.get(name) if isinstance(node, SimDirectory) else None
        return node.durable if isinstance(node, SimFile) else None

    def durable_files(self, path: str) -> list[str]:
        """The names that a directory would have if the power failed now."""
        node: Any = self.root
        for name in path.strip("/").split("/"):
            node = node.durable.get(name) if isinstance(node, SimDirectory) else None
        return sorted(node.durable) if isinstance(node, SimDirectory) else []

    def lose(self, path: str) -> None:
        """Somebody has replaced the device that was mounted there: an empty one, as durable as the old one was."""
        directory = self.find(path)
        if isinstance(directory, SimDirectory):
            directory.entries = {}
            directory.persist()

    def remove_tree(self, path: str) -> None:
        directory = self.find(path)
        if not isinstance(directory, MemoryDirectory):
            return
        for name, node in sorted(directory.entries.items()):
            if isinstance(node, MemoryDirectory):
                self.remove_tree(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        self.touch("rmdir", path)
        super().remove_tree(path)
