"""The disk of a simulated machine: `FaultyDisk`, driven by threads on a leash, traced, and able to stop a process.

It adds what only a whole machine has: a thread can be interrupted before each call, a sync takes time and covers only
what was written before it began, the process can die in the middle of any call, pages may be cold, and a tree is
removed file by file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from bifrost.log.disk import Buffer
from bifrost.log.memory_disk import MemoryDirectory, MemoryFile
from tests.sim.disk import FaultyDisk, FaultyFile
from tests.sim.hands import Hands
from tests.sim.process import CURRENT, PowerLost
from tests.sim.trace import Trace, brief

_SECTOR_BYTES = 512


class StoppedHere(PowerLost):
    """It was this very call in which the process died."""


class SimFile(FaultyFile):
    """A file whose syncs take time."""

    __slots__ = ("_forgotten", "_synced")

    disk: SimDisk

    def __init__(self, path: str, disk: SimDisk) -> None:
        super().__init__(path, disk)
        self._forgotten = 0  # changes that are no longer in `unsynced`, so that changes can be counted from the start
        self._synced = 0

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
        """Covers what was written when it began; what came meanwhile may wait for the next one."""
        content, changes = bytes(self.content), self._forgotten + len(self.unsynced)
        self.disk.touch("sync", self.path)
        if changes > self._synced:
            self._synced = changes
            self.durable = content
            del self.unsynced[: changes - self._forgotten]
            self._forgotten = changes

    def crash(self, rng: random.Random, *, forget: bool, tear: bool, reorder: bool) -> None:
        self.unsynced = [sector for change in self.unsynced for sector in _sectors(*change)]
        super().crash(rng, forget=forget, tear=tear, reorder=reorder)
        self._forgotten = self._synced = 0


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
        self._hands = hands

    def new_file(self, path: str) -> MemoryFile:
        return SimFile(path, self)

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
