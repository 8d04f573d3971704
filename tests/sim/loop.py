"""An asyncio loop whose time is virtual: it never waits, and one seed is one run.

Instead of sleeping, the loop moves its clock to the next timer. Work for a thread happens at a later, seeded
moment on the loop itself, so that the window between asking (a write) and done (a sync) is real and always the same.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable
from typing import Any

EPOCH_MS = 1_700_000_000_000


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


class SimLoop(asyncio.SelectorEventLoop):
    """Runs the production node without a real clock, thread or socket."""

    def __init__(self, rng: random.Random) -> None:
        self._jumping = _JumpingSelector()
        self._rng = rng
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001  # whatever a thread would have raised
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_later(self._rng.uniform(0.0001, 0.02), work)
        return done


class SimClock:
    """Wall time that follows the loop's."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000)
