"""A quorum of cores and one observer on a heap of events: `simulate(seed)` plays a run and says what was wrong.

The cores are the real ones, `driver.py` does what they ask for, `nemesis.py` disturbs, `judge.py` watches. A client
appends numbers wherever somebody leads. Everything that is chosen comes from the seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from bifrost.errors import StorageError
from bifrost.raft.core.messages import ElectionState
from bifrost.types import NodeId
from tests.sim.anomaly import Anomaly
from tests.sim.quorum import invariants
from tests.sim.quorum.driver import Driver
from tests.sim.quorum.host import NEVER, Host, drawn_hosts
from tests.sim.quorum.judge import Broken, Judge
from tests.sim.quorum.nemesis import Nemesis
from tests.sim.quorum.network import Network
from tests.unit.raft.members import Entry, ListLog

OBSERVER: Final = NodeId(9)
APPEND_MS: Final = 150
QUIET_MS: Final = 40_000
"""Longer than any election takes when nothing is wrong."""
LOOK_MS: Final = 200

Event = tuple[float, int, Callable[..., None], tuple[Any, ...]]


class Outcome(NamedTuple):
    """What came of a run. Two runs of one seed are equal."""

    anomaly: Anomaly | None
    steps: int
    virtual_ms: float
    committed: list[Entry]
    seen: dict[str, int]


class World:
    def __init__(
        self, seed: int, faults: tuple[str, ...] | None, only: str | None, tell: Callable[[str], None] | None
    ) -> None:
        self.rng = Random(seed)
        self.tell = tell
        self.now_ms = 0.0
        self.steps = 0
        self.hosts = drawn_hosts(self.rng.choice((3, 3, 5)), OBSERVER)
        self.voters = tuple(me for me in self.hosts if me != OBSERVER)
        self.fetch_entries_max = self.rng.choice((1, 2, 5, 100))
        self.network = Network(self.rng)
        self.judge = Judge(self.hosts, self.voters, only)
        self._events: list[Event] = []
        self._order = 0
        self._appended = 0
        self.driver = Driver(self)
        self._nemesis = Nemesis(self, faults)

    def play(self) -> Anomaly | None:
        try:
            for host in self.hosts.values():
                self.after(self.rng.random() * 100, self.start, host)
            self.after(0, self._append)
            self._nemesis.begin()
            self._run_until(self._nemesis.ends_at_ms)
            self._nemesis.heal()
            self._run_until(self.now_ms + QUIET_MS, enough=lambda: self._ailment() is None)
            self.judge.check(self._ailment())
            self.judge.ends()
        except Broken as broken:
            return broken.anomaly
        except StorageError as error:
            return Anomaly("taken back", "quorum", str(error))
        return None

    def after(self, delay_ms: float, action: Callable[..., None], *args: Any) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._order, action, args))

    def _run_until(self, end_ms: float, enough: Callable[[], bool] | None = None) -> None:
        events, looked_ms = self._events, self.now_ms
        while events[0][0] < end_ms:
            self.now_ms, _, action, args = heapq.heappop(events)
            self.steps += 1
            if self.tell is not None:
                self.tell(f"{self.now_ms:9.1f}  {action.__name__.strip('_')} {' '.join(map(_word, args))}")
            action(*args)
            if enough is not None and self.now_ms > looked_ms + LOOK_MS:
                looked_ms = self.now_ms
                if enough():
                    return

    # What happens to a machine

    def start(self, host: Host) -> None:
        if host.core is None and self.now_ms > host.repaired_at_ms - 1:  # less than that may come of adding
            self.driver.start(host)

    def crash(self, host: Host) -> None:
        """What was not synced is gone, and some of the others notice that nobody listens there any more."""
        self.judge.seen["crashes"] += 1
        host.life += 1
        host.core = host.role = host.dies = None
        host.content_since_ms = host.asking_since_ms = host.tick_at_ms = NEVER
        host.is_syncing = False
        host.log.crash()
        self._nemesis.died(host)

    def wipe(self, host: Host, repaired_in_ms: float) -> None:
        """Its disk is gone, and it takes a while to get another."""
        self.judge.seen["disks lost"] += 1
        self.crash(host)
        host.log, host.stored, host.disk = ListLog(), ElectionState(), host.disk + 1
        host.repaired_at_ms = self.now_ms + repaired_in_ms

    def begin_anew(self, host: Host) -> None:
        """Its log cannot be read: it is set aside, and only the vote is kept."""
        self.judge.seen["logs damaged"] += 1
        self.crash(host)
        host.log, host.disk = ListLog(), host.disk + 1
        host.stored = host.stored._replace(is_newborn=True)

    def refuse(self, sender: Host, host: Host) -> None:
        """A message came to a machine where nothing runs."""
        self._nemesis.refused(sender, host)

    # The client

    def _append(self) -> None:
        leading = [host for host in self.hosts.values() if host.core is not None and host.core.leads]
        if leading:
            host = self.rng.choice(leading)
            assert host.core is not None
            self._appended += 1
            self.driver.append(host, [Entry(host.core.epoch, str(self._appended))])
            self.driver.sync(host)
        if self.now_ms < self._nemesis.ends_at_ms:
            self.after(self.rng.random() * APPEND_MS, self._append)

    def _ailment(self) -> Anomaly | None:
        """What keeps the quorum from being healed."""
        leading = [host for host in self.hosts.values() if host.core is not None and host.core.leads]
        leader = max(leading, key=lambda host: host.stored.epoch, default=None)
        watermarks = {me: None if host.core is None else host.watermark for me, host in self.hosts.items()}
        if leader is None:
            return invariants.healed(None, 0, watermarks)
        return invariants.healed(leader.me, leader.log.end_offset, watermarks)


def simulate(
    seed: int,
    *,
    faults: tuple[str, ...] | None = None,
    only: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Outcome:
    """One run, to its end or to the first anomaly: of any kind, or of the only one that is looked for."""
    world = World(seed, faults, only, tell)
    anomaly = world.play()
    return Outcome(anomaly, world.steps, world.now_ms, world.judge.committed, dict(world.judge.seen))


def _word(value: object) -> str:
    return f"node={value.me}" if isinstance(value, Host) else str(value)
