"""A condition variable that Ctrl-C does not break.

`threading.Condition` lets go of its lock in Python while it waits. An interrupt that strikes between two of its steps
leaves the lock to nobody, and the block around it then fails with "cannot release un-acquired lock" instead of
KeyboardInterrupt; one that strikes in its `__enter__` leaves the lock taken for good. Here the lock is entered
directly, which is one step, and whoever is interrupted while waiting holds it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Changes:
    """Wait in `with changes.lock:` for something that others change in such a block and tell with `notify_all`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._condition = threading.Condition(self.lock)

    def wait_for(self, true: Callable[[], object], timeout_s: float | None = None) -> bool:
        """False: it was not true in time."""
        try:
            return bool(self._condition.wait_for(true, timeout_s))
        except BaseException:
            if not self.lock._is_owned():  # type: ignore[attr-defined]  # as Condition asks it
                self.lock.acquire()
            raise

    def notify_all(self) -> None:
        self._condition.notify_all()
