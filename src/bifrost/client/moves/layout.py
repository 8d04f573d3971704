"""Where the replicas of a cluster are: plain facts of one moment, which plans are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bifrost.types import TopicPartition

Assignment: TypeAlias = dict[TopicPartition, tuple[int, ...]]
"""The brokers that hold each partition, the first of which should lead."""


@dataclass(frozen=True, slots=True)
class Place:
    """One partition. While it moves, `replicas` are the old ones and the new ones."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def is_led_by_first(self) -> bool:
        return self.leader == self.replicas[0]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it has when its move is over."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster's brokers with their racks, those that are fenced, and every partition."""

    racks: Mapping[int, str | None]
    fenced: frozenset[int]
    places: Mapping[TopicPartition, Place]

    @property
    def live(self) -> dict[int, str | None]:
        """The brokers that can take replicas now, with their racks."""
        return {broker: rack for broker, rack in sorted(self.racks.items()) if broker not in self.fenced}

    def assignment(self, topic: str | None = None) -> Assignment:
        """Where partitions are or are going to, all of them or those of one topic."""
        return {tp: place.target for tp, place in self.places.items() if topic in (None, tp.topic)}
