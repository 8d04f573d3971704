"""What goes wrong, drawn from the seed: only some kinds in each run, and each for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bifrost.types import NodeId
from tests.sim.quorum.driver import TIMING
from tests.sim.quorum.host import Host

if TYPE_CHECKING:
    from tests.sim.quorum.world import World

FAULTS: Final = (
    "crash",
    "die_while_keeping",
    "cut_the_power",
    "cut_one_way",
    "isolate",
    "shake_the_network",
    "slow_a_disk",
    "resign",
    "compact",
    "spread_a_rumour",
    "lose_a_disk",
    "find_damage",
)
PAUSES_MS: Final = (10, 50, 100, 200, 400, 800, 2_500)
LASTS_MS: Final = (50, 300, 1_000, 3_000, 6_000)
REPAIR_MS: Final = 2 * TIMING.election_timeout_ms
"""To replace a disk takes longer than any candidate waits for a vote that was given on the disk before."""
CATCHING_UP_MS: Final = 1_000
"""About how long it takes to fetch what is missing on a new disk."""


class Nemesis:
    """Strikes until `ends_at_ms`, and then lets everybody recover."""

    def __init__(self, world: World, faults: tuple[str, ...] | None) -> None:
        self._world = world
        self._rng = rng = world.rng
        drawn = tuple(rng.sample(FAULTS, rng.randint(1, len(FAULTS))))
        self._faults: list[Callable[[Host], None]] = [getattr(self, f"_{name}") for name in faults or drawn]
        self._notices = rng.choice((0.0, 0.5, 0.95))
        self.ends_at_ms = rng.choice((3_000, 10_000, 20_000))
        self._is_over = False

    def begin(self) -> None:
        if self._slow_a_disk in self._faults:
            for host in self._world.hosts.values():
                self._slow_a_disk(host)
        self._world.after(0, self._strike)

    def heal(self) -> None:
        """From now on nothing goes wrong; a machine that waits for a disk comes back when it has one."""
        world = self._world
        self._is_over = True
        world.network.heal()
        for host in world.hosts.values():
            host.disk_ms, host.dies = 0, None
            world.after(max(host.repaired_at_ms - world.now_ms, 0), world.start, host)

    def died(self, host: Host) -> None:
        """Most of the others see that nobody listens there; some see it late, when it may be back, and some never."""
        for other in self._world.hosts.values():
            if other is not host and other.core is not None:
                self.refused(other, host)
        self._later(self._world.start, host)

    def refused(self, sender: Host, host: Host) -> None:
        if sender.core is not None and self._rng.random() < self._notices:
            delay_ms = self._rng.random() * (20 if self._rng.random() < 0.9 else 4_000)
            self._world.after(delay_ms, self._notice, sender, sender.life, host.me)

    def _notice(self, host: Host, life: int, peer: NodeId) -> None:
        if host.core is not None and host.life == life:
            self._world.driver.run(host, host.core.on_peer_dead(peer, self._world.now_ms))

    # Faults

    def _strike(self) -> None:
        world, rng = self._world, self._rng
        if self._is_over or world.now_ms >= self.ends_at_ms:
            return
        alive = [host for host in world.hosts.values() if host.core is not None]
        if alive:
            leading = [host for host in alive if host.core is not None and host.core.leads]
            rng.choice(self._faults)(rng.choice(leading if leading and rng.random() < 0.4 else alive))
        world.after(rng.random() * rng.choice(PAUSES_MS), self._strike)

    def _later(self, action: Callable[..., None], *args: Any) -> None:
        self._world.after(self._rng.random() * self._rng.choice(LASTS_MS), action, *args)

    def _crash(self, host: Host) -> None:
        self._world.crash(host)

    def _die_while_keeping(self, host: Host) -> None:
        host.dies = self._rng.choice(("before", "after"))

    def _cut_the_power(self, _: Host) -> None:
        for host in self._world.hosts.values():
            if host.core is not None and self._rng.random() < 0.7:
                self._world.crash(host)

    def _cut_one_way(self, host: Host) -> None:
        other = self._rng.choice([other for other in self._world.hosts if other != host.me])
        self._cut([self._rng.choice(((host.me, other), (other, host.me)))])

    def _isolate(self, host: Host) -> None:
        """From all others, or from two of them; both ways, or one."""
        others = [other for other in self._world.hosts if other != host.me]
        others = others if self._rng.random() < 0.5 else self._rng.sample(others, 2)
        out, back = self._rng.choice(((True, True), (True, True), (True, False), (False, True)))
        ways = [(host.me, other) for other in others] if out else []
        self._cut(ways + ([(other, host.me) for other in others] if back else []))

    def _cut(self, ways: list[tuple[NodeId, NodeId]]) -> None:
        for way in ways:
            self._world.network.cut(*way)
        self._later(self._mend, ways)

    def _mend(self, ways: list[tuple[NodeId, NodeId]]) -> None:
        for way in ways:
            self._world.network.mend(*way)

    def _shake_the_network(self, _: Host) -> None:
        network = self._world.network
        network.drop, network.repeat, network.late = (self._rng.choice((0, 0.05, 0.3)) for _ in range(3))
        self._later(self._calm_the_network)

    def _calm_the_network(self) -> None:
        network = self._world.network
        network.drop = network.repeat = network.late = 0.0

    def _slow_a_disk(self, host: Host) -> None:
        host.disk_ms = 0 if self._is_over else self._rng.choice((0, 0, 50, 500, 5_000, 20_000))

    def _resign(self, host: Host) -> None:
        """It stops in good order, more or less; or it goes on, and somebody else leads."""
        if host.core is not None and host.core.leads:
            self._world.judge.seen["resignations"] += 1
            self._world.driver.run(host, host.core.resign(self._world.now_ms))
            if self._rng.random() < 0.5:
                self._world.after(self._rng.random() * 50, self._stop, host, host.life)

    def _stop(self, host: Host, life: int) -> None:
        if host.core is not None and host.life == life:
            self._world.crash(host)

    def _compact(self, host: Host) -> None:
        """A snapshot holds what is committed and durable, or a part of it."""
        end = min(host.watermark, host.log.durable_offset)
        if end > host.log.start_offset:
            self._world.judge.seen["snapshots"] += 1
            host.log.compact(self._rng.randint(host.log.start_offset + 1, end))

    def _spread_a_rumour(self, host: Host) -> None:
        """It believes that somebody died who did not."""
        self._notice(host, host.life, self._rng.choice(host.peers))

    def _lose_a_disk(self, host: Host) -> None:
        """Never that of a second voter before the first has caught up: then a majority would know too little.

        Often the power goes with it, so that nobody can catch up in the meantime; and often whoever leads afterwards
        dies before it has told everybody everything."""
        if not self._may_begin_anew(host):
            return
        world, rng = self._world, self._rng
        others = [other for other in world.hosts.values() if other is not host and other.me in world.voters]
        world.wipe(host, REPAIR_MS)
        if rng.random() < 0.5:
            for other in others:
                other.repaired_at_ms = host.repaired_at_ms + rng.random() * CATCHING_UP_MS
                if other.core is not None:
                    world.crash(other)
        else:
            rng.choice(others).disk_ms = rng.choice((0, 20_000))
        for one in (host, *others):
            world.after(max(one.repaired_at_ms - world.now_ms, 0), world.start, one)
        host.disk_ms = rng.choice((0, 0, 500, 5_000))
        if rng.random() < 0.7:
            victim = host if rng.random() < 0.5 else None
            world.after(REPAIR_MS + rng.random() * 2 * CATCHING_UP_MS, self._crash_again, victim)

    def _find_damage(self, host: Host) -> None:
        """It is started again, cannot read its log, and begins anew: at once, while what it said before is still under
        way, and with its vote. Often whoever leads dies soon, and has told only some of what it knows."""
        if not self._may_begin_anew(host):
            return
        world, rng = self._world, self._rng
        world.begin_anew(host)
        world.start(host)
        if rng.random() < 0.5:
            rng.choice([other for other in world.hosts.values() if other is not host]).disk_ms = 20_000
        if rng.random() < 0.7:
            world.after(rng.random() * CATCHING_UP_MS, self._crash_again, None)

    def _may_begin_anew(self, host: Host) -> bool:
        """Not while another voter has not caught up: then a majority would know too little."""
        hosts = self._world.hosts
        return not any(hosts[voter].stored.is_newborn for voter in self._world.voters if voter != host.me)

    def _crash_again(self, host: Host | None) -> None:
        """Whoever leads, and maybe who catches up with it."""
        for one in self._world.hosts.values():
            if one.core is not None and (one is host or one.core.leads) and not self._is_over:
                self._world.crash(one)
