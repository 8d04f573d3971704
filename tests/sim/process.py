"""A simulated process: callbacks, timers, tasks and threads that live together and die at one moment.

All simulated processes share one loop. What each of them schedules is marked through a context variable, so that the
loop can drop it once its process is dead: nothing is closed, cancelled or told, exactly as after SIGKILL. A process may
also die in the middle of a call to its disk: `PowerLost` then unwinds the call, and nobody can catch it by accident.

A process may be paused, as by SIGSTOP: what is due waits until `resume`, in order, and the world goes on without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any

CURRENT: ContextVar[Process | None] = ContextVar("simulated process", default=None)


class PowerLost(BaseException):
    """The process ended inside this call. Not an Exception: production code has no business to handle it."""


class Process:
    """Alive until `kill`. What it left undone is kept until `bury`, so that no finaliser runs at a random moment."""

    def __init__(
        self, name: str, *, clock_rate: float = 1.0, disk_delay_s: tuple[float, float] = (0.00005, 0.002)
    ) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.clock_rate = clock_rate
        """How fast its own time passes, measured against that of the world."""
        self.disk_delay_s = disk_delay_s
        """Between which bounds a thread of it takes for one call of the disk."""
        self.on_death: list[Callable[[], object]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._due: list[asyncio.Handle] = []
        self.context = Context()
        """In which somebody else may schedule what belongs to the process."""
        self.context.run(CURRENT.set, self)

    def run(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call into the process from outside; does nothing if it is dead or dies on the way."""
        if not self.alive:
            return None
        token = CURRENT.set(self)
        try:
            return callback(*args)
        except PowerLost:
            assert not self.alive
            return None
        finally:
            CURRENT.reset(token)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self.run(asyncio.get_running_loop().create_task, work)
        return task

    def owns(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)

    def pause(self) -> None:
        """Nothing that belongs to the process happens until `resume`."""
        self.paused = self.alive

    def resume(self) -> list[asyncio.Handle]:
        """It goes on; returns what fell due meanwhile, in its order."""
        self.paused = False
        due, self._due = self._due, []
        return due

    def defer(self, handle: asyncio.Handle) -> None:
        """Keep what falls due while the process is paused."""
        assert self.paused
        self._due.append(handle)

    def kill(self) -> None:
        """From here on nothing that belongs to the process happens."""
        if self.alive:
            self.alive = self.paused = False
            self._due.clear()
            for tell in self.on_death:
                tell()

    def bury(self) -> None:
        """Unwind what was under way at the end, when nobody looks at its effects any more."""
        assert not self.alive
        for task in self._tasks:
            if task.done():
                if not task.cancelled():
                    task.exception()  # so that asyncio does not complain that nobody asked
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            assert coroutine is not None
            try:
                coroutine.close()
            except (PowerLost, RuntimeError, ValueError):
                pass  # its `finally` wanted to wait, or to use the disk of a machine that is off
        self._tasks.clear()
