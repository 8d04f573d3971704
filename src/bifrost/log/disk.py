"""Where bytes are kept: the interface to a file system.

What is behind it decides where they really go: the machine's own (`real_disk`), memory (`memory_disk`), or in the
simulator a disk that fails and forgets. Every failure leaves it as a `StorageError` that names the path, or as a
`DiskFullError` when there is no room, never as an `OSError`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from bifrost.errors import StorageError

if TYPE_CHECKING:
    from bifrost.log.kernel_sync import KernelSync

Buffer: TypeAlias = bytes | bytearray | memoryview

TEMPORARY_SUFFIX: Final = ".tmp"


class File(Protocol):
    """An open file. Positions are explicit: there is no cursor to share."""

    path: str

    def write_at(self, data: Buffer, position: int) -> None:
        """All of `data`, or `StorageError`. A failed write may leave a part behind: the caller cuts it off."""

    def read_at(self, size: int, position: int) -> Buffer:
        """Up to `size` bytes, fewer only at the end of the file. May wait for the disk."""

    def read_cached(self, size: int, position: int) -> Buffer | None:
        """Exactly `size` bytes if they are in memory, None when they would have to be waited for."""

    def sync(self) -> None:
        """What was written survives a loss of power."""

    def write_back(self, position: int, size: int) -> None:
        """Waits until the disk has taken these bytes, where a machine can say so. That is a pace and no promise: it
        forces nobody's journal, and only a `sync` makes anything survive."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None:
        """For an owner that knows of no other user; whoever shares a file just drops it."""

    def fileno(self) -> int | None:
        """The descriptor for sendfile(2), if there is one; valid while this object is alive."""


class Space(NamedTuple):
    """How large a volume is, and how much of it can still be written; -1 where nobody knows."""

    total_bytes: int = -1
    usable_bytes: int = -1


class DirectoryInUseError(StorageError):
    """Another node holds the lock."""


class Lock(Protocol):
    """A held lock."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are strings with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """An existing file, or a new or existing one with `create`."""

    def exists(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Names in the directory, sorted."""

    def directories(self, path: str) -> list[str]:
        """Names of the directories in the directory, sorted."""

    def file_sizes(self, path: str) -> dict[str, int]:
        """Name and size of every plain file in the directory, in any order."""

    def makedirs(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None:
        """The directory and everything in it. Somebody else may have been faster: that is no failure."""

    def sync_directory(self, path: str) -> None:
        """Names that were added to, removed from or changed in the directory stay so after a loss of power."""

    def sync_filesystem(self, path: str) -> bool:
        """Everything written to the file system of `path` survives; False where the machine cannot say so."""

    def background_sync(self, loop: asyncio.AbstractEventLoop) -> KernelSync | None:
        """Syncs of plain files that need no thread, where there is such a thing."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written to, by the machine's clock; -1 where nobody knows."""

    def space(self, path: str) -> Space:
        """Of the volume that the path is on, if it can be told."""

    def open_files_max(self) -> int | None:
        """How many files and connections this process may have open at once; None where nobody counts."""

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """The file holds the old bytes or the new, never a mixture. Unsynced, that only holds while power does."""

    def lock(self, path: str) -> Lock:
        """Holds the file exclusively, across processes and inside this one, or `DirectoryInUseError`."""
