"""What must hold of the copies of a partition at every step, whatever happens to the machines that keep them.

A batch is committed when any replica says so, by its high watermark. From then on it is the same for everybody, for
ever: whoever says of that offset that it is committed holds the same bytes, whoever leads later has them, those in sync
have them on disk, and clients are told of nothing else. Knows only what it was told (`watching_copies.py`), says which
promise was broken and by what, and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

Key = tuple[str, int]
"""A topic's id and a partition's number."""


class Batch(NamedTuple):
    """Bytes of a log, as one replica has them."""

    base_offset: int
    end_offset: int
    data: bytes


class Copy:
    """The log of one replica in one life of its node."""

    __slots__ = ("batches", "high_watermark")

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self.batches = list(batches)
        self.high_watermark = 0

    def between(self, start: int, end: int) -> list[Batch]:
        return _between(self.batches, start, end)

    def cut(self, offset: int) -> None:
        """Every batch that reaches it is gone."""
        del self.batches[bisect_right(self.batches, offset, key=attrgetter("end_offset")) :]


class CopyJudge:
    def __init__(self, on_broken: Callable[[str, str], None], is_alive: Callable[[str], bool]) -> None:
        self.seen: Counter[str] = Counter()
        """What happened how often: a run in which nothing happens proves nothing."""
        self._on_broken = on_broken
        self._is_alive = is_alive
        self._copies: dict[tuple[str, Key], Copy] = {}  # by life
        self._committed: dict[Key, list[Batch]] = {}
        self._led: dict[tuple[Key, int], str] = {}  # by leader epoch
        self._leading: dict[Key, list[str]] = {}  # lives that take themselves for the leader
        self._contested_at: dict[Key, float] = {}  # when there were last two of them

    def _check(self, holds: bool, kind: str, detail: str) -> None:
        if not holds:
            self._on_broken(kind, detail)

    def committed(self, key: Key) -> Sequence[Batch]:
        return self._committed.get(key, ())

    def held(self, life: str, key: Key) -> Sequence[Batch]:
        """What a replica has, or had when its node's life ended."""
        copy = self._copies.get((life, key))
        return () if copy is None else copy.batches

    def _end(self, key: Key) -> int:
        batches = self.committed(key)
        return batches[-1].end_offset if batches else 0

    # What a replica holds

    def opens(self, life: str, key: Key, batches: Iterable[Batch], high_watermark: int) -> None:
        """A node has started, or hosts one partition more."""
        self._copies[life, key] = Copy(batches)
        self.shows(life, key, high_watermark)

    def writes(self, life: str, key: Key, batches: Iterable[Batch]) -> None:
        copy = self._copies[life, key]
        for batch in batches:
            last = copy.batches[-1].end_offset if copy.batches else 0
            self._check(batch.base_offset >= last, "written twice", f"{life} wrote {batch[:2]} after {last} to {key}")
            copy.batches.append(batch)

    def cuts(self, life: str, key: Key, offset: int) -> None:
        """What this replica has called committed is not cut off."""
        self.seen["cuts"] += 1
        copy = self._copies[life, key]
        detail = f"{life} cuts {key} at {offset}, {copy.high_watermark} was committed"
        self._check(offset >= copy.high_watermark, "committed and cut", detail)
        copy.cut(offset)

    # What it says

    def shows(self, life: str, key: Key, high_watermark: int) -> None:
        """Equal offsets below high watermarks are equal bytes."""
        copy = self._copies[life, key]
        known, copy.high_watermark = copy.high_watermark, high_watermark
        self._check(known <= high_watermark, "watermark went back", f"of {key} on {life}: {known}, {high_watermark}")
        if high_watermark <= known:
            return
        own = copy.between(known, high_watermark)
        end = own[-1].end_offset if own else known
        self._check(end == high_watermark, "committed, not held", f"{life} has {key} to {end}, shows {high_watermark}")
        committed = self._committed.setdefault(key, [])
        others = _between(committed, known, high_watermark)
        for mine, theirs in zip(own, others):
            self._check(mine == theirs, "copies differ", f"{life} has {mine[:2]} of {key}, others {theirs[:2]}")
        committed += own[len(others) :]

    def commits(self, life: str, key: Key, known: int, holds: Callable[[bytes], list[int]], needed: set[int]) -> None:
        """A leader has moved its high watermark: all who may lead after it have on disk what it now calls safe."""
        self.seen["commits"] += 1
        copy = self._copies[life, key]
        for batch in copy.between(known, copy.high_watermark):
            holders = holds(batch.data)
            detail = f"{life} commits {batch[:2]} of {key}, which {holders} of {sorted(needed)} hold durably"
            self._check(needed <= set(holders), "not on every disk", detail)

    def leads(self, life: str, key: Key, epoch: int, now: float) -> None:
        """One leader in an epoch, and it has all that was ever committed."""
        self.seen["partition leaders"] += 1
        first = self._led.setdefault((key, epoch), life)
        self._check(first == life, "two partition leaders", f"{first} and {life} lead {key} in epoch {epoch}")
        if life not in self._leading.setdefault(key, []):
            self._leading[key].append(life)
        self._is_contested(key, now)
        own = {batch.base_offset: batch for batch in self._copies[life, key].batches}
        for batch in self.committed(key):
            detail = f"{life} leads {key} in epoch {epoch} without {batch[:2]}, which was committed"
            self._check(own.get(batch.base_offset) == batch, "leader lacks committed", detail)

    def resigns(self, life: str, key: Key, now: float) -> None:
        self._is_contested(key, now)
        if life in self._leading.get(key, []):
            self._leading[key].remove(life)

    def _is_contested(self, key: Key, now: float) -> bool:
        """Whether somebody has not heard yet that another one leads."""
        leading = self._leading.get(key, [])
        if len(leading) > 1:
            self._contested_at[key] = now
        leading[:] = [life for life in leading if self._is_alive(life)]
        return len(leading) > 1

    # What clients are told

    def acknowledges(self, key: Key, end_offset: int) -> None:
        self.seen["acknowledged"] += 1
        detail = f"{key} to {end_offset}, committed is {self._end(key)}"
        self._check(end_offset <= self._end(key), "acknowledged too early", detail)

    def is_read(self, key: Key, end_offset: int) -> None:
        detail = f"{key} to {end_offset}, committed is {self._end(key)}"
        self._check(end_offset <= self._end(key), "read too early", detail)

    def is_out_of_range(self, key: Key, offset: int, asked_at: float, now: float) -> None:
        """A reader that asks for the end, or for less, is told that there is no such offset. Only somebody who leads no
        more, and has not heard so, may say that to a reader that does not name the epoch it knows (KIP-320)."""
        if not self._is_contested(key, now) and self._contested_at.get(key, -1.0) < asked_at:
            detail = f"{offset} of {key} is said to be out of range, committed is {self._end(key)}"
            self._check(offset > self._end(key), "false end", detail)


def _between(batches: list[Batch], start: int, end: int) -> list[Batch]:
    first = bisect_left(batches, start, key=attrgetter("base_offset"))
    return batches[first : bisect_right(batches, end, key=attrgetter("end_offset"))]
