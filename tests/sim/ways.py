"""Which machines can reach which, and how fast: ways are cut and slow in one direction at a time.

What is sent along a cut way does not arrive and is not refused either: nobody answers. Machines that are off are the
same to others. Which is why a broken cable is not told from a broken machine, but both are from a dead process.
"""

from __future__ import annotations

from collections.abc import Iterable

Way = tuple[str, str]
"""From one machine to another."""


class Ways:
    """All of them; those that nobody speaks of are open and fast."""

    def __init__(self) -> None:
        self.off: set[str] = set()
        """Machines without power. Asked whether it contains something, never for its order."""
        self._cuts: dict[Way, int] = {}
        self._slowness: dict[Way, float] = {}

    def cut(self, ways: Iterable[Way]) -> None:
        """May be done several times to one way; so often must it be mended."""
        for way in ways:
            self._cuts[way] = self._cuts.get(way, 0) + 1

    def mend(self, ways: Iterable[Way]) -> None:
        for way in ways:
            left = self._cuts.pop(way, 0) - 1
            if left > 0:
                self._cuts[way] = left

    def slow(self, ways: Iterable[Way], slowness: float) -> None:
        """Everything takes so many times longer there."""
        for way in ways:
            self._slowness[way] = slowness

    def heal(self) -> None:
        """As on the first day, but for machines that are off."""
        self._cuts.clear()
        self._slowness.clear()

    def is_open(self, source: str, target: str) -> bool:
        return (source, target) not in self._cuts and source not in self.off and target not in self.off

    def slowness(self, source: str, target: str) -> float:
        return self._slowness.get((source, target), 1.0)
