"""The file system of the machine.

This file decides how each promise of `disk.Disk` is kept on Linux and, where it lacks a call, on macOS: what reaches
the platter, what is read without waiting, how a directory is locked.

It must never retry a failed sync: after one the kernel may have dropped the dirty pages and would call the next one a
success. It must never close a descriptor that somebody may still be reading from: a `RealFile` closes its own when
its last user lets go of it, so that a read in a thread can never hit another file under a reused number.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import posixpath
import resource
import shutil
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from bifrost.errors import DiskFullError, StorageError
from bifrost.log.disk import TEMPORARY_SUFFIX, Buffer, DirectoryInUseError, Space

if TYPE_CHECKING:
    from bifrost.log.kernel_sync import KernelSync

_SYNCFS_SINCE: Final = (5, 8)
"""Before this version of Linux, syncfs(2) kept write-back errors to itself."""


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def write_at(self, data: Buffer, position: int) -> None:
        try:
            written = os.pwrite(self._fd, data, position)
            if written != len(data):
                self._write_rest(data, position, written)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def _write_rest(self, data: Buffer, position: int, written: int) -> None:
        view = memoryview(data)
        while written < len(view):
            step = os.pwrite(self._fd, view[written:], position + written)
            if step == 0:
                raise OSError(errno.ENOSPC, "nothing was written")
            written += step

    def read_at(self, size: int, position: int) -> Buffer:
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size:
                return data
            parts = [data]  # the end of the file, or a kernel that caps one read at 2 GiB
            while data and (missing := size - sum(map(len, parts))) > 0:
                data = os.pread(self._fd, missing, position + size - missing)
                parts.append(data)
            return b"".join(parts)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def read_cached(self, size: int, position: int) -> Buffer | None:
        if not _nowait.supported:
            return self.read_at(size, position)
        buffer = bytearray(size)
        try:
            read = os.preadv(self._fd, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise storage_error(self.path, error) from error
            _nowait.supported = False  # this file system cannot tell cold pages from warm ones: read and wait
            return self.read_at(size, position)
        return buffer if read == size else None

    def sync(self) -> None:
        try:
            _sync_data(self._fd)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def write_back(self, position: int, size: int) -> None:
        try:
            _write_back(self._fd, position, size)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise storage_error(self.path, error) from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def fileno(self) -> int | None:
        return self._fd


class RealLock:
    """Two kinds of lock on one descriptor: POSIX keeps Apache Kafka out, flock another node in this process."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealDisk:
    """The file system of the machine. Has no state, so that it can be handed to a worker process."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        try:
            return RealFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))
        except OSError as error:
            raise storage_error(path, error) from error

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            raise storage_error(path, error) from error

    def directories(self, path: str) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            raise storage_error(path, error) from error

    def file_sizes(self, path: str) -> dict[str, int]:
        try:
            with os.scandir(path) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except OSError as error:
            raise storage_error(path, error) from error

    def makedirs(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise storage_error(path, error) from error

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(old, new)
        except OSError as error:
            raise storage_error(old, error) from error

    def remove(self, path: str) -> None:
        try:
            os.remove(path)
        except OSError as error:
            raise storage_error(path, error) from error

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(path, error) from error

    def sync_directory(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise storage_error(path, error) from error

    def sync_filesystem(self, path: str) -> bool:
        if _kernel_version() < _SYNCFS_SINCE:
            return False
        try:
            return _syncfs(path)
        except OSError as error:
            raise storage_error(path, error) from error

    def background_sync(self, loop: asyncio.AbstractEventLoop) -> KernelSync | None:
        from bifrost.log.kernel_sync import KernelSync  # takes a megabyte, and only some policies sync in rounds

        return KernelSync.open(loop)

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            raise storage_error(path, error) from error

    def space(self, path: str) -> Space:
        try:
            found = os.statvfs(path)
        except OSError:
            return Space()
        return Space(found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail)

    def open_files_max(self) -> int | None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if limit == resource.RLIM_INFINITY else limit

    def read_bytes(self, path: str) -> bytes:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                parts = [os.read(fd, _READ_BYTES)]
                while len(parts[-1]) == _READ_BYTES:
                    parts.append(os.read(fd, _READ_BYTES))
            finally:
                os.close(fd)
        except OSError as error:
            raise storage_error(path, error) from error
        return b"".join(parts)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + TEMPORARY_SUFFIX
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.write_at(data, 0)
            if sync:
                file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        if sync:
            self.sync_directory(posixpath.dirname(path))

    def lock(self, path: str) -> RealLock:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise DirectoryInUseError(path, "another node uses this directory") from error
        return RealLock(fd)


_READ_BYTES: Final = 1 << 16
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
"""Too many open files are no fault of the disk: what is stored is intact, and there may be room again later."""
_WAIT_WRITE_WAIT: Final = 7
"""Flags of sync_file_range(2): for what is on its way already, and then for all the rest."""
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class _Nowait:
    """Whether reads can be told not to wait; learned once, by trying."""

    __slots__ = ("supported",)

    def __init__(self) -> None:
        self.supported = hasattr(os, "RWF_NOWAIT")


_nowait = _Nowait()


def storage_error(path: str, error: OSError) -> StorageError:
    """What an error of the operating system means to the rest of the node."""
    kind = DiskFullError if error.errno in _NO_ROOM else StorageError
    return kind(path, error.strerror or str(error))


if sys.platform == "darwin":

    def _sync_data(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync(2) of macOS stops at the drive's own cache

else:
    _sync_data = os.fdatasync


def _kernel_version() -> tuple[int, int]:
    """(0, 0) where the kernel is not Linux."""
    name = os.uname()
    if name.sysname != "Linux":
        return 0, 0
    major, minor = name.release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    import ctypes  # as below; only compaction wants it

    call = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


def _write_back(fd: int, position: int, size: int) -> None:
    call = _sync_file_range()
    if call is not None and call(fd, position, size, _WAIT_WRITE_WAIT) != 0:
        import ctypes

        number = ctypes.get_errno()
        if number not in _UNSUPPORTED and number != errno.EPERM:  # not even a container that forbids it is a failure
            raise OSError(number, os.strerror(number))


def _syncfs(path: str) -> bool:
    import ctypes  # the os module has no syncfs, and only a start, a stop and crowded rounds want it

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if call(fd) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(fd)
    return True
