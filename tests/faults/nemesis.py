"""Faults drawn from a seed, one after the other or several at once, until time is over; then everything is mended.

At most one Odin is out at a time, and one broker less than there are replicas, so that the cluster can be asked to go
on. Only the choice follows from the seed: what real processes make of it does not repeat itself.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tests.faults.realm import BROKERS, ODINS, Realm

_HOLD_S = (0.3, 6.0)
"""How long a fault lasts: some are over before anybody notices, some outlast every session."""


class Nemesis:
    """Does its work in the thread that calls `run`. `tell` is told of every fault."""

    def __init__(self, realm: Realm, seed: int, tell: Callable[[str], None]) -> None:
        assert realm.links is not None
        self._realm = realm
        self._links = realm.links
        self._random = random.Random(seed)
        self._tell = tell
        self._mend: list[tuple[float, int, Callable[[], None]]] = []
        self._out: set[int] = set()
        self._hands = ThreadPoolExecutor(len((*BROKERS, *ODINS)))
        self._starting: dict[int, Future[None]] = {}
        """Nodes on their way: one that is cut off from the quorum is not up before that is mended, too."""

    def run(self, seconds: float) -> None:
        """Do faults for so long, and leave nothing broken behind."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._mend_what_is_due(time.monotonic())
            self._random.choice((self._kill, self._kill, self._pause, self._part, self._cut, self._slow))()
            threading.Event().wait(self._random.uniform(0.2, 3.0))
        self._mend_what_is_due(float("inf"))
        self._links.heal()
        for start in self._starting.values():
            start.result()
        self._hands.shutdown()

    def _victim(self) -> int | None:
        """Somebody who may be missed now."""
        odins = [] if self._out & set(ODINS) else list(ODINS)
        brokers = [one for one in BROKERS if one not in self._out] if len(self._out & set(BROKERS)) < 2 else []
        candidates = odins + brokers
        return self._random.choice(candidates) if candidates else None

    def _kill(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._tell(f"kill {victim}")
            self._realm.kill(victim)
            self._later(victim, lambda: self._start(victim))

    def _pause(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._tell(f"pause {victim}")
            self._realm.faults += 1
            self._realm.cluster.pause(victim)
            self._later(victim, lambda: self._realm.cluster.resume(victim))

    def _part(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._tell(f"cut off {victim}")
            self._realm.faults += 1
            self._links.part((victim,), (*BROKERS, *ODINS))
            self._later(victim, self._links.heal)

    def _cut(self) -> None:
        """One way, between two of them."""
        victim = self._victim()
        if victim is not None:
            other = self._random.choice([one for one in (*BROKERS, *ODINS) if one != victim])
            self._tell(f"cut {victim} -> {other}")
            self._realm.faults += 1
            self._links.cut(victim, other)
            self._later(victim, self._links.heal)

    def _slow(self) -> None:
        source, target = self._random.sample((*BROKERS, *ODINS), 2)
        delay_s = self._random.uniform(0.01, 0.3)
        self._tell(f"slow {source} -> {target} by {delay_s:.2f} s")
        self._realm.faults += 1
        self._links.slow(source, target, delay_s)

    def _later(self, victim: int, mend: Callable[[], None]) -> None:
        self._out.add(victim)
        self._mend.append((time.monotonic() + self._random.uniform(*_HOLD_S), victim, mend))

    def _start(self, victim: int) -> None:
        self._starting[victim] = self._hands.submit(self._realm.start, victim)

    def _mend_what_is_due(self, now: float) -> None:
        for victim in [one for one, start in self._starting.items() if start.done()]:
            self._starting.pop(victim).result()
            self._out.discard(victim)
        due = [each for each in self._mend if each[0] <= now]
        self._mend = [each for each in self._mend if each[0] > now]
        for _, victim, mend in due:
            self._tell(f"mend {victim}")
            mend()
            if victim not in self._starting:
                self._out.discard(victim)
