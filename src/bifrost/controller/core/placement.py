"""Which brokers hold the replicas of a partition.

In rotation: partition p starts at the p-th broker and goes round, so that for three brokers and three replicas p0 is on
0,1,2, p1 on 1,2,0 and p2 on 2,0,1. The first of each leads. A topic starts where the one before it ended, which spreads
small topics too. After every round of the brokers the followers are turned by one more, so that the leaderships of a
broker that dies do not all fall to its neighbour (Kafka: StripedReplicaPlacer).

With racks the rotation goes from rack to rack: no rack gets a second replica before every rack has one. That comes
first, so brokers of a small rack hold more than others (Kafka has it so, and expects racks of about one size). Brokers
that are fenced never lead; they are followers where the live ones of their rack, or racks with a live one, are too few.

Where a broker stands without a rack, every broker counts as a rack of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class _Rack(NamedTuple):
    live: list[int]
    fenced: list[int]


class _Place(NamedTuple):
    """Where a leader stands: in which rack, where in it, and where among all leaders; all from 0."""

    rack: int
    row: int
    at: int


def place(
    brokers: Sequence[int],
    *,
    replication_factor: int,
    start: int,
    first_partition: int,
    end_partition: int,
    fenced: Sequence[int] = (),
    racks: Mapping[int, str] | None = None,
) -> list[tuple[int, ...]]:
    """The replicas of each partition from `first_partition` to `end_partition`; `start` is where partition 0 stands.

    `brokers` live. `racks` has the rack of every one of `brokers` and `fenced`, or there are none.
    """
    assert 0 < replication_factor <= len(brokers) + len(fenced), "the caller counts the brokers"
    assert brokers, "the caller counts those that live"
    live_racks, fenced_racks = _racks(brokers, fenced, racks)
    leaders = _leaders(live_racks)
    away = frozenset(fenced)
    placed = []
    for partition in range(first_partition, end_partition):
        turn = partition // len(leaders)
        leader = leaders[(start + partition) % len(leaders)]
        lap = start // len(leaders) + turn
        order = _columns(live_racks, fenced_racks, leader, len(leaders), turn=turn, lap=lap)
        placed.append(tuple(_fill(order, replication_factor, away)))
    return placed


def leader_order(brokers: Sequence[int], racks: Mapping[int, str] | None = None) -> list[int]:
    """The live brokers in the order in which they lead: one of each rack, then the next of each."""
    live_racks, _ = _racks(brokers, (), racks)
    return [live_racks[place.rack].live[place.row] for place in _leaders(live_racks)]


def _racks(
    brokers: Sequence[int], fenced: Sequence[int], racks: Mapping[int, str] | None
) -> tuple[list[_Rack], list[_Rack]]:
    """The racks with a live broker, and those without, each in the order of their names."""
    if racks is None:
        return [_Rack([broker], []) for broker in brokers], [_Rack([], [broker]) for broker in fenced]
    known = {name: _Rack([], []) for name in sorted({racks[broker] for broker in chain(brokers, fenced)})}
    for broker in brokers:
        known[racks[broker]].live.append(broker)
    for broker in fenced:
        known[racks[broker]].fenced.append(broker)
    return [rack for rack in known.values() if rack.live], [rack for rack in known.values() if not rack.live]


def _leaders(live_racks: Sequence[_Rack]) -> list[_Place]:
    rows = range(max(len(rack.live) for rack in live_racks))
    places = [(number, row) for row in rows for number, rack in enumerate(live_racks) if row < len(rack.live)]
    return [_Place(number, row, at) for at, (number, row) in enumerate(places)]


def _columns(
    live_racks: Sequence[_Rack], fenced_racks: Sequence[_Rack], leader: _Place, leaders: int, *, turn: int, lap: int
) -> Iterator[list[int]]:
    """The brokers of each rack, racks and brokers in the order in which this partition takes them.

    A turn is a round of the brokers in this topic, a lap one in the cluster. Brokers of a rack move on when the racks
    have gone round: in step with them, some would never meet.
    """
    own = live_racks[leader.rack]
    others = own.live[leader.row + 1 :] + own.live[: leader.row]
    yield [own.live[leader.row], *_rotated(others, lap), *_rotated(own.fenced, lap)]
    more = len(live_racks) - 1
    for step in range(more):
        rack = live_racks[(leader.rack + 1 + (turn + step) % more) % len(live_racks)]
        row = leader.at * len(rack.live) // leaders  # in racks of one size the same as the leader's
        yield _rotated(rack.live, row + lap // more) + _rotated(rack.fenced, lap)
    for rack in _rotated(fenced_racks, leader.rack + lap):
        yield _rotated(rack.fenced, leader.row + lap)


def _fill(order: Iterator[list[int]], count: int, fenced: frozenset[int]) -> list[int]:
    """So many brokers: the first of each rack, then the second of each, those that live first, and so on."""
    columns = list(islice(order, count))
    chosen = [column[0] for column in columns]
    depth = 1
    while len(chosen) < count:
        row = [column[depth] for column in columns if depth < len(column)]
        chosen += sorted(row, key=fenced.__contains__)[: count - len(chosen)]
        depth += 1
    return chosen


def _rotated(items: Sequence[T], by: int) -> list[T]:
    at = by % len(items) if items else 0
    return [*items[at:], *items[:at]]
