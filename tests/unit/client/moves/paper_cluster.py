"""A cluster on paper: what `ReplicaAdmin` is told is true at once, and moves end when a test says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from bifrost.client.moves.layout import Layout, Place
from bifrost.client.wire.replica_admin import ConfigChanges, Operation, ReplicaAdmin
from bifrost.types import TopicPartition

Configs = dict[str, dict[str, str]]


class PaperCluster:
    """Brokers, partitions, and their configs by name of topic or id of broker."""

    def __init__(self, brokers: int, places: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        self.racks: dict[int, str | None] = dict.fromkeys(range(brokers))
        self.away: set[int] = set()
        self.places = {tp: Place(replicas[0], replicas, replicas) for tp, replicas in places.items()}
        self.configs: Configs = {}
        self.sizes: dict[int, dict[TopicPartition, int]] = {}
        self.elected: list[TopicPartition] = []

    @property
    def admin(self) -> ReplicaAdmin:
        return cast("ReplicaAdmin", self)

    def layout(self) -> Layout:
        return Layout(dict(self.racks), frozenset(self.away), dict(self.places))

    def move(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
        for tp, target in wanted.items():
            place = self.places[tp]
            adding = tuple(one for one in target if one not in place.replicas)
            removing = tuple(one for one in place.replicas if one not in target)
            self.places[tp] = replace(place, replicas=(*target, *removing), adding=adding, removing=removing)

    def arrive(self, *partitions: TopicPartition) -> None:
        """The moves of these partitions end; of all, if none is named."""
        for tp in partitions or list(self.places):
            target = self.places[tp].target
            self.places[tp] = Place(target[0], target, target)

    def elect_preferred(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Exception]:
        self.elected += partitions
        return {}

    def log_sizes(self, brokers: Iterable[int]) -> dict[int, dict[TopicPartition, int]]:
        return {broker: self.sizes.get(broker, {}) for broker in brokers}

    def topic_configs(self, topics: Iterable[str], names: Sequence[str]) -> Configs:
        return {topic: self._set(topic, names) for topic in topics}

    def broker_configs(self, broker: int, names: Sequence[str]) -> dict[str, str] | None:
        return None if broker in self.away else self._set(str(broker), names)

    def _set(self, owner: str, names: Sequence[str]) -> dict[str, str]:
        return {name: value for name, value in self.configs.get(owner, {}).items() if name in names}

    def alter_topic_configs(self, topic: str, changes: ConfigChanges) -> None:
        configs = self.configs.setdefault(topic, {})
        for name, (operation, value) in changes.items():
            items = [item for item in configs.get(name, "").split(",") if item]
            given = (value or "").split(",")
            if operation == Operation.DELETE:
                configs.pop(name, None)
            elif operation == Operation.SUBTRACT:
                configs[name] = ",".join(item for item in items if item not in given)
            else:
                kept = items if operation == Operation.APPEND else []
                configs[name] = ",".join(dict.fromkeys([*kept, *given]))

    def alter_broker_configs(self, broker: int, changes: ConfigChanges) -> None:
        self.alter_topic_configs(str(broker), changes)

    def throttles(self) -> Configs:
        """All configs that there are, without those who have none."""
        return {owner: dict(sorted(found.items())) for owner, found in sorted(self.configs.items()) if found}
