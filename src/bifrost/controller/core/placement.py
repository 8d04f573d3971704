"""Which brokers hold the replicas of a partition.

In rotation: partition p starts at the p-th broker and goes round, so that for three brokers and three replicas p0 is on
0,1,2, p1 on 1,2,0 and p2 on 2,0,1. The first of each leads. A topic starts behind the last partition that was ever
created, of whichever topic but the cluster's own, which spreads small topics too. After every round of the brokers the
followers are turned by one more, so that the leaderships of a broker that dies do not all fall to its neighbour (Kafka:
StripedReplicaPlacer).

With racks the rotation goes from rack to rack: no rack gets a second replica before every rack has one. That comes
first, so brokers of a small rack hold more than others (Kafka has it so, and expects racks of about one size). Brokers
that are fenced never lead; they are followers where the live ones of their rack, or racks with a live one, are too few.

Where a broker stands without a rack, every broker counts as a rack of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class _Rack(NamedTuple):
    live: list[int]
    fenced: list[int]


class _Leader(NamedTuple):
    """Where a leader stands: in which rack, where in it, and where among all leaders; all from 0."""

    rack: int
    row: int
    at: int


class Rotation:
    """The brokers in the order in which they lead, and for each of them the order in which the others follow.

    `live` and `fenced` are the brokers that may hold replicas; `racks` has the rack of every one of them, or is None.
    """

    def __init__(self, live: Sequence[int], fenced: Sequence[int] = (), racks: Mapping[int, str] | None = None) -> None:
        self.live_count = len(live)
        self.fenced_count = len(fenced)
        self._fenced = frozenset(fenced)
        self._has_racks = racks is not None
        self._racks, self._fenced_racks = _racks(live, fenced, racks)
        rows = range(max((len(rack.live) for rack in self._racks), default=0))
        places = [(number, row) for row in rows for number, rack in enumerate(self._racks) if row < len(rack.live)]
        self._leaders = [_Leader(number, row, at) for at, (number, row) in enumerate(places)]

    @property
    def leaders(self) -> list[int]:
        """The live brokers, one of each rack, then the next of each."""
        return [self._racks[leader.rack].live[leader.row] for leader in self._leaders]

    def place(
        self, *, replication_factor: int, start: int, first_partition: int, end_partition: int
    ) -> list[tuple[int, ...]]:
        """The replicas of each partition from `first_partition` to `end_partition`; `start` is where 0 stands."""
        count = self.live_count
        assert 0 < replication_factor <= count + self.fenced_count, "the caller counts the brokers"
        assert count, "the caller counts those that live"
        placed = []
        for partition in range(first_partition, end_partition):
            leader = self._leaders[(start + partition) % count]
            turn = partition // count
            lap = start // count + turn
            if self._has_racks:
                turn = lap  # racks may differ in size: then even the smallest topics have to be turned
            replicas = self._one_of_each_rack(leader, replication_factor, turn, lap)
            if len(replicas) < replication_factor:
                replicas = self._several_of_each_rack(leader, replication_factor, turn, lap)
            placed.append(tuple(replicas))
        return placed

    def _one_of_each_rack(self, leader: _Leader, wanted: int, turn: int, lap: int) -> list[int]:
        """The leader and a follower in each other rack, racks with a live broker first, as far as they are wanted."""
        replicas = [self._racks[leader.rack].live[leader.row]]
        for rack, row in self._other_racks(leader, turn, lap):
            if len(replicas) == wanted:
                break
            brokers = rack.live or rack.fenced
            replicas.append(brokers[row % len(brokers)])
        return replicas

    def _several_of_each_rack(self, leader: _Leader, wanted: int, turn: int, lap: int) -> list[int]:
        """One of each rack, then the second of each, those that live first, and so on."""
        own = self._racks[leader.rack]
        others = own.live[leader.row + 1 :] + own.live[: leader.row]
        columns = [[own.live[leader.row], *_rotated(others, lap), *_rotated(own.fenced, lap)]]
        for rack, row in self._other_racks(leader, turn, lap):
            columns.append(_rotated(rack.live, row) + _rotated(rack.fenced, lap if rack.live else row))
        replicas: list[int] = []
        depth = 0
        while len(replicas) < wanted:
            ranked = [column[depth] for column in columns if depth < len(column)]
            replicas += sorted(ranked, key=self._fenced.__contains__)[: wanted - len(replicas)]
            depth += 1
        return replicas

    def _other_racks(self, leader: _Leader, turn: int, lap: int) -> Iterator[tuple[_Rack, int]]:
        """The racks without the leader in the order in which this partition takes them, and where it begins in each.

        A turn is a round of the brokers in this topic, a lap one in the cluster. Brokers of a rack move on when the
        racks have gone round: in step with them, some would never meet.
        """
        racks = self._racks
        more = len(racks) - 1
        for step in range(more):
            rack = racks[(leader.rack + 1 + (turn + step) % more) % len(racks)]
            # In racks of one size this is the row of the leader.
            yield rack, leader.at * len(rack.live) // self.live_count + lap // more
        for rack in _rotated(self._fenced_racks, leader.rack + lap):
            yield rack, leader.row + lap


def _racks(
    live: Sequence[int], fenced: Sequence[int], racks: Mapping[int, str] | None
) -> tuple[list[_Rack], list[_Rack]]:
    """The racks with a live broker, and those without, each in the order of their names."""
    if racks is None:
        return [_Rack([broker], []) for broker in live], [_Rack([], [broker]) for broker in fenced]
    known = {name: _Rack([], []) for name in sorted({racks[broker] for broker in chain(live, fenced)})}
    for broker in live:
        known[racks[broker]].live.append(broker)
    for broker in fenced:
        known[racks[broker]].fenced.append(broker)
    return [rack for rack in known.values() if rack.live], [rack for rack in known.values() if not rack.live]


def _rotated(items: Sequence[T], by: int) -> list[T]:
    at = by % len(items) if items else 0
    return [*items[at:], *items[:at]]
