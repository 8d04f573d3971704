"""Requests that wait for an offset: produce for its acknowledgement, fetch for data. Hot path 8/9.

A waiter is woken by the event it waits for, never by polling. Deadlines of produce requests are almost never reached,
so they share one timer, which runs only while somebody waits; a fetch often does wait out its time and has its own.

Must never: keep a waiter whose connection is gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from bifrost.replication.partition import Partition
from bifrost.types import TopicPartition

_SWEEP_S = 0.25


class AckWaiter(Protocol):
    """A produce request that waits for one or more partitions."""

    deadline: float

    def on_progress(self, partition: Partition, slot: int, next_offset: int) -> bool:
        """The partition moved; True when its part of the request, in `slot`, is settled."""
        ...

    def on_deadline(self) -> None: ...


class FetchWaiter(Protocol):
    """A fetch request that waits for data in any of its partitions."""

    def on_progress(self, partition: Partition) -> None: ...


class Waiters:
    """Everything that waits on this node, by partition."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sweep: asyncio.TimerHandle | None = None
        self._acks: dict[TopicPartition, deque[tuple[int, AckWaiter, int]]] = {}
        self._fetches: dict[TopicPartition, dict[FetchWaiter, None]] = {}
        self._deadlines: dict[AckWaiter, None] = {}
        self._moved: deque[Partition] = deque()
        self._waking = False

    def park_ack(self, tp: TopicPartition, next_offset: int, waiter: AckWaiter, slot: int) -> None:
        self._acks.setdefault(tp, deque()).append((next_offset, waiter, slot))
        self._deadlines[waiter] = None
        if self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)

    def settled(self, waiter: AckWaiter) -> None:
        """Nothing of this request waits any more."""
        self._deadlines.pop(waiter, None)

    def park_fetch(self, tp: TopicPartition, waiter: FetchWaiter) -> None:
        self._fetches.setdefault(tp, {})[waiter] = None

    def unpark_fetch(self, tp: TopicPartition, waiter: FetchWaiter) -> None:
        waiting = self._fetches.get(tp)
        if waiting is not None:
            waiting.pop(waiter, None)
            if not waiting:
                del self._fetches[tp]

    def wake(self, partition: Partition) -> None:
        """The partition's high watermark moved, or its leadership did.

        Whoever is answered may start a request that moves a partition in turn. That wake-up waits for this one to end:
        thousands of connections may each bring such a request, and the stack is not as deep.
        """
        self._moved.append(partition)
        if self._waking:
            return
        self._waking = True
        try:
            while self._moved:
                self._wake(self._moved.popleft())
        finally:
            self._waking = False

    def _wake(self, partition: Partition) -> None:
        acks = self._acks.get(partition.tp)
        while acks:
            next_offset, waiter, slot = acks[0]
            if not waiter.on_progress(partition, slot, next_offset):
                break  # later ones wait for later offsets
            acks.popleft()
        fetches = self._fetches.get(partition.tp)
        if fetches:
            for fetch in list(fetches):
                if fetch in fetches:
                    fetch.on_progress(partition)

    def _expire(self) -> None:
        """Settle the produce requests whose time is over."""
        self._sweep = None
        now = self._loop.time()
        for waiter in [waiter for waiter in self._deadlines if waiter.deadline <= now]:
            del self._deadlines[waiter]
            waiter.on_deadline()
        if self._deadlines:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)

    def forget(self, tp: TopicPartition) -> None:
        """The partition is gone; `wake` has told those who waited."""
        self._acks.pop(tp, None)
        self._fetches.pop(tp, None)

    def __len__(self) -> int:
        return len(self._deadlines) + sum(map(len, self._fetches.values()))
