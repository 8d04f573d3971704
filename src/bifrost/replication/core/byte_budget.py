"""How much may be fetched now, if so many bytes a second are allowed: a token bucket that may be overdrawn. Pure.

An answer's size is known when it has come, so it is paid for afterwards: whoever spent more than there was waits until
that is earned again. What is not spent is kept for a second, no longer.
"""

from __future__ import annotations

from math import ceil
from typing import Final

_MS: Final = 1000


class ByteBudget:
    """`rate` None is no limit at all. 0 allows nothing more once something was spent."""

    __slots__ = ("_balance", "_earned_to_ms", "rate")

    def __init__(self, rate: int | None = None, now_ms: float = 0) -> None:
        self.rate = rate
        self._balance = 0.0
        self._earned_to_ms = now_ms

    def set_rate(self, rate: int | None, now_ms: float) -> None:
        """Another rate from now on, and no debts from before."""
        self.rate = rate
        self._balance = 0.0
        self._earned_to_ms = now_ms

    def spend(self, size: int, now_ms: float) -> None:
        self._earn(now_ms)
        self._balance -= size

    def wait_ms(self, now_ms: float) -> int:
        """How long until something may be fetched again; at most a minute at a time, for the rate may change."""
        self._earn(now_ms)
        if self.rate is None or self._balance >= 0:
            return 0
        return _LONGEST_MS if self.rate == 0 else min(ceil(-self._balance / self.rate * _MS), _LONGEST_MS)

    def _earn(self, now_ms: float) -> None:
        if self.rate is not None:
            earned = self.rate * (now_ms - self._earned_to_ms) / _MS
            self._balance = min(self._balance + earned, self.rate)
        self._earned_to_ms = now_ms


_LONGEST_MS: Final = 60_000
