"""Requests that wait for an offset: produce for its acknowledgement, fetch for data. Hot path 8/9.

Who waits for all in-sync replicas (acks=all) and who waits for this node's disk alone (acks=1) stand in two lines. A
line is in the order of offsets, which is the order of arrival but for batches that a producer repeats.

A waiter is woken by the event it waits for, never by polling. Deadlines of produce requests are almost never reached,
so they share one timer, which runs only while somebody waits; a fetch often does wait out its time and has its own.

Must never: keep a waiter whose connection is gone, or a place in line for one whose time was over.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from typing import Protocol

from bifrost.replication.partition import ACKS_ALL, Partition
from bifrost.types import TopicPartition

_SWEEP_S = 0.25

_Line = deque[tuple[int, "AckWaiter", int]]
"""The offset that is waited for, who waits, and in which slot."""


class AckWaiter(Protocol):
    """A produce request that waits for one or more partitions."""

    deadline: float

    def on_progress(self, partition: Partition, slot: int, next_offset: int) -> bool:
        """The partition moved; True when its part of the request, in `slot`, is settled."""
        ...

    def on_deadline(self) -> None: ...


class Looker(Protocol):
    """A fetch that waits for data in any of its partitions, or whoever waits until replicas have deleted records."""

    def on_progress(self, partition: Partition) -> None: ...


_Lookers = dict[TopicPartition, dict[Looker, None]]


class Waiters:
    """Everything that waits on this node, by partition."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sweep: asyncio.TimerHandle | None = None
        self._acks: dict[TopicPartition, _Line] = {}
        self._local_acks: dict[TopicPartition, _Line] = {}
        self._fetches: _Lookers = {}
        self._deletions: _Lookers = {}
        self._deadlines: dict[AckWaiter, None] = {}
        self._moved: deque[tuple[Partition, bool]] = deque()
        self._waking = False

    def park_ack(
        self, tp: TopicPartition, next_offset: int, waiter: AckWaiter, slot: int, *, acks: int = ACKS_ALL
    ) -> None:
        lines = self._acks if acks == ACKS_ALL else self._local_acks
        line = lines.setdefault(tp, deque())
        if line and line[-1][0] > next_offset:  # a batch that was repeated: those behind it are not safe before it is
            line.insert(bisect_right(line, next_offset, key=_offset), (next_offset, waiter, slot))
        else:
            line.append((next_offset, waiter, slot))
        self._deadlines[waiter] = None
        if self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)

    def settled(self, waiter: AckWaiter) -> None:
        """Nothing of this request waits any more."""
        self._deadlines.pop(waiter, None)

    def park_fetch(self, tp: TopicPartition, waiter: Looker) -> None:
        self._fetches.setdefault(tp, {})[waiter] = None

    def unpark_fetch(self, tp: TopicPartition, waiter: Looker) -> None:
        _unpark(self._fetches, tp, waiter)

    def park_deletion(self, tp: TopicPartition, waiter: Looker) -> None:
        self._deletions.setdefault(tp, {})[waiter] = None

    def unpark_deletion(self, tp: TopicPartition, waiter: Looker) -> None:
        _unpark(self._deletions, tp, waiter)

    def wake(self, partition: Partition, *, is_readable: bool = True) -> None:
        """The partition's high watermark moved, or another node leads it: all look again.

        Whoever is answered may start a request that moves a partition in turn. That wake-up waits for this one to end:
        thousands of connections may each bring such a request, and the stack is not as deep.
        """
        self._moved.append((partition, is_readable))
        if self._waking:
            return
        self._waking = True
        try:
            while self._moved:
                self._wake(*self._moved.popleft())
        finally:
            self._waking = False

    def nudge(self, partition: Partition) -> None:
        """This node's disk has synced, or a replica has deleted records. Readers sleep on: what the leader's disk has
        before those of its followers is not theirs yet, and that is almost every write under `flush.policy=ack`."""
        self.wake(partition, is_readable=False)

    def _wake(self, partition: Partition, is_readable: bool) -> None:
        tp = partition.tp
        for line in (self._acks.get(tp) if is_readable else None, self._local_acks.get(tp)):
            while line:
                entry = line.popleft()  # before others may take a place: its answer lets requests begin
                next_offset, waiter, slot = entry
                if not waiter.on_progress(partition, slot, next_offset):
                    line.appendleft(entry)
                    break  # later ones wait for later offsets
        for lookers in (self._fetches.get(tp) if is_readable else None, self._deletions.get(tp)):
            if lookers:
                for looker in list(lookers):
                    if looker in lookers:
                        looker.on_progress(partition)

    def _expire(self) -> None:
        """Settle the produce requests whose time is over."""
        self._sweep = None
        now = self._loop.time()
        late = [waiter for waiter in self._deadlines if waiter.deadline <= now]
        for waiter in late:
            if waiter in self._deadlines:  # an answer before may have let a request begin that settled it
                del self._deadlines[waiter]
                waiter.on_deadline()
        if late:
            self._tidy(self._acks)
            self._tidy(self._local_acks)
        if self._deadlines:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)

    def _tidy(self, lines: dict[TopicPartition, _Line]) -> None:
        """Let those go whose time was over: a partition that does not move would keep every repetition."""
        for tp, line in lines.items():
            if any(waiter not in self._deadlines for _, waiter, _ in line):
                lines[tp] = deque(entry for entry in line if entry[1] in self._deadlines)

    def forget(self, tp: TopicPartition) -> None:
        """The partition is gone; `wake` has told those who waited."""
        self._acks.pop(tp, None)
        self._local_acks.pop(tp, None)
        self._fetches.pop(tp, None)
        self._deletions.pop(tp, None)

    def __len__(self) -> int:
        return len(self._deadlines) + sum(map(len, (*self._fetches.values(), *self._deletions.values())))


def _unpark(lookers: _Lookers, tp: TopicPartition, waiter: Looker) -> None:
    waiting = lookers.get(tp)
    if waiting is not None:
        waiting.pop(waiter, None)
        if not waiting:
            del lookers[tp]


def _offset(entry: tuple[int, AckWaiter, int]) -> int:
    return entry[0]
