"""Wall-clock time, passed in so that a simulator can own it. Durations are measured with the loop's own clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since the epoch, as record timestamps count them."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
