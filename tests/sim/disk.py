"""A disk with a memory like a real one's: what was not synced may be gone after a crash, or half there.

`FaultyDisk` is a `MemoryDisk` whose inodes remember what is on the platter. `crash()` makes it the state that a machine
finds after a loss of power: of the writes to each file since its last sync some prefix, the last of them torn at any
byte, or any subset of them, since a kernel writes pages back in the order it likes; of the changes of names in each
directory since its last sync some prefix. All choices come from the `Random` that is passed in.

Faults on the way: `space_left` bytes until ENOSPC (a write takes what fits and fails, as pwrite does), and `fail_on`, a
predicate over (operation, path) that makes a call end with EIO.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bifrost.errors import DiskFullError, StorageError
from bifrost.log.disk import Buffer
from bifrost.log.memory_disk import MemoryDirectory, MemoryDisk, MemoryFile


class FaultyFile(MemoryFile):
    """A file that knows what of it is durable, and which writes and truncations came after."""

    __slots__ = ("disk", "durable", "unsynced")

    def __init__(self, path: str, disk: FaultyDisk) -> None:
        super().__init__(path)
        self.disk = disk
        self.durable = b""
        self.unsynced: list[tuple[int, bytes | None]] = []
        """(position, data) of a write, (size, None) of a truncation."""

    def write_at(self, data: Buffer, position: int) -> None:
        self.disk.touch("write", self.path)
        fits = self.disk.take_space(max(position + len(data) - len(self.content), 0), len(data))
        self.unsynced.append((position, bytes(data[:fits])))
        super().write_at(data[:fits], position)
        if fits < len(data):
            raise DiskFullError(self.path, "No space left on device")

    def truncate(self, size: int) -> None:
        self.disk.touch("truncate", self.path)
        self.unsynced.append((size, None))
        super().truncate(size)

    def read_at(self, size: int, position: int) -> Buffer:
        self.disk.touch("read", self.path)
        return super().read_at(size, position)

    def sync(self) -> None:
        self.disk.touch("sync", self.path)
        self.persist()

    def persist(self) -> None:
        self.durable = bytes(self.content)
        self.unsynced.clear()

    def crash(self, rng: Random, *, forget: bool, tear: bool, reorder: bool) -> None:
        """Becomes what the platter holds."""
        changes = self.unsynced
        self.unsynced = []
        if forget:
            self.content = bytearray(self.durable)
            if tear and reorder and rng.random() < 0.3:
                changes = [change for change in changes if rng.random() < 0.5]
            elif tear:
                changes = changes[: rng.randint(0, len(changes))]
            else:
                changes = []
            torn = rng.random() < 0.5
            for number, (at, data) in enumerate(changes, 1):
                if data is None:
                    super().truncate(at)
                else:
                    kept = rng.randint(0, len(data)) if torn and number == len(changes) else len(data)
                    super().write_at(data[:kept], at)
        self.durable = bytes(self.content)


class FaultyDirectory(MemoryDirectory):
    """A directory that knows which of its names are durable."""

    __slots__ = ("durable", "unsynced")

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[str, MemoryFile | MemoryDirectory] = {}
        self.unsynced: list[dict[str, MemoryFile | MemoryDirectory | None]] = []

    def change(self, changes: dict[str, MemoryFile | MemoryDirectory | None]) -> None:
        self.unsynced.append(changes)
        super().change(changes)

    def persist(self) -> None:
        self.durable = dict(self.entries)
        self.unsynced.clear()

    def crash(self, rng: Random, *, forget: bool) -> None:
        """The later ones of the changes since the last sync are lost: file systems journal names in order."""
        changes, self.unsynced = self.unsynced, []
        if forget:
            self.entries = dict(self.durable)
            for each in changes[: rng.randint(0, len(changes))]:
                super().change(each)
        self.durable = dict(self.entries)


class FaultyDisk(MemoryDisk):
    """The disk of one simulated machine. It outlives the processes that use it."""

    def __init__(
        self,
        rng: Random,
        *,
        tear: bool = True,
        reorder: bool = True,
        forget_names: bool = True,
    ) -> None:
        self.rng = rng
        self.tear = tear
        self.reorder = reorder
        self.forget_names = forget_names
        self.space_left: int | None = None
        self.fail_on: Callable[[str, str], bool] | None = None
        super().__init__()

    def new_file(self, path: str) -> MemoryFile:
        return FaultyFile(path, self)

    def new_directory(self) -> MemoryDirectory:
        return FaultyDirectory()

    def touch(self, operation: str, path: str) -> None:
        if self.fail_on is not None and self.fail_on(operation, path):
            raise StorageError(path, "Input/output error")

    def take_space(self, growth: int, size: int) -> int:
        """How many of `size` bytes can be written when they make the file longer by `growth`."""
        if self.space_left is None or growth <= self.space_left:
            self.space_left = None if self.space_left is None else self.space_left - growth
            return size
        missing = growth - self.space_left
        self.space_left = 0
        return size - missing

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.touch("open", path)
        file = super().open(path, create=create)
        file.path = path  # a crash may have taken back a new name
        return file

    def rename(self, old: str, new: str) -> None:
        self.touch("rename", old)
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.touch("remove", path)
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.touch("sync_directory", path)
        directory = self.directory(path)
        assert isinstance(directory, FaultyDirectory)
        directory.persist()

    def sync_filesystem(self, path: str) -> bool:
        self.touch("sync_filesystem", path)
        for node in self._inodes(self.directory(path)):
            assert isinstance(node, FaultyFile | FaultyDirectory)
            node.persist()
        return True

    def crash(self, *, power: bool = True) -> None:
        """The processes on the machine end; with `power` lost, so does what was only in memory."""
        self._locks.clear()
        self._crash_node(self.root, power)

    def _crash_node(self, node: MemoryFile | MemoryDirectory, power: bool) -> None:
        if isinstance(node, FaultyFile):
            node.crash(self.rng, forget=power, tear=self.tear, reorder=self.reorder)
        elif isinstance(node, FaultyDirectory):
            node.crash(self.rng, forget=power and self.forget_names)
            for _, child in sorted(node.entries.items()):
                self._crash_node(child, power)

    def _inodes(self, directory: MemoryDirectory) -> list[MemoryFile | MemoryDirectory]:
        """The directory and everything in it, in an order that does not depend on chance."""
        found: list[MemoryFile | MemoryDirectory] = [directory]
        for _, node in sorted(directory.entries.items()):
            found += self._inodes(node) if isinstance(node, MemoryDirectory) else [node]
        return found
