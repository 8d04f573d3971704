"""The ways between nodes: messages come late, out of order, twice or not at all, and some ways are cut, one or both."""

from __future__ import annotations

from random import Random

from bifrost.types import NodeId

CALM_MS = 10.0
LATE_MS = 600.0
"""No message is under way for longer."""


class Network:
    def __init__(self, rng: Random) -> None:
        self._random = rng.random
        self._cuts: dict[tuple[NodeId, NodeId], int] = {}
        self.drop = self.repeat = self.late = 0.0

    def cut(self, source: NodeId, target: NodeId) -> None:
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def mend(self, source: NodeId, target: NodeId) -> None:
        """Once for each time that it was cut."""
        cuts = self._cuts.get((source, target), 0)
        if cuts > 1:
            self._cuts[source, target] = cuts - 1
        else:
            self._cuts.pop((source, target), None)

    def heal(self) -> None:
        self._cuts.clear()
        self.drop = self.repeat = self.late = 0.0

    def delays_ms(self, source: NodeId, target: NodeId) -> tuple[float, ...]:
        """After what time each copy of a message arrives."""
        if (source, target) in self._cuts:
            return ()
        random = self._random
        if self.drop and random() < self.drop:
            return ()
        delay_ms = random() * (LATE_MS if self.late and random() < self.late else CALM_MS)
        if self.repeat and random() < self.repeat:
            return delay_ms, random() * LATE_MS
        return (delay_ms,)
