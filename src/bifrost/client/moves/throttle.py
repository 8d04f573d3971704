"""A rate for replicas that catch up, as Kafka's own tools set it: per broker, for the replicas that topics list.

The rate counts for replicas that are listed and not in sync, on both sides: where they arrive, and at their leaders. It
outlives the command that set it, as the moves do. A broker may have a rate of its operator's from before, and topics
may list replicas of theirs: both are as they were once the moves are over that `Throttle` was told of, and nobody
else's are touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from bifrost.client.moves.layout import Assignment, Layout, Place
from bifrost.client.wire.replica_admin import Operation, ReplicaAdmin
from bifrost.types import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
_ALL: Final = "*"

_Lists: TypeAlias = dict[str, set[str]]
"""The replicas of one topic, as PARTITION:BROKER, by the name of their config."""
_Replicas: TypeAlias = Mapping[TopicPartition, tuple[list[int], list[int]]]
"""Those that partitions are copied from, and those that they are copied to."""


class Throttle:
    """What the moves of one command set, and what was there before."""

    def __init__(self, admin: ReplicaAdmin, rate: int) -> None:
        self._admin = admin
        self._rate = rate
        self.before: dict[int, dict[str, str]] = {}
        """The rates that each broker had of its own, where it had any."""
        self._listed: dict[str, _Lists] = {}

    def put_on(self, layout: Layout, wanted: Assignment) -> None:
        """Before moves begin, or while they are under way: from where each partition is to where it is wanted."""
        meant = {tp: _listing(layout.places[tp], replicas) for tp, replicas in wanted.items()}
        brokers = {broker for stay, come in meant.values() if come for broker in (*stay, *come)}
        topics = {tp.topic for tp in meant}
        moving = {tp for tp, place in layout.places.items() if place.is_moving}
        present = self._admin.topic_configs(sorted(topics | {tp.topic for tp in moving}), REPLICAS)
        left_over = _brokers_listed(present, moving)
        for broker in sorted(brokers - self.before.keys()):
            rates = self._admin.broker_configs(broker, RATES)
            if rates is None:
                continue  # it is away, and copies nothing
            # What a throttled move has put there that is not over is nobody's own: the last of them takes it away.
            self.before[broker] = {} if broker in left_over else rates
            self._admin.alter_broker_configs(broker, dict.fromkeys(RATES, (Operation.SET, str(self._rate))))
        for topic in sorted(topics):
            self._list(
                topic, {tp: both for tp, both in meant.items() if tp.topic == topic}, present.get(topic, {}), moving
            )

    def _list(
        self, topic: str, meant: _Replicas, present: Mapping[str, str], moving: Collection[TopicPartition]
    ) -> None:
        mine = self._listed.setdefault(topic, {name: set() for name in REPLICAS})
        changes: dict[str, tuple[Operation, str | None]] = {}
        for index, name in enumerate(REPLICAS):
            there = _split(present.get(name))
            entries = {f"{tp.partition}:{each}": tp for tp, both in meant.items() if both[1] for each in both[index]}
            if _ALL in there or not entries:
                continue  # all are listed already, and Kafka takes no other beside that
            # An entry from before is the operator's, unless its partition moves already: then a move has put it there.
            mine[name].update(entry for entry, tp in entries.items() if entry not in there or tp in moving)
            changes[name] = (Operation.APPEND, ",".join(entries))
        if changes:
            self._admin.alter_topic_configs(topic, changes)

    def take_off(self, layout: Layout) -> None:
        """Once these moves are over. Where another throttled move goes on, its rate stays."""
        for topic, present in self._admin.topic_configs(sorted(self._listed), REPLICAS).items():
            self._unlist(topic, self._listed[topic], present)
        moving = {tp for tp, place in layout.places.items() if place.is_moving}
        others = _brokers_listed(self._admin.topic_configs(sorted({tp.topic for tp in moving}), REPLICAS), moving)
        for broker, rates in sorted(self.before.items()):
            if broker in layout.racks and broker not in others:
                self._admin.alter_broker_configs(broker, {name: _restored(rates.get(name)) for name in RATES})

    def _unlist(self, topic: str, mine: _Lists, present: Mapping[str, str]) -> None:
        changes: dict[str, tuple[Operation, str | None]] = {}
        for name, entries in mine.items():
            there = _split(present.get(name))
            if not there or not entries:
                continue
            if set(there) <= entries:
                changes[name] = (Operation.DELETE, None)  # an empty list would be one that somebody had set
            else:
                changes[name] = (Operation.SUBTRACT, ",".join(sorted(entries)))
        if changes:
            self._admin.alter_topic_configs(topic, changes)


def unthrottle(admin: ReplicaAdmin, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Whoever set it. A topic or broker that is gone has taken its configs with it."""
    for topic in topics:
        admin.alter_topic_configs(topic, dict.fromkeys(REPLICAS, (Operation.DELETE, None)))
    for broker in brokers:
        admin.alter_broker_configs(broker, dict.fromkeys(RATES, (Operation.DELETE, None)))


def throttled_partitions(admin: ReplicaAdmin, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    """Those of which replicas are listed one by one, as moves do it."""
    present = admin.topic_configs(sorted({tp.topic for tp in partitions}), REPLICAS)
    return sorted({tp for tp, _ in _listed(present)} & set(partitions))


def _listing(place: Place, replicas: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """The replicas that are there, which are copied from, and those that come."""
    come = [broker for broker in replicas if broker not in place.replicas]
    return list(place.replicas), list(dict.fromkeys([*come, *place.adding]))


def _brokers_listed(present: Mapping[str, Mapping[str, str]], partitions: Collection[TopicPartition]) -> set[int]:
    return {broker for tp, broker in _listed(present) if tp in partitions}


def _listed(present: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[TopicPartition, int]]:
    """The replicas that these configs of topics name one by one."""
    for topic, configs in present.items():
        for entry in (each for value in configs.values() for each in _split(value) if each != _ALL):
            partition, _, broker = entry.partition(":")
            yield TopicPartition(topic, int(partition)), int(broker)


def _split(value: str | None) -> list[str]:
    return [each.strip() for each in (value or "").split(",") if each.strip()]


def _restored(value: str | None) -> tuple[Operation, str | None]:
    return (Operation.DELETE, None) if value is None else (Operation.SET, value)
