"""Deadlines by name: set, move, drop, and run what is due.

Sessions are renewed with every heartbeat and almost never run out, so to move a deadline back costs a dictionary entry
only: its old place in the heap is corrected when its turn comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable

Action = Callable[[], None]


class Deadlines:
    """Every deadline of one shard."""

    __slots__ = ("_due", "_heap", "_order")

    def __init__(self) -> None:
        self._due: dict[Hashable, tuple[int, Action, int]] = {}  # when, what, and the number of its place in the heap
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = 0

    def set(self, name: Hashable, at_ms: int, action: Action) -> None:
        """Run `action` at `at_ms`, and not at the time that was set under this name before."""
        known = self._due.get(name)
        if known is not None and at_ms >= known[0]:
            self._due[name] = (at_ms, action, known[2])
            return
        self._push(name, at_ms, action)

    def drop(self, name: Hashable) -> None:
        self._due.pop(name, None)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._due

    def __len__(self) -> int:
        return len(self._due)

    def next_ms(self) -> int | None:
        """When `run` should be called; it may find that there is nothing to do yet."""
        while self._heap:
            at_ms, place, name = self._heap[0]
            known = self._due.get(name)
            if known is not None and known[2] == place:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def run(self, now_ms: int) -> None:
        """Do what is due, in the order of the deadlines; what an action sets to now or earlier runs too."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, place, name = heapq.heappop(self._heap)
            known = self._due.get(name)
            if known is None or known[2] != place:
                continue
            at_ms, action, _ = known
            if at_ms > now_ms:
                self._push(name, at_ms, action)
            else:
                del self._due[name]
                action()

    def _push(self, name: Hashable, at_ms: int, action: Action) -> None:
        self._order += 1
        self._due[name] = (at_ms, action, self._order)
        heapq.heappush(self._heap, (at_ms, self._order, name))
