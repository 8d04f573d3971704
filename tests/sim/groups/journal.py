"""A log that takes its time to be safe, and a node that can lose what is not.

Answers leave a node in the order in which they were given, and none before all that was written before it is safe: what
the driver of the real coordinator does. A node that dies takes its answers along, and of what it wrote in the end any
part may have reached the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from bifrost.coordinator.core.environment import LogRecord
from bifrost.errors import ApiError, ErrorCode


class SlowJournal:
    """One node's log partition; `flush` is called some time after something was written."""

    def __init__(self, records: Sequence[LogRecord], schedule_flush: Callable[[], None]) -> None:
        self.records = list(records)
        self.safe = len(self.records)
        self.refuses = False
        self._schedule_flush = schedule_flush
        self._held: deque[tuple[int, Callable[[], None]]] = deque()

    def append(self, records: Sequence[LogRecord]) -> None:
        if self.refuses:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas")
        self.records += records
        self._schedule_flush()

    def hold(self, deliver: Callable[[], None]) -> None:
        """Delivers when everything written so far is safe."""
        self._held.append((len(self.records), deliver))
        self._release()

    def flush(self) -> None:
        self.safe = len(self.records)
        self._release()

    def survivors(self, rng: Random) -> list[LogRecord]:
        """What another node finds after this one died."""
        return self.records[: rng.randint(self.safe, len(self.records))]

    def _release(self) -> None:
        while self._held and self._held[0][0] <= self.safe:
            self._held.popleft()[1]()
