"""Judges what the members of a group told: one pure function per promise, and each returns its evidence.

Members commit what they have read and never more. At-least-once delivery then allows one thing only: what was read
after the last commit that succeeded may be read again. Everything else here is forbidden to a group and its broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.compat.members.host import Event, Place


class Read(NamedTuple):
    at: float
    offset: int


@dataclass(slots=True)
class Ownership:
    """One stretch of time in which a member had a partition."""

    member: str
    place: Place
    start: float
    end: float = float("inf")
    reads: list[Read] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.member} from {self.start:.3f} to {self.end:.3f}"


class Commit(NamedTuple):
    """An attempt; `answered_at` is None if nobody learned how it ended, and infinite if it was refused."""

    member: str
    place: Place
    offset: int
    sent_at: float
    answered_at: float | None

    @property
    def succeeded(self) -> bool:
        return self.answered_at is not None and self.answered_at != float("inf")


class Stray(NamedTuple):
    """A record that came to a member which had not been told that the partition is its own."""

    member: str
    place: Place
    read: Read


class History:
    """The events of all members, each member's in its own order, and what was there to be read."""

    def __init__(
        self, events: Iterable[Event], ends: dict[Place, int], final_commits: dict[Place, int] | None = None
    ) -> None:
        self.ends = ends
        self.final_commits = final_commits
        self.ownerships: dict[Place, list[Ownership]] = defaultdict(list)
        self.commits: dict[Place, list[Commit]] = defaultdict(list)
        self.strays: list[Stray] = []
        by_member: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            by_member[event.member].append(event)
        for member, told in by_member.items():
            self._take_in(member, told)
        for places in self.ownerships.values():
            places.sort(key=lambda each: each.start)

    def _take_in(self, member: str, told: list[Event]) -> None:
        owned: dict[Place, Ownership] = {}
        open_commit: Event | None = None
        for event in told:
            for place in event.places:
                if event.kind == "assigned" and place not in owned:
                    owned[place] = Ownership(member, place, event.at)
                    self.ownerships[place].append(owned[place])
                elif event.kind in ("revoked", "lost") and place in owned:
                    owned.pop(place).end = event.at
            for record in event.records:
                place = (record.topic, record.partition)
                if place in owned:
                    owned[place].reads.append(Read(event.at, record.offset))
                else:
                    self.strays.append(Stray(member, place, Read(event.at, record.offset)))
            if event.kind in ("left", "killed", "failed"):
                for ownership in owned.values():
                    ownership.end = event.at
                owned.clear()
            if event.kind == "committing":
                open_commit = self._give_up(open_commit, event)
            elif event.kind in ("committed", "commit_failed"):
                answered_at = event.at if event.kind == "committed" else float("inf")
                self._note(open_commit or event, answered_at)
                open_commit = None
        self._give_up(open_commit, None)

    def _give_up(self, unanswered: Event | None, following: Event | None) -> Event | None:
        if unanswered is not None:
            self._note(unanswered, None)
        return following

    def _note(self, sent: Event, answered_at: float | None) -> None:
        for place, offset in sent.offsets:
            self.commits[place].append(Commit(sent.member, place, offset, sent.at, answered_at))

    def places(self) -> Iterator[tuple[Place, list[Ownership], list[Commit]]]:
        for place in sorted({*self.ends, *self.ownerships}):
            yield place, self.ownerships.get(place, []), self.commits.get(place, [])


def lost_records(history: History) -> list[str]:
    """A record that nobody ever read."""
    found = []
    for place, ownerships, _ in history.places():
        seen = {read.offset for ownership in ownerships for read in ownership.reads}
        missing = [offset for offset in range(history.ends.get(place, 0)) if offset not in seen]
        if missing:
            found.append(f"{place}: {len(missing)} records were read by nobody, the first is {missing[0]}")
    return found


def out_of_order(history: History) -> list[str]:
    """An owner reads its partition in order and leaves nothing out."""
    return [
        f"{place}: {ownership} read {later.offset} after {earlier.offset}"
        for place, ownerships, _ in history.places()
        for ownership in ownerships
        for earlier, later in pairwise(ownership.reads)
        if later.offset != earlier.offset + 1
    ]


def two_owners(history: History) -> list[str]:
    """A partition has at most one owner at any time."""
    return [
        f"{place}: {earlier} and {later}"
        for place, ownerships, _ in history.places()
        for earlier, later in pairwise(ownerships)
        if later.start < earlier.end
    ]


def read_without_owning(history: History) -> list[str]:
    return [f"{stray.place}: {stray.member} read {stray.read.offset} and did not own it" for stray in history.strays]


def read_again_after_commit(history: History) -> list[str]:
    """Who becomes the owner begins where the group had committed, or later, never before it."""
    found = []
    for place, ownerships, commits in history.places():
        for ownership in (each for each in ownerships if each.reads):
            done = [each for each in commits if each.succeeded and (each.answered_at or 0) < ownership.start]
            highest = max(done, key=lambda each: each.offset, default=None)
            if highest is not None and ownership.reads[0].offset < highest.offset:
                first = ownership.reads[0].offset
                found.append(f"{place}: {ownership} began at {first}, {highest.member} had committed {highest.offset}")
    return found


def skipped(history: History) -> list[str]:
    """Who becomes the owner begins at a commit, or at the start of the log, never behind what anybody committed."""
    found = []
    for place, ownerships, commits in history.places():
        for ownership in (each for each in ownerships if each.reads):
            first = ownership.reads[0]
            tried = [each.offset for each in commits if each.sent_at < first.at and each.answered_at != float("inf")]
            if first.offset > max(tried, default=0):
                found.append(f"{place}: {ownership} began at {first.offset}, nobody had committed that")
    return found


def commits_went_back(history: History) -> list[str]:
    """A commit that was sent after another one had succeeded is not below it, nor is what is there in the end."""
    found = []
    for place, _, commits in history.places():
        done = sorted((each for each in commits if each.succeeded), key=lambda each: each.answered_at or 0)
        for commit in done:
            earlier = [each for each in done if (each.answered_at or 0) < commit.sent_at]
            highest = max((each.offset for each in earlier), default=0)
            if commit.offset < highest:
                found.append(f"{place}: {commit.member} committed {commit.offset} after {highest}")
        if history.final_commits is not None and done:
            last, final = max(each.offset for each in done), history.final_commits.get(place, -1)
            if final < last:
                found.append(f"{place}: in the end {final} is committed, {last} was acknowledged")
    return found


def foreign_commits(history: History) -> list[str]:
    """The broker refuses the commit of a member whose partition has gone to another."""
    found = []
    for place, ownerships, commits in history.places():
        for commit in (each for each in commits if each.succeeded):
            own = [each for each in ownerships if each.member == commit.member and each.start <= commit.sent_at]
            since = own[-1].start if own else float("-inf")
            later = [
                each for each in ownerships if each.member != commit.member and since < each.start < commit.sent_at
            ]
            if later:
                found.append(f"{place}: {commit.member} committed {commit.offset}, though {later[0]} was the owner")
    return found


CHECKERS: tuple[Callable[[History], list[str]], ...] = (
    lost_records,
    out_of_order,
    two_owners,
    read_without_owning,
    read_again_after_commit,
    skipped,
    commits_went_back,
    foreign_commits,
)


def anomalies(history: History) -> list[str]:
    return [f"{check.__name__}: {line}" for check in CHECKERS for line in check(history)]
