"""Judges what a history tells about consumer groups, as `checkers` does for the rest.

With `flush.policy=os` a loss of power may take back what groups and members were told. Then nothing is expected of a
member that still goes by what it was told before, and of committed offsets only that one of them came through.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf
from typing import NamedTuple

from bifrost.types import TopicPartition
from tests.sim.anomaly import Anomaly
from tests.sim.crowd.events import (
    NO_OFFSET,
    GenerationBegun,
    Holds,
    OffsetCommitted,
    OffsetSeen,
    Peace,
    Settled,
    Unanswered,
)
from tests.sim.history import History

Register = tuple[str, TopicPartition]
"""A group and a partition: what it has committed there."""


class Span(NamedTuple):
    """A member holds a partition from one moment to the next."""

    start: float
    end: float
    member: str


def two_owners(history: History) -> list[Anomaly]:
    """A partition that two members were told to read in one generation or epoch."""
    owners: dict[tuple[str, int, int, TopicPartition], str] = {}
    found = []
    for era, event in _trusted(history):
        for partition in sorted(event.partitions):
            first = owners.setdefault((event.group, era, event.epoch, partition), event.member)
            if first != event.member:
                detail = f"{partition} is of {first} and of {event.member} at {event.at:.3f}, both in {event.epoch}"
                found.append(Anomaly("two owners", event.group, detail))
    return found


def shared_partitions(history: History) -> list[Anomaly]:
    """A partition that somebody was told to read before the one who reads it gave it up or could be thought dead."""
    spans: dict[Register, list[Span]] = defaultdict(list)
    for span, event in _spans(history):
        for partition in event.partitions:
            spans[event.group, partition].append(span)
    found = []
    for (group, partition), those in sorted(spans.items()):
        last: Span | None = None
        for span in sorted(those):
            if last is not None and last.member != span.member and span.start < last.end:
                detail = f"{partition} is of {last.member} until {last.end:.3f}, of {span.member} at {span.start:.3f}"
                found.append(Anomaly("shared partition", group, detail))
            if last is None or span.end > last.end:
                last = span
    return found


def unowned_partitions(history: History) -> list[Anomaly]:
    """A group that has come to rest, and reads a partition never or twice."""
    found = []
    for event in history.of(Settled):
        for partition in sorted(event.wanted):
            owners = [member for member, held in event.holders if partition in held]
            if len(owners) != 1:
                detail = f"{partition} has the owners {owners} at {event.at:.3f}, when all was quiet"
                found.append(Anomaly("unowned partition", event.group, detail))
    return found


def stale_commits(history: History) -> list[Anomaly]:
    """A commit that was taken from a generation that is over, or for a partition that was given up since."""
    era = history.eras()
    begun: dict[tuple[str, int], list[GenerationBegun]] = defaultdict(list)
    held: dict[tuple[str, int], list[Holds]] = defaultdict(list)
    for generation in history.of(GenerationBegun):
        when = era(generation.since, generation.at)
        if when is not None:
            begun[generation.group, when].append(generation)
    for number, event in _trusted(history):
        held[event.group, number].append(event)
    found = []
    for commit in history.of(OffsetCommitted):
        when = era(commit.asked_at, commit.at)
        if commit.outcome != "done" or commit.epoch < 0 or when is None:
            continue
        over = [
            f"generation {g.generation} began at {g.at:.3f}" for g in begun[commit.group, when] if _is_over(commit, g)
        ]
        over += [
            f"{h.member} held {', '.join(map(str, sorted(h.partitions)))} in {h.epoch} at {h.at:.3f}"
            for h in held[commit.group, when]
            if h.epoch > commit.epoch and h.at <= commit.asked_at and _is_another_s(commit, h)
        ]
        if over:
            found.append(Anomaly("stale commit", commit.group, f"{commit}, but {over[0]}"))
    return found


def lost_commits(history: History) -> list[Anomaly]:
    """A committed offset that is not the last one, or cannot be: it went back, was refused, or came from nowhere.

    Each group and partition is a register. No value is written twice, so whether all that was seen has an order is
    easily told (Gibbons and Korach: Testing shared memories, 1997): a value is there from the first moment at which it
    must have been there to the last; no two values may claim one moment, and no write may begin and end in between.
    """
    commits: dict[Register, list[OffsetCommitted]] = defaultdict(list)
    seen: dict[Register, list[OffsetSeen]] = defaultdict(list)
    for commit in history.of(OffsetCommitted):
        commits[commit.group, commit.partition].append(commit)
    for read in history.of(OffsetSeen):
        seen[read.group, read.partition].append(read)
    found = []
    for register in sorted({*commits, *seen}):
        where = f"{register[0]} for {register[1]}"
        evidence = _judge_register(history, commits[register], seen[register])
        found += [Anomaly("lost commit", where, each) for each in evidence]
    return found


def unanswered_requests(history: History) -> list[Anomaly]:
    """A request that was neither answered nor its connection closed, when nothing disturbed anybody."""
    quiet = min((event.at for event in history.of(Peace)), default=inf)
    return [
        Anomaly("unanswered", event.client, f"{event.request} asked at {event.asked_at:.3f}")
        for event in history.of(Unanswered)
        if event.asked_at >= quiet
    ]


GROUP_CHECKERS: tuple[Callable[[History], list[Anomaly]], ...] = (
    two_owners,
    shared_partitions,
    unowned_partitions,
    stale_commits,
    lost_commits,
    unanswered_requests,
)


def _is_over(commit: OffsetCommitted, begun: GenerationBegun) -> bool:
    return commit.epoch < begun.generation and begun.at <= commit.asked_at


def _is_another_s(commit: OffsetCommitted, held: Holds) -> bool:
    """Whether whoever commits did not have the partition then, or somebody else did."""
    return (held.member == commit.member) != (commit.partition in held.partitions)


def _trusted(history: History) -> Iterator[tuple[int, Holds]]:
    """What members held, with its era, less what they were told before a loss of power that may have taken it back."""
    era, losses = history.eras(), history.losses()
    last: dict[tuple[str, str], tuple[int, int]] = {}  # era and epoch of each member
    doubtful: dict[tuple[str, str], int] = {}
    for event in history.of(Holds):
        member, now = (event.group, event.member), bisect_right(losses, event.at)
        then, epoch = last.get(member, (now, event.epoch))
        last[member] = now, event.epoch
        if then != now:
            doubtful[member] = epoch
        if doubtful.get(member, event.epoch + 1) != event.epoch and era(event.since, event.at) is not None:
            doubtful.pop(member, None)
            yield now, event


def _spans(history: History) -> Iterator[tuple[Span, Holds]]:
    losses = history.losses()
    trusted = {event for _, event in _trusted(history)}
    ends: dict[tuple[str, str], float] = {}
    for event in reversed(list(history.of(Holds))):
        end = min(event.until, ends.get((event.group, event.member), inf))
        ends[event.group, event.member] = event.at
        end = min([end, *(loss for loss in losses if loss >= event.at)])
        if event in trusted and end > event.at:
            yield Span(event.at, end, event.member), event


class Zone:
    """When a value must have been there: from `first`, the end of the first that knew it, to `last`."""

    def __init__(self, offset: int, asked_at: float, at: float) -> None:
        self.offset = offset
        self.first = at
        self.last = asked_at

    def add(self, asked_at: float, at: float) -> None:
        self.first = min(self.first, at)
        self.last = max(self.last, asked_at)

    def __str__(self) -> str:
        return f"{self.offset} ({self.first:.3f}, {self.last:.3f})"


def _judge_register(history: History, commits: list[OffsetCommitted], reads: list[OffsetSeen]) -> Iterator[str]:
    """By era: in each, the offsets of the ones before are as good as one that was committed at its start."""
    era, losses = history.eras(), history.losses()
    written = {commit.offset: commit for commit in commits if commit.outcome != "refused"}
    zones: dict[int, dict[int, Zone]] = defaultdict(dict)
    for commit in written.values():
        when = bisect_right(losses, commit.asked_at)
        certain = commit.outcome == "done" and era(commit.asked_at, commit.at) is not None
        zones[when][commit.offset] = Zone(commit.offset, commit.asked_at, commit.at if certain else inf)
    for read in reads:
        origin = written.get(read.offset)
        if origin is None and read.offset != NO_OFFSET:
            refused = [str(commit) for commit in commits if commit.offset == read.offset]
            yield f"{read.reader} saw {read.offset} at {read.at:.3f}, {refused[0] if refused else 'of nobody'}"
            continue
        then = era(read.asked_at, read.at)
        if origin is not None and origin.asked_at > read.at:
            yield f"{read.reader} saw {read.offset} at {read.at:.3f}, before it was committed"
        elif then is not None:
            start = losses[then - 1] if then else -inf
            zones[then].setdefault(read.offset, Zone(read.offset, -inf, start)).add(read.asked_at, read.at)
    for era_zones in zones.values():
        yield from _contradictions(list(era_zones.values()))


def _contradictions(zones: list[Zone]) -> Iterator[str]:
    lasting = sorted((zone for zone in zones if zone.first < zone.last), key=lambda zone: zone.first)
    for earlier, later in pairwise(lasting):
        if later.first < earlier.last:
            yield f"{earlier} and {later} were both the last one committed"
    for zone in zones:
        for other in lasting:
            if zone.first >= zone.last and other.first < zone.last and zone.first < other.last:
                yield f"{zone.offset} was committed from {zone.last:.3f} to {zone.first:.3f}, amid {other}"
