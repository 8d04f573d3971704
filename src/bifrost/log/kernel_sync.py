"""Syncs that the kernel runs by itself, without a thread of ours: Linux AIO (io_submit(2), IOCB_CMD_FDSYNC).

A round of the flusher is short: to wake a thread for it, and then the loop again, takes longer than many a sync, and
more CPU than all else about a small write. Here the loop asks the kernel, and an eventfd tells the loop. Anything may
refuse: a system that is no Linux, or one before 4.18; a sandbox that forbids the calls; a machine that has used up its
contexts; a file system. Then threads do the work.

This file must never say that a file is synced before the kernel has.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bifrost.errors import StorageError
from bifrost.log.disk import File
from bifrost.log.real_disk import storage_error

FILES_MAX: Final = 16
"""In one round."""

_FDSYNC: Final = 3
_TELL_EVENTFD: Final = 1


class _Calls(NamedTuple):
    """The numbers of the system calls, for which glibc has no functions."""

    setup: int
    destroy: int
    submit: int
    getevents: int


_CALLS: Final = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _Calls(0, 1, 2, 4)}


class _Request(ctypes.Structure):
    """struct iocb of linux/aio_abi.h, on machines that store the lower half of a number first."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """struct io_event."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


Done = Callable[[Mapping[File, StorageError]], None]
"""Called on the loop when every file of a round is settled, with those that failed."""


class KernelSync:
    """One round at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: _Calls, syscall: Any, context: ctypes.c_ulong) -> None:
        self._calls = calls
        self._syscall = syscall
        self._context = context
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._requests = [
            _Request(data=number, opcode=_FDSYNC, flags=_TELL_EVENTFD, eventfd=self._eventfd)
            for number in range(FILES_MAX)
        ]
        self._pointers = (ctypes.POINTER(_Request) * FILES_MAX)(*map(ctypes.pointer, self._requests))
        self._events = (_Event * FILES_MAX)()
        self._files: Sequence[File] = ()
        self._left = 0
        self._errors: dict[File, StorageError] = {}
        self._done: Done | None = None
        loop.add_reader(self._eventfd, self._on_events)

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop) -> KernelSync | None:
        """None where it cannot be had."""
        calls = _CALLS.get(platform.machine())
        if calls is None or sys.platform != "linux":
            return None
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        syscall.restype = ctypes.c_long
        context = ctypes.c_ulong(0)
        if syscall(calls.setup, FILES_MAX, ctypes.byref(context)) != 0:
            return None
        try:
            return cls(loop, calls, syscall, context)
        except NotImplementedError:  # a loop that watches no descriptors
            syscall(calls.destroy, context)
            return None

    def __del__(self) -> None:
        """Waits for what is under way, which nobody does any more."""
        if hasattr(self, "_eventfd"):
            self._syscall(self._calls.destroy, self._context)
            os.close(self._eventfd)

    def start(self, files: Sequence[File], done: Done) -> int:
        """Sync files; returns how many of them, from the first on, were taken. `done` follows unless it was none."""
        assert not self._left, "one round at a time"
        for request, file in zip(self._requests, files, strict=False):
            request.descriptor = file.fileno()
        taken = self._syscall(self._calls.submit, self._context, ctypes.c_long(len(files)), self._pointers)
        if taken <= 0:
            return 0
        self._files, self._left, self._errors, self._done = files[:taken], taken, {}, done
        return int(taken)

    def _on_events(self) -> None:
        try:
            os.eventfd_read(self._eventfd)
        except BlockingIOError:
            return
        room = ctypes.c_long(FILES_MAX)
        count = self._syscall(self._calls.getevents, self._context, ctypes.c_long(0), room, self._events, None)
        for event in self._events[: max(0, count)]:
            if event.result != 0:
                file = self._files[event.data]
                code = -event.result
                self._errors[file] = storage_error(file.path, OSError(code, os.strerror(code)))
        self._left -= max(0, count)
        if not self._left and self._done is not None:
            done, self._done = self._done, None
            self._files = ()
            done(self._errors)
