"""How long to wait for something, and how long between two attempts at it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

JITTER = 0.2


class Deadline:
    """A moment after which nobody waits any longer."""

    __slots__ = ("_at", "_clock", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        """What was allowed in all, for messages."""
        self._clock = clock
        self._at = clock() + seconds

    def remaining_s(self) -> float:
        """Never negative."""
        return max(0.0, self._at - self._clock())

    @property
    def passed(self) -> bool:
        return self._clock() >= self._at

    def at_most(self, seconds: float) -> Deadline:
        """This deadline, or an earlier one that is `seconds` away."""
        return Deadline(seconds, self._clock) if seconds < self.remaining_s() else self


class Backoff:
    """Pauses that double up to a limit, each a little off, so that many clients do not come back in step."""

    __slots__ = ("_first_s", "_limit_s", "_next_s", "_random")

    def __init__(self, first_ms: int, limit_ms: int, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._first_s = first_ms / 1000
        self._limit_s = max(first_ms, limit_ms) / 1000
        self._next_s = self._first_s
        self._random = uniform

    def next_s(self) -> float:
        """The pause before the next attempt."""
        pause = self._next_s * self._random(1 - JITTER, 1 + JITTER)
        self._next_s = min(self._next_s * 2, self._limit_s)
        return pause

    def reset(self) -> None:
        """An attempt succeeded: the next failure starts from the beginning."""
        self._next_s = self._first_s
