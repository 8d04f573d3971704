"""How fast to send: a steady rate, and no burst after a pause to make up for it."""

from __future__ import annotations

_BATCHES_PER_S = 20
_BATCH_MAX = 1000
_BEHIND_MAX_S = 1.0


class Pace:
    """Says how long to wait before the next batch; `rate` is in records per second, 0 for as fast as it goes."""

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._due_s = now_s
        self.batch = _BATCH_MAX if rate <= 0 else max(1, min(_BATCH_MAX, int(rate / _BATCHES_PER_S)))
        """How many records to send between two looks at the clock."""

    def wait_s(self, count: int, now_s: float) -> float:
        """How long to wait after `count` more records were sent."""
        if self._rate <= 0:
            return 0.0
        self._due_s = max(self._due_s, now_s - _BEHIND_MAX_S) + count / self._rate
        return max(0.0, self._due_s - now_s)
