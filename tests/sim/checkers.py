"""Judges a history: one pure function per anomaly, and each returns its evidence (after Jepsen's Kafka checker).

With `flush.policy=ack` nothing that was acknowledged or read may ever be lost. With `flush.policy=os` a loss of power
may take the end of a log, and only that: so most promises are judged between two such losses ("eras"), and `holes`
makes sure that what was lost was an end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf
from typing import NamedTuple

from tests.sim.anomaly import Anomaly
from tests.sim.compacted.checkers import COMPACTED_CHECKERS
from tests.sim.crowd.checkers import GROUP_CHECKERS
from tests.sim.history import (
    Acknowledged,
    CompactedEnd,
    Complaint,
    Crashed,
    EndSeen,
    Forgotten,
    History,
    Leading,
    OutOfRange,
    Place,
    Polled,
    ProducerIdGiven,
    ReadBack,
    Sent,
    Sighting,
    Value,
)
from tests.sim.topic_checkers import lost_metadata


class End(NamedTuple):
    """Somebody was told, or could conclude, where a partition ends."""

    asked_at: float
    at: float
    place: Place
    floor: int
    """Later answers must not be below it."""
    told: int | None
    """None if nothing was said about the end itself: a batch that was sent again is acknowledged where it is."""
    words: str
    is_final: bool = False
    """Said when everything was over."""
    told_by: str | None = None
    """The machine that said so; None if only a leader can have."""


def lost_writes(history: History) -> list[Anomaly]:
    """An acknowledged write that is not there in the end."""
    return [
        Anomaly("lost write", str(seen.place), f"{seen}, in the end there is {found}")
        for seen, found in _gone(history, history.acknowledged())
    ]


def vanished_reads(history: History) -> list[Anomaly]:
    """A record that a consumer has read and that is not there in the end."""
    return [
        Anomaly("vanished read", str(seen.place), f"{seen}, in the end there is {found}")
        for seen, found in _gone(history, history.read())
    ]


def holes(history: History) -> list[Anomaly]:
    """A loss of power took something from a log and left what came after it."""
    final, era = history.final(), history.eras()
    by_era: dict[tuple[Place, int], list[Sighting]] = defaultdict(list)
    for seen in history.sightings():
        when = era(seen.asked_at, seen.at)
        if when is not None and seen.place in final:
            by_era[seen.place, when].append(seen)
    found = []
    for (place, _), group in by_era.items():
        kept = [seen for seen in group if final[place].get(seen.offset) == seen.value]
        lost = [seen for seen in group if final[place].get(seen.offset) != seen.value]
        if kept and lost:
            first, last = min(lost, key=_offset), max(kept, key=_offset)
            if first.offset < last.offset:
                found.append(Anomaly("hole", str(place), f"{first} is gone, {last} is still there"))
    return found


def divergent_offsets(history: History) -> list[Anomaly]:
    """Two values at one offset, with no loss of power in between."""
    era = history.eras()
    known: dict[tuple[Place, int, int], Sighting] = {}
    found = []
    for seen in history.sightings():
        when = era(seen.asked_at, seen.at)
        if when is not None:
            first = known.setdefault((seen.place, seen.offset, when), seen)
            if first.value != seen.value:
                found.append(Anomaly("divergent offset", str(seen.place), f"{first}, but {seen}"))
    return found


def duplicates(history: History) -> list[Anomaly]:
    """One value at two offsets. Every value is unique: who writes it again is an idempotent producer."""
    era = history.eras()
    known: dict[tuple[Place, Value, int], Sighting] = {}
    found = []
    for seen in history.sightings():
        when = era(seen.asked_at, seen.at)
        if when is not None:
            first = known.setdefault((seen.place, seen.value, when), seen)
            if first.offset != seen.offset:
                found.append(Anomaly("duplicate", str(seen.place), f"{first}, and {seen}"))
    return found


def reordered(history: History) -> list[Anomaly]:
    """Two values of one producer, the later one at the lower offset."""
    era = history.eras()
    groups: dict[tuple[Place, str, int, int], dict[int, Sighting]] = defaultdict(dict)
    for seen in history.sightings():
        when = era(seen.asked_at, seen.at)
        if when is not None:
            groups[seen.place, seen.value.producer, seen.value.line, when].setdefault(seen.value.number, seen)
    found = []
    for (place, *_), sightings in groups.items():
        for (_, earlier), (_, later) in pairwise(sorted(sightings.items())):
            if later.offset < earlier.offset:
                found.append(Anomaly("reordered", str(place), f"{earlier}, but {later}"))
    return found


def garbage(history: History) -> list[Anomaly]:
    """A record that nobody wrote to this partition."""
    sent = {(event.place, value) for event in history.of(Sent) for value in event.values}
    return [
        Anomaly("garbage", str(seen.place), str(seen))
        for seen in history.sightings()
        if (seen.place, seen.value) not in sent
    ]


def nonmonotone_polls(history: History) -> list[Anomaly]:
    """Offsets of one answer that do not rise, or that lie before the offset that was asked for."""
    return [
        Anomaly("non-monotone poll", str(event.place), f"{event.reader} asked for {event.fetch_offset}, got {offsets}")
        for event, offsets in _answers(history)
        if offsets[0] < event.fetch_offset or any(b <= a for a, b in pairwise(offsets))
    ]


def skipped_polls(history: History) -> list[Anomaly]:
    """An answer that leaves records out, which only a cleaning may have taken."""
    compacted = {event.place for event in history.of(CompactedEnd)}
    return [
        Anomaly("skipped poll", str(event.place), f"{event.reader} asked for {event.fetch_offset}, got {offsets}")
        for event, offsets in _answers(history)
        if event.place not in compacted
        and (offsets[0] > event.fetch_offset or any(b > a + 1 for a, b in pairwise(offsets)))
    ]


def uncommitted_reads(history: History) -> list[Anomaly]:
    """A record at or above the high watermark of its own answer."""
    return [
        Anomaly("uncommitted read", str(event.place), f"{event.reader} got {offsets}, watermark {event.high_watermark}")
        for event, offsets in _answers(history)
        if offsets[-1] >= event.high_watermark
    ]


def watermarks_went_back(history: History) -> list[Anomaly]:
    """A partition that ends before something that was acknowledged, read, or said to be its end.

    Where leaders move, that holds for whoever alone leads by now: all that any leader before it has said is a floor.
    """
    era = history.eras()
    ends = sorted(_ends(history), key=lambda end: end.at)
    times: dict[tuple[Place, int], list[float]] = defaultdict(list)
    floors: dict[tuple[Place, int], list[End]] = defaultdict(list)
    found = []
    for end in ends:
        when = era(end.asked_at, end.at)
        if when is None:
            continue
        before, highest = times[end.place, when], floors[end.place, when]
        known = bisect_left(before, end.asked_at)  # what was told before this was asked
        if known and end.told is not None and end.told < highest[known - 1].floor:
            found.append(
                Anomaly("watermark went back", str(end.place), f"{highest[known - 1].words}, then {end.words}")
            )
        before.append(end.at)
        highest.append(max(highest[-1], end, key=lambda each: each.floor) if highest else end)
    return found


def forgotten_producers(history: History) -> list[Anomaly]:
    """A producer whose next sequence was refused, although no loss of power can have taken the one before.

    Where batches go, all that is known of them once a node has started again is what the last one of a producer tells.
    """
    losses = history.losses()
    compacted = {event.place for event in history.of(CompactedEnd)}
    first_end = min((event.at for event in history.of(Crashed)), default=inf)
    found = []
    for event in history.of(Forgotten):
        last_loss = max((loss for loss in losses if loss < event.at), default=None)
        excused = last_loss is not None and not any(
            ack.place == event.place and ack.values[0].producer == event.producer and last_loss <= ack.asked_at
            for ack in history.of(Acknowledged)
            if ack.at < event.asked_at
        )
        if not excused and not (event.place in compacted and first_end < event.at):
            detail = f"{event.producer} at {event.at:.3f}: {event.detail}"
            found.append(Anomaly("forgotten producer", str(event.place), detail))
    return found


def repeated_producer_ids(history: History) -> list[Anomaly]:
    """A producer id that was handed out twice."""
    owners: dict[tuple[int, int], ProducerIdGiven] = {}
    found = []
    for event in history.of(ProducerIdGiven):
        first = owners.setdefault((event.producer_id, event.producer_epoch), event)
        if first is not event:
            detail = f"{first.producer} at {first.at:.3f} and {event.producer} at {event.at:.3f}"
            found.append(Anomaly("repeated producer id", str(event.producer_id), detail))
    return found


def unstable_ends(history: History) -> list[Anomaly]:
    """A partition that was read twice when everything was over, and was not the same, or has a gap."""
    first: dict[Place, ReadBack] = {}
    found = []
    for event in history.of(ReadBack):
        offsets = [offset for offset, _ in event.records]
        if offsets != list(range(event.end_offset)):
            found.append(Anomaly("unstable end", str(event.place), f"ends at {event.end_offset}, has {offsets}"))
        known = first.setdefault(event.place, event)
        if known.records != event.records:
            detail = f"{len(known.records)} records at {known.at:.3f}, {len(event.records)} others at {event.at:.3f}"
            found.append(Anomaly("unstable end", str(event.place), detail))
    return found


def complaints(history: History) -> list[Anomaly]:
    """What was noticed while it happened."""
    return [Anomaly(event.kind, f"the run at {event.at:.3f}", event.detail) for event in history.of(Complaint)]


CHECKERS: tuple[Callable[[History], list[Anomaly]], ...] = (
    complaints,
    lost_writes,
    vanished_reads,
    holes,
    divergent_offsets,
    duplicates,
    reordered,
    garbage,
    nonmonotone_polls,
    skipped_polls,
    uncommitted_reads,
    watermarks_went_back,
    forgotten_producers,
    repeated_producer_ids,
    unstable_ends,
    lost_metadata,
    *COMPACTED_CHECKERS,
    *GROUP_CHECKERS,
)


def judge(history: History) -> list[Anomaly]:
    """Everything that is wrong with a history."""
    return [anomaly for check in CHECKERS for anomaly in check(history)]


def _offset(seen: Sighting) -> int:
    return seen.offset


def _gone(history: History, sightings: Iterator[Sighting]) -> Iterator[tuple[Sighting, Value | None]]:
    """Sightings that the end does not confirm, though no loss of power came after them."""
    final, losses = history.final(), history.losses()
    last_loss = losses[-1] if losses else -1.0
    for seen in sightings:
        if seen.place in final and seen.asked_at >= last_loss:
            there = final[seen.place].get(seen.offset)
            if there != seen.value:
                yield seen, there


def _answers(history: History) -> Iterator[tuple[Polled, list[int]]]:
    for event in history.of(Polled):
        if event.records:
            yield event, [offset for offset, _ in event.records]


def _ends(history: History) -> Iterator[End]:
    """Where leaders move, what was said by somebody who need not know better says nothing about the end itself."""
    if not history.leaders_move:
        yield from _all_ends(history)
        return
    leading = _Leaders(history)
    for end in _all_ends(history):
        yield end if end.is_final or leading.knew(end) else end._replace(told=None)


class _Leaders:
    """Who led each partition, and when."""

    def __init__(self, history: History) -> None:
        self._changes: dict[Place, list[Leading]] = defaultdict(list)
        for event in history.of(Leading):
            self._changes[event.place].append(event)

    def knew(self, end: End) -> bool:
        """Whether it was said by one who alone led from question to answer, and has to know what others before it had
        committed: before it knows, it may show less to readers, and tells nobody that this is the end (KIP-207).

        What happens at the moment of the question may have come after it.
        """
        changes = self._changes[end.place]
        first = bisect_left(changes, end.asked_at, key=lambda change: change.at)
        if first == 0 or first != bisect_right(changes, end.at, key=lambda change: change.at):
            return False
        leading = changes[first - 1]
        if end.told_by is None:
            return len(leading.machines) == 1
        return leading.knows_end and leading.machines == (end.told_by,)


def _all_ends(history: History) -> Iterator[End]:
    for event in history.events:
        if isinstance(event, Acknowledged):
            end = event.base_offset + len(event.values)
            yield End(event.asked_at, event.at, event.place, end, None, f"acknowledged to {end} at {event.at:.3f}")
        elif isinstance(event, Polled):
            end = event.high_watermark
            words = f"{event.reader} saw the watermark {end} at {event.at:.3f}"
            yield End(event.asked_at, event.at, event.place, end, end, words, told_by=event.asked_of)
        elif isinstance(event, EndSeen):
            end = event.end_offset
            yield End(event.asked_at, event.at, event.place, end, end, f"the end was {end} at {event.at:.3f}")
        elif isinstance(event, OutOfRange):
            words = f"{event.reader} was told at {event.at:.3f} that {event.fetch_offset} is out of range"
            yield End(event.asked_at, event.at, event.place, 0, event.fetch_offset - 1, words)
        elif isinstance(event, ReadBack):
            end = event.end_offset
            words = f"read back to {end} at {event.at:.3f}"
            yield End(event.at, event.at, event.place, end, end, words, is_final=True)
