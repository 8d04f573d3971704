"""A file system in memory: for `flush.policy=memory`, and under the simulator's disk that forgets.

It keeps names and contents and promises nothing about power: here a sync is a no-op. As on a real disk, names live in
directories and contents in inodes, so a subclass that wants faults overrides `new_file` and `new_directory` with inodes
that remember what was synced, and `sync_directory`; everything else follows.
"""

from __future__ import annotations

import asyncio
import posixpath

from bifrost.errors import StorageError
from bifrost.log.disk import TEMPORARY_SUFFIX, Buffer, DirectoryInUseError, Space


class MemoryFile:
    """A file's content. All who open one path share one object, as descriptors share an inode."""

    __slots__ = ("content", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.content = bytearray()

    def write_at(self, data: Buffer, position: int) -> None:
        content = self.content
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data

    def read_at(self, size: int, position: int) -> Buffer:
        return bytes(memoryview(self.content)[position : position + size])

    def read_cached(self, size: int, position: int) -> Buffer | None:
        data = self.read_at(size, position)
        return data if len(data) == size else None

    def sync(self) -> None:
        return

    def write_back(self, position: int, size: int) -> None:  # noqa: ARG002
        return

    def truncate(self, size: int) -> None:
        if size <= len(self.content):
            del self.content[size:]
        else:
            self.content.extend(bytes(size - len(self.content)))

    def size(self) -> int:
        return len(self.content)

    def close(self) -> None:
        return

    def fileno(self) -> int | None:
        return None


class MemoryDirectory:
    """Names to inodes. All changes of names pass through `change`."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, MemoryFile | MemoryDirectory] = {}

    def change(self, changes: dict[str, MemoryFile | MemoryDirectory | None]) -> None:
        """Names and what they now lead to, None for nothing. One call is one atomic change."""
        for name, node in changes.items():
            if node is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = node


class MemoryLock:
    """A name in the disk's set of held locks."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryDisk:
    """A tree of inodes under `root`."""

    def __init__(self) -> None:
        self.root = self.new_directory()
        self._locks: set[str] = set()

    def new_file(self, path: str) -> MemoryFile:
        return MemoryFile(path)

    def new_directory(self) -> MemoryDirectory:
        return MemoryDirectory()

    def find(self, path: str) -> MemoryFile | MemoryDirectory | None:
        node: MemoryFile | MemoryDirectory | None = self.root
        for name in path.split("/"):
            if name:
                node = node.entries.get(name) if isinstance(node, MemoryDirectory) else None
        return node

    def directory(self, path: str) -> MemoryDirectory:
        node = self.find(path)
        if not isinstance(node, MemoryDirectory):
            raise StorageError(path, "no such directory")
        return node

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        folder, name = posixpath.split(path)
        directory = self.directory(folder)
        node = directory.entries.get(name)
        if node is None and create:
            node = self.new_file(path)
            directory.change({name: node})
        if not isinstance(node, MemoryFile):
            raise StorageError(path, "no such file")
        return node

    def exists(self, path: str) -> bool:
        return self.find(path) is not None

    def listdir(self, path: str) -> list[str]:
        return sorted(self.directory(path).entries)

    def directories(self, path: str) -> list[str]:
        entries = self.directory(path).entries
        return sorted(name for name, node in entries.items() if isinstance(node, MemoryDirectory))

    def file_sizes(self, path: str) -> dict[str, int]:
        entries = sorted(self.directory(path).entries.items())
        return {name: node.size() for name, node in entries if isinstance(node, MemoryFile)}

    def makedirs(self, path: str) -> None:
        if not self.exists(path):
            folder, name = posixpath.split(path.rstrip("/"))
            self.makedirs(folder)
            self.directory(folder).change({name: self.new_directory()})
        self.directory(path)

    def rename(self, old: str, new: str) -> None:
        node = self.find(old)
        if node is None:
            raise StorageError(old, "no such file")
        (old_folder, old_name), (new_folder, new_name) = posixpath.split(old), posixpath.split(new)
        if old_folder == new_folder:
            self.directory(old_folder).change({old_name: None, new_name: node})
        else:
            self.directory(new_folder).change({new_name: node})
            self.directory(old_folder).change({old_name: None})
        if isinstance(node, MemoryFile):
            node.path = new

    def remove(self, path: str) -> None:
        if not isinstance(self.find(path), MemoryFile):
            raise StorageError(path, "no such file")
        self._unlink(path)

    def remove_tree(self, path: str) -> None:
        if self.find(path) is not None:
            self._unlink(path)

    def sync_directory(self, path: str) -> None:
        self.directory(path)

    def background_sync(self, loop: asyncio.AbstractEventLoop) -> None:
        """Memory has nothing to wait for."""

    def sync_filesystem(self, path: str) -> bool:
        self.directory(path)
        return True

    def modified_ms(self, path: str) -> int:  # noqa: ARG002
        return -1

    def space(self, path: str) -> Space:  # noqa: ARG002
        return Space()

    def open_files_max(self) -> int | None:
        return None

    def read_bytes(self, path: str) -> bytes:
        file = self.open(path)
        return bytes(file.read_at(file.size(), 0))

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + TEMPORARY_SUFFIX
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write_at(data, 0)
        if sync:
            file.sync()
        self.rename(temporary, path)
        if sync:
            self.sync_directory(posixpath.dirname(path))

    def lock(self, path: str) -> MemoryLock:
        if path in self._locks:
            raise DirectoryInUseError(path, "another node uses this directory")
        self.open(path, create=True)
        self._locks.add(path)
        return MemoryLock(self._locks, path)

    def _unlink(self, path: str) -> None:
        folder, name = posixpath.split(path)
        self.directory(folder).change({name: None})
