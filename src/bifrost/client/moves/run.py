"""A plan on its way: begins its moves, a bounded number at a time, and tells how far they are.

All state is the cluster's. Whoever stops looking stops nothing; whoever makes the same plan again goes on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bifrost.client.moves.layout import Assignment, Layout, Place
from bifrost.client.moves.throttle import Throttle, throttled_partitions
from bifrost.client.wire.replica_admin import ReplicaAdmin
from bifrost.types import TopicPartition

AT_ONCE: Final = 100
"""Partitions that move at a time: enough to keep disks and links busy, few enough to be given up soon."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a plan is."""

    partitions: int
    partitions_left: int
    bytes_left: int
    """What new replicas of partitions that move now have yet to fetch, as far as brokers tell."""
    awaited: tuple[int, ...] = ()
    """Brokers that shall have replicas, and are away."""

    @property
    def is_over(self) -> bool:
        return self.partitions_left == 0


class MoveRun:
    """`plan` is what is to move; `watched` moves already, and is waited for too."""

    def __init__(
        self,
        admin: ReplicaAdmin,
        plan: Assignment,
        *,
        watched: Mapping[TopicPartition, Place] | None = None,
        rate: int | None = None,
    ) -> None:
        self._admin = admin
        self.throttle = None if rate is None else Throttle(admin, rate)
        self._waiting = dict(plan)
        self._begun: Assignment = {tp: place.target for tp, place in (watched or {}).items() if tp not in plan}
        self._total = len(plan) + len(self._begun)
        self._is_new = True

    @property
    def begun(self) -> list[TopicPartition]:
        """What moves, or did."""
        return list(self._begun)

    def begin_all(self) -> None:
        """Let everything move at once, for somebody who does not stay to watch."""
        self._slow_down_watched(self._admin.layout())
        while self._waiting:
            self._begin(list(self._waiting)[:AT_ONCE], self._admin.layout())

    def step(self) -> Progress:
        """Begin what there is room for, and look how far everything is."""
        layout = self._admin.layout()
        self._slow_down_watched(layout)
        room = AT_ONCE - len(self._moving(layout))
        if room > 0 and self._waiting:
            self._begin(list(self._waiting)[:room], layout)
            layout = self._admin.layout()
        moving = self._moving(layout)
        awaited = layout.fenced.intersection(one for place in moving.values() for one in place.adding)
        size = self._bytes_left(moving) if moving else 0
        return Progress(self._total, len(moving) + len(self._waiting), size, tuple(sorted(awaited)))

    def _slow_down_watched(self, layout: Layout) -> None:
        """A rate is meant for what moves already, too: perhaps it was begun without one, or with another."""
        if self._is_new and self.throttle is not None:
            self.throttle.put_on(layout, {tp: place.target for tp, place in self._moving(layout).items()})
        self._is_new = False

    def _begin(self, chosen: list[TopicPartition], layout: Layout) -> None:
        batch = {tp: self._waiting.pop(tp) for tp in chosen}
        batch = {tp: replicas for tp, replicas in batch.items() if tp in layout.places}  # else the topic was deleted
        if not batch:
            return
        if self.throttle is not None:
            self.throttle.put_on(layout, batch)
        self._admin.move(batch)
        self._begun.update(batch)

    def _moving(self, layout: Layout) -> dict[TopicPartition, Place]:
        known = {tp: layout.places[tp] for tp in self._begun if tp in layout.places}
        return {tp: place for tp, place in known.items() if place.is_moving}

    def finish(self) -> list[TopicPartition]:
        """Everything is where it was planned: let the first replicas lead, and take off the throttle that was put on.

        Returns what others have left throttled, of what was moved or watched here: it is theirs to lift.
        """
        present = self._admin.layout()
        moved = [tp for tp in self._begun if tp in present.places and not present.places[tp].is_led_by_first]
        if moved:
            self._admin.elect_preferred(moved)
        if self.throttle is not None:
            self.throttle.take_off(present)
        return throttled_partitions(self._admin, [tp for tp in self._begun if tp in present.places])

    def _bytes_left(self, left: Mapping[TopicPartition, Place]) -> int:
        leaders = {place.leader for place in left.values() if place.leader is not None}
        sizes = self._admin.log_sizes(sorted(leaders.union(*(place.adding for place in left.values()))))
        missing = 0
        for tp, place in left.items():
            whole = sizes.get(place.leader if place.leader is not None else -1, {}).get(tp, 0)
            for broker in place.adding:
                if broker not in place.isr and broker not in place.removing:
                    missing += max(0, whole - sizes.get(broker, {}).get(tp, 0))
        return missing
