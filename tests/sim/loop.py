"""An asyncio loop whose time is virtual: it never waits, and one seed is one run.

Instead of sleeping, the loop moves its clock to the next timer. Work for a thread happens at later, seeded moments, one
call of the disk at a time, and its result arrives later still: the windows between asking (a write), doing (a sync)
and knowing are real, and always the same. What belongs to a dead process never happens, what belongs to a paused one
happens when it goes on, and each process sees time pass at the rate of its own clock.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Any, cast

from tests.sim.hands import Hands, Job
from tests.sim.process import CURRENT, PowerLost, Process

EPOCH_MS = 1_700_000_000_000
_ROUNDING_S = 1e-9
"""No timer fires before its time, whatever becomes of a number that is divided and multiplied."""


class _JumpingSelector(selectors.BaseSelector):
    """Moves the clock forward where another selector would wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: nothing is scheduled and nothing will ever happen")
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Any:
        return self._keys

    def close(self) -> None:
        self._keys.clear()


class _Patient:
    """A handle that waits for its process while that is paused. It can still be cancelled then."""

    __slots__ = ()
    _context: Context

    def _run(self) -> None:
        process = self._context.get(CURRENT)
        if process is not None and process.paused:
            process.defer(cast("asyncio.Handle", self))
        else:
            super()._run()  # type: ignore[misc]


class _SoonHandle(_Patient, asyncio.Handle):
    __slots__ = ()


class _LaterHandle(_Patient, asyncio.TimerHandle):
    __slots__ = ()


class SimLoop(asyncio.SelectorEventLoop):
    """Runs the production node without a real clock or socket, and with threads on a leash."""

    def __init__(self, rng: random.Random) -> None:
        self._jumping = _JumpingSelector()
        self._rng = rng
        self.hands = Hands()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """As the process sees it that asks, or as it is in the world."""
        process = CURRENT.get()
        return self._jumping.now if process is None else self._jumping.now * process.clock_rate

    @property
    def world_time(self) -> float:
        """Whoever asks."""
        return self._jumping.now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is not None:
            callback, args = _if_alive, (process, callback, *args)
        handle = _SoonHandle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is not None:
            callback, args = _if_alive, (process, callback, *args)
            if process.clock_rate != 1.0:
                when = when / process.clock_rate + _ROUNDING_S
        handle = _LaterHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, handle)  # type: ignore[attr-defined]
        handle._scheduled = True
        return handle

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:  # type: ignore[override]
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def resume(self, process: Process) -> None:
        """A paused process goes on: what fell due happens now, but for what is called off by then."""
        self._ready.extend(process.resume())  # type: ignore[attr-defined]

    def call_outside(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Like `call_later`, for what happens whether or not the process that asks is still alive."""
        return self.call_at(self.world_time + delay_s, callback, *args, context=Context())

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        task = super().create_task(coro, **options)
        process = CURRENT.get()
        if process is not None:
            process.owns(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done: asyncio.Future[Any] = self.create_future()
        job = Job(CURRENT.get(), copy_context(), partial(func, *args))
        self.call_later(self._delay(job), self._advance, job, done)
        return done

    def _advance(self, job: Job, done: asyncio.Future[Any]) -> None:
        if done.cancelled() and job.hand is None:
            return  # as with a real executor, what has not begun can still be called off
        if not job.is_done:  # else somebody who waited for it has brought it to its end
            self.hands.advance(job)
        self.call_later(self._delay(job), _deliver if job.is_done else self._advance, job, done)

    def _delay(self, job: Job) -> float:
        if job.process is None:
            raise RuntimeError("only simulated processes have threads")
        return self._rng.uniform(*job.process.disk_delay_s)


def _if_alive(process: Process, callback: Callable[..., Any], *args: Any) -> None:
    if process.alive:
        try:
            callback(*args)
        except PowerLost:
            assert not process.alive


def _deliver(job: Job, done: asyncio.Future[Any]) -> None:
    if done.cancelled():
        return
    if job.error is not None:
        done.set_exception(job.error)
    else:
        done.set_result(job.result)


class SimClock:
    """Wall time that follows the loop's, and may be wrong by `skew_s`."""

    def __init__(self, loop: SimLoop, skew_s: float = 0.0) -> None:
        self._loop = loop
        self._skew_s = skew_s

    def now_ms(self) -> int:
        return EPOCH_MS + int((self._loop.time() + self._skew_s) * 1000)
