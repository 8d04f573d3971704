"""Which of the expected records is which of those that are there; decides nothing about how that is told.

Kafka keeps the order within a partition only, and so does this: the records of each partition must come in the order
in which they are expected, whatever those of other partitions do meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bifrost.testing.record import ANY, Record, agrees, encode

_WAYS_MAX = 64

Partitions = Mapping[int, Sequence[Record]]


@dataclass(slots=True)
class Match:
    """What became of each expected record (by its number in the list) and of each that is there (by its place)."""

    found: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition, index in it) to the number of the expected record that it is."""
    displaced: set[tuple[int, int]] = field(default_factory=set)
    """Those of `found` that come too early or too late."""
    extra: list[tuple[int, int]] = field(default_factory=list)
    """What nobody expects."""
    missing: list[int] = field(default_factory=list)
    """What is not there."""

    @property
    def perfect(self) -> bool:
        return not (self.displaced or self.extra or self.missing)


def match(expected: Sequence[Record], there: Partitions, *, ordered: bool) -> Match:
    """The best account of what is there; perfect if there is a way to read it as what was expected."""
    if ordered and _is_interleaving(expected, there):
        return Match()
    found = _assigned(expected, there, ordered=ordered)
    places = [(partition, index) for partition, records in sorted(there.items()) for index in range(len(records))]
    taken = set(found.values())
    return Match(
        found=found,
        displaced=_displaced(found, there) if ordered else set(),
        extra=[place for place in places if place not in found],
        missing=[number for number in range(len(expected)) if number not in taken],
    )


def _is_interleaving(expected: Sequence[Record], there: Partitions) -> bool:
    """Whether taking the next record from one partition or another can give exactly the expected list.

    Equal records in different partitions leave several ways open. They are followed side by side, up to a limit that
    only lists of nearly nothing but equal records reach, where any way is as good as another.
    """
    lanes = [there[partition] for partition in sorted(there)]
    if sum(map(len, lanes)) != len(expected):
        return False
    ways: set[tuple[int, ...]] = {(0,) * len(lanes)}
    for record in expected:
        onward: set[tuple[int, ...]] = set()
        for way in sorted(ways):
            for lane, position in enumerate(way):
                if position < len(lanes[lane]) and agrees(record, lanes[lane][position]):
                    onward.add((*way[:lane], position + 1, *way[lane + 1 :]))
        ways = onward if len(onward) <= _WAYS_MAX else set(sorted(onward)[:_WAYS_MAX])
        if not ways:
            return False
    return True


def _assigned(expected: Sequence[Record], there: Partitions, *, ordered: bool) -> dict[tuple[int, int], int]:
    """An expected record for as many of those that are there as possible, in order where there is a choice."""
    likely = _Likely(expected)
    owner: dict[int, tuple[int, int]] = {}
    for partition, records in sorted(there.items()):
        last = -1
        for index, record in enumerate(records):
            free = [number for number in likely.of(record) if number not in owner]
            chosen = next((number for number in free if number > last), free[0] if free else None)
            if chosen is not None:
                owner[chosen] = (partition, index)
                last = max(last, chosen)
            elif not ordered:
                _make_room((partition, index), owner, likely, there, set())
    return {place: number for number, place in owner.items()}


def _make_room(
    place: tuple[int, int], owner: dict[int, tuple[int, int]], likely: _Likely, there: Partitions, tried: set[int]
) -> bool:
    """Gives the record an expected one that its owner can do without (an augmenting path of a bipartite matching)."""
    partition, index = place
    for number in likely.of(there[partition][index]):
        if number in tried:
            continue
        tried.add(number)
        if number not in owner or _make_room(owner[number], owner, likely, there, tried):
            owner[number] = place
            return True
    return False


class _Likely:
    """Finds the expected records that a record may be, without comparing it with all of them."""

    def __init__(self, expected: Sequence[Record]) -> None:
        self._expected = expected
        self._exact: dict[bytes | None, list[int]] = defaultdict(list)
        self._vague: list[int] = []
        for number, record in enumerate(expected):
            if record.value is not ANY and (record.value is None or isinstance(record.value, str | bytes | bytearray)):
                self._exact[encode(record.value)].append(number)
            else:
                self._vague.append(number)

    def of(self, found: Record) -> Iterator[int]:
        for number in sorted([*self._exact.get(found.value, ()), *self._vague]):
            if agrees(self._expected[number], found):
                yield number


def _displaced(found: Mapping[tuple[int, int], int], there: Partitions) -> set[tuple[int, int]]:
    """The fewest records that must be moved to have each partition in the expected order."""
    displaced: set[tuple[int, int]] = set()
    for partition, records in there.items():
        places = [(partition, index) for index in range(len(records)) if (partition, index) in found]
        if any(found[first] > found[second] for first, second in pairwise(places)):
            displaced |= set(places) - _longest_rise(places, found)
    return displaced


def _longest_rise(places: Sequence[tuple[int, int]], found: Mapping[tuple[int, int], int]) -> set[tuple[int, int]]:
    """A longest subsequence of rising numbers (patience sorting)."""
    ends: list[int] = []
    at_end: list[tuple[int, int]] = []
    before: dict[tuple[int, int], tuple[int, int] | None] = {}
    for place in places:
        number = found[place]
        pile = bisect_left(ends, number)
        before[place] = at_end[pile - 1] if pile else None
        ends[pile : pile + 1] = [number]
        at_end[pile : pile + 1] = [place]
    rise: set[tuple[int, int]] = set()
    place_before = at_end[-1] if at_end else None
    while place_before is not None:
        rise.add(place_before)
        place_before = before[place_before]
    return rise
