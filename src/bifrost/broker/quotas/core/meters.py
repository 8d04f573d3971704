"""What one client has used lately, and for how long it has to wait if that is more than it may.

Two ways to count, both Kafka's. A rate over the last windows (`Rate`, `SampledStat`, KIP-13) is for what is noticed
when it has happened: bytes, time, connections. A bucket of tokens (`TokenBucket`, KIP-599) is for what comes in bursts,
such as a request that creates a thousand partitions: it lets the burst pass, and then nothing until that is paid for.

A limit comes with every call, because it may change while what was used stays.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import NamedTuple, Protocol

_MS = 1000.0


class Window(NamedTuple):
    """How long what was used is remembered: in so many samples of so many milliseconds."""

    samples: int
    sample_ms: int

    @property
    def whole_ms(self) -> int:
        """Of the samples that are complete; one is always under way."""
        return (self.samples - 1) * self.sample_ms


class Meter(Protocol):
    """Counts what one client uses."""

    def charge(self, amount: float, limit: float, window: Window, now_ms: float) -> int:
        """Count it, and tell for how many milliseconds the client has to wait; 0 if it stays within its limit."""
        ...


class _Sample:
    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = self.last_ms = start_ms
        self.amount = 0.0


class SampledRate:
    """The rate over the last samples. One that has just begun counts as if nothing had been used before it."""

    __slots__ = ("__weakref__", "_samples", "total")

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        self.total = 0.0
        """What was used in all samples that are remembered."""

    def charge(self, amount: float, limit: float, window: Window, now_ms: float) -> int:
        self.count(amount, window, now_ms)
        return self.wait_ms(limit, window, now_ms)

    def charge_or_wait(self, amount: float, limit: float, window: Window, now_ms: float) -> int:
        """Count it if that is within the limit, else tell how long it takes until it will be.

        Who has used nothing lately may have it, however much it is: a single batch may be more than the limit gives in
        all samples together, and would never be sent. What comes next pays for it.
        """
        self._forget_old(window, now_ms)
        was_idle = self.total <= 0
        wait_ms = self.charge(amount, limit, window, now_ms)
        if wait_ms == 0 or was_idle:
            return 0
        self.count(-amount, window, now_ms)
        return wait_ms

    def count(self, amount: float, window: Window, now_ms: float) -> None:
        self._forget_old(window, now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= window.sample_ms:
            samples.append(_Sample(now_ms))
            if len(samples) > window.samples + 1:  # one more: the oldest may reach into the time that counts
                self.total -= samples.popleft().amount
        samples[-1].amount += amount
        samples[-1].last_ms = now_ms
        self.total += amount

    def wait_ms(self, limit: float, window: Window, now_ms: float) -> int:
        """How long until the rate is down to the limit, if nothing more is used (Kafka: QuotaUtils.throttleTime).

        Rounded up: who has waited too short, by a fraction, is only told to wait again.
        """
        self._forget_old(window, now_ms)
        over_ms = self._elapsed_ms(window, now_ms)
        allowed = limit * over_ms / _MS
        return ceil((self.total - allowed) / limit * _MS) if self.total > allowed else 0

    def _elapsed_ms(self, window: Window, now_ms: float) -> float:
        """Over how long what is remembered was used: never less than all whole samples last."""
        elapsed = now_ms - self._samples[0].start_ms if self._samples else 0.0
        missing = window.samples - 1 - elapsed // window.sample_ms
        return max(elapsed + max(missing, 0) * window.sample_ms, 1.0)

    def _forget_old(self, window: Window, now_ms: float) -> None:
        samples, oldest_ms = self._samples, now_ms - window.samples * window.sample_ms
        while samples and samples[0].last_ms <= oldest_ms:
            self.total -= samples.popleft().amount
        if not samples:
            self.total = 0.0  # without what fractions have added up to


class TokenBucket:
    """Tokens that come at the limit's rate, as many as the windows last; who takes more than are there is in debt."""

    __slots__ = ("__weakref__", "_tokens", "_updated_ms")

    def __init__(self) -> None:
        self._tokens: float | None = None  # full, whatever that will be
        self._updated_ms = 0.0

    def charge(self, amount: float, limit: float, window: Window, now_ms: float) -> int:
        """Take them, in any case."""
        self._refill(limit, window, now_ms)
        self._tokens = (self._tokens or 0.0) - amount
        return self._debt_ms(limit)

    def charge_unless_in_debt(self, amount: float, limit: float, window: Window, now_ms: float) -> int:
        """Take them if the last ones are paid for, else wait until they will be."""
        self._refill(limit, window, now_ms)
        wait_ms = self._debt_ms(limit)
        if wait_ms == 0:
            self._tokens = (self._tokens or 0.0) - amount
        return wait_ms

    def _refill(self, limit: float, window: Window, now_ms: float) -> None:
        most = limit * window.samples * window.sample_ms / _MS
        had = most if self._tokens is None else self._tokens + limit * (now_ms - self._updated_ms) / _MS
        self._tokens, self._updated_ms = min(most, had), now_ms

    def _debt_ms(self, limit: float) -> int:
        tokens = self._tokens or 0.0
        return ceil(-tokens / limit * _MS) if tokens < 0 else 0
