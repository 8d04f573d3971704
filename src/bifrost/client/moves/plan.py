"""Which replica goes where, so that brokers carry alike, racks are spread and little is moved. Pure.

Every plan starts from where replicas are and changes as little as its aim takes. First of all a partition is on
different brokers, then in different racks as far as there are racks, then loads are even: replicas of all partitions
together, and leaders, who are first in an assignment. Racks count if every broker has one.

Loads are counted in replicas, not in bytes: counts are the same an hour later, and a plan that is made again then goes
on with the first one instead of undoing it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from bifrost.client.moves.layout import Assignment
from bifrost.types import TopicPartition


class PlanError(ValueError):
    """There is no such plan; the text says why."""


def drain(
    assignment: Assignment,
    brokers: Mapping[int, str | None],
    leaving: Collection[int],
    *,
    lost: Mapping[TopicPartition, Collection[int]] | None = None,
) -> Assignment:
    """Take everything off the brokers that leave, onto the others, which are given with their racks.

    `lost` are brokers that only single partitions have to leave.
    """
    board = _Board(assignment, {broker: rack for broker, rack in brokers.items() if broker not in leaving})
    for tp, replicas in board.replicas.items():
        away = {*leaving, *(lost or {}).get(tp, ())}
        if away.isdisjoint(replicas):
            continue
        first = replicas[0]
        board.refit(tp, len(replicas), partial(_is_outside, away))
        if first in away:
            board.lead_by_least(tp)
    return _differences(assignment, board)


def place(
    assignment: Assignment, brokers: Mapping[int, str | None], replication_factor: int | None = None
) -> Assignment:
    """Put these partitions on these brokers and no others, evenly; with another number of replicas, if one is given."""
    board = _Board(assignment, brokers)
    for tp, replicas in board.replicas.items():
        board.refit(tp, replication_factor or len(replicas), brokers.__contains__)
    board.spread()
    board.spread_leaders()
    return _differences(assignment, board)


def even(assignment: Assignment, brokers: Mapping[int, str | None]) -> Assignment:
    """Move just enough between these brokers that all carry alike; replicas on other brokers stay where they are."""
    board = _Board(assignment, brokers)
    board.spread()
    board.spread_leaders()
    return _differences(assignment, board)


def loads(assignment: Assignment, brokers: Iterable[int]) -> dict[int, tuple[int, int]]:
    """How many replicas each broker has, and how many of them should lead."""
    counted = {broker: [0, 0] for broker in brokers}
    for replicas in assignment.values():
        for index, broker in enumerate(replicas):
            entry = counted.setdefault(broker, [0, 0])
            entry[0] += 1
            entry[1] += index == 0
    return {broker: (entry[0], entry[1]) for broker, entry in sorted(counted.items())}


def _is_outside(away: Collection[int], broker: int) -> bool:
    return broker not in away


class _Board:
    """An assignment in the making, and what each of the brokers carries by it."""

    def __init__(self, assignment: Assignment, brokers: Mapping[int, str | None]) -> None:
        self.replicas = {tp: list(replicas) for tp, replicas in sorted(assignment.items())}
        self.load = dict.fromkeys(sorted(brokers), 0)
        self.leads = dict.fromkeys(sorted(brokers), 0)
        racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
        # Without racks everybody is one.
        self.rack: Mapping[int, object] = racks if len(racks) == len(brokers) else {one: one for one in brokers}
        self.rack_count = len(set(self.rack.values()))
        for replicas in self.replicas.values():
            for broker in replicas:
                if broker in self.load:
                    self.load[broker] += 1
            if replicas[0] in self.leads:
                self.leads[replicas[0]] += 1

    def refit(self, tp: TopicPartition, count: int, may_stay: Callable[[int], bool]) -> None:
        """Let go whoever may not stay, then take or drop replicas until there are so many."""
        if count > len(self.load):
            raise PlanError(f"{tp} needs {count} brokers, and there are {len(self.load)} for it")
        replicas = self.replicas[tp]
        for index, broker in enumerate(replicas):
            if not may_stay(broker):
                staying = [one for one in replicas if may_stay(one)]
                if len(staying) < count:
                    self._replace(tp, index, self._best(replicas, staying))
        for broker in [one for one in replicas if not may_stay(one)]:
            self._remove(tp, broker)
        while len(replicas) < count:
            self._add(tp, self._best(replicas, replicas))
        while len(replicas) > count:
            self._remove(tp, self._worst(replicas))

    def lead_by_least(self, tp: TopicPartition) -> None:
        """Put the one first that leads least."""
        replicas = self.replicas[tp]
        self.leads[replicas[0]] -= 1
        first = min(replicas, key=lambda broker: (self.leads.get(broker, 0), broker))
        self._put_first(replicas, first)
        self.leads[first] += 1

    def spread(self) -> None:
        """Move replicas to racks that lack one of their partition, then from who carries most to who carries least."""
        for tp, replicas in self.replicas.items():
            while (doubled := self._doubled(replicas)) is not None:
                self._replace(tp, replicas.index(doubled), self._best(replicas, [x for x in replicas if x != doubled]))
        while (found := self._next_move()) is not None:
            tp, loaded, idle = found
            self._replace(tp, self.replicas[tp].index(loaded), idle)

    def spread_leaders(self) -> None:
        """Hand leads on along the shortest chains of replicas until nobody leads two more than who could have one."""
        led: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in self.leads}
        for tp, replicas in self.replicas.items():
            if replicas[0] in led:
                led[replicas[0]][tp] = None
        settled: set[int] = set()
        while len(settled) < len(self.leads):
            most = max((one for one in self.leads if one not in settled), key=lambda one: (self.leads[one], -one))
            chain = self._chain(most, led)
            if not chain:
                settled.add(most)
                continue
            settled.clear()
            for tp, giver, taker in chain:
                self._put_first(self.replicas[tp], taker)
                del led[giver][tp]
                led[taker][tp] = None
                self.leads[giver] -= 1
                self.leads[taker] += 1

    def _chain(
        self, start: int, led: Mapping[int, Mapping[TopicPartition, None]]
    ) -> list[tuple[TopicPartition, int, int]]:
        """Who hands which lead to whom, until it is with somebody who leads at least two less than `start`."""
        came_by: dict[int, tuple[TopicPartition, int] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            giver = waiting.popleft()
            for tp in led[giver]:
                for taker in self.replicas[tp][1:]:
                    if taker in came_by or taker not in self.leads:
                        continue
                    came_by[taker] = (tp, giver)
                    if self.leads[taker] <= self.leads[start] - 2:
                        return _walked(came_by, taker)
                    waiting.append(taker)
        return []

    def _next_move(self) -> tuple[TopicPartition, int, int] | None:
        """A replica that one who carries two more can give to one who carries less, racks staying as spread."""
        order = sorted(self.load, key=lambda broker: (self.load[broker], broker))
        for loaded in reversed(order):
            held: list[tuple[TopicPartition, list[int]]] | None = None
            for idle in order:
                if self.load[loaded] - self.load[idle] < 2:
                    break
                if held is None:
                    held = [(tp, replicas) for tp, replicas in self.replicas.items() if loaded in replicas]
                found = self._movable(held, loaded, idle)
                if found is not None:
                    return found, loaded, idle
        return None

    def _movable(self, held: list[tuple[TopicPartition, list[int]]], loaded: int, idle: int) -> TopicPartition | None:
        follower: TopicPartition | None = None
        leader: TopicPartition | None = None
        for tp, replicas in held:
            if idle in replicas:
                continue
            others = [self.rack.get(broker) for broker in replicas if broker != loaded]
            if self.rack[idle] in others and self.rack[loaded] not in others:
                continue
            if replicas[0] != loaded:
                follower = follower or tp
            else:
                leader = leader or tp
        # Whichever evens out leaders too.
        wants_lead = self.leads[loaded] - self.leads[idle] >= 2
        return (leader or follower) if wants_lead else (follower or leader)

    def _doubled(self, replicas: list[int]) -> int | None:
        """A replica that shares its rack while another rack has none; the last of them."""
        racks = [self.rack.get(broker) for broker in replicas]
        if len(set(racks)) >= min(len(replicas), self.rack_count):
            return None
        known = [broker for broker in replicas if broker in self.load]
        return next((one for one in reversed(known) if racks.count(self.rack[one]) > 1), None)

    def _best(self, taken: Collection[int], beside: Iterable[int]) -> int:
        """Who is not taken, in a rack that those beside it are not in if there is one, and carries least."""
        racks = {self.rack.get(broker) for broker in beside}
        free = [broker for broker in self.load if broker not in taken]
        return min(free, key=lambda broker: (self.rack[broker] in racks, self.load[broker], broker))

    def _worst(self, replicas: list[int]) -> int:
        """Who shares its rack, and carries most; not the first, who leads."""
        racks = [self.rack.get(broker) for broker in replicas]
        return max(replicas[1:], key=lambda one: (racks.count(self.rack[one]) > 1, self.load[one], one))

    def _put_first(self, replicas: list[int], broker: int) -> None:
        replicas.remove(broker)
        replicas.insert(0, broker)

    def _replace(self, tp: TopicPartition, index: int, broker: int) -> None:
        before = self.replicas[tp][index]
        self.replicas[tp][index] = broker
        for counts in (self.load, self.leads) if index == 0 else (self.load,):
            if before in counts:
                counts[before] -= 1
            counts[broker] += 1

    def _add(self, tp: TopicPartition, broker: int) -> None:
        self.replicas[tp].append(broker)
        self.load[broker] += 1

    def _remove(self, tp: TopicPartition, broker: int) -> None:
        replicas = self.replicas[tp]
        was_first = replicas[0] == broker
        replicas.remove(broker)
        if broker in self.load:
            self.load[broker] -= 1
        if was_first:
            if broker in self.leads:
                self.leads[broker] -= 1
            if replicas and replicas[0] in self.leads:
                self.leads[replicas[0]] += 1


def _walked(
    came_by: Mapping[int, tuple[TopicPartition, int] | None], end: int
) -> list[tuple[TopicPartition, int, int]]:
    chain = []
    step = came_by[end]
    while step is not None:
        tp, giver = step
        chain.append((tp, giver, end))
        end, step = giver, came_by[giver]
    return chain


def _differences(before: Assignment, board: _Board) -> Assignment:
    after = {tp: tuple(replicas) for tp, replicas in board.replicas.items()}
    return {tp: replicas for tp, replicas in after.items() if replicas != tuple(before[tp])}
