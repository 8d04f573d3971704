"""Draws faults from the seed and lets them happen to a cluster; they last for a while, and several at a time.

Each run uses only some kinds of fault (swarm testing). Whoever leads the quorum is struck more often than others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from tests.sim.cluster.layout import DATA, METADATA
from tests.sim.cluster.repeats import Repeats
from tests.sim.cluster.world import ClusterMachine, ClusterWorld
from tests.sim.network import CLIENTS
from tests.sim.ways import Way

LONGEST_S = 20.0
"""After so long it has done enough harm."""
KINDS = (
    "kill",
    "lose_power",
    "lose_power_everywhere",
    "end_inside_disk_call",
    "restart",
    "pause",
    "cut_one_way",
    "isolate",
    "part_in_halves",
    "slow_ways",
    "cut_links",
    "stall_links",
    "fill_disk",
    "slow_disk",
    "fail_disk",
    "lose_metadata",
)
LATE = ("leave_words_behind", "repeat_requests")
"""What is said arrives when it is not true any more. Drawn apart from the others, and less often."""


class Nemesis:
    """Does harm, then makes it good again. To be made before nodes connect: it may want to hear what they say."""

    def __init__(self, world: ClusterWorld, kinds: Sequence[str] | None = None) -> None:
        self._world = world
        self._rng = rng = Random(f"{world.seed} nemesis")
        self._pause_s = rng.choice((0.3, 1.0, 2.0))
        self._faults = rng.randint(5, 15)
        self._lasts_s = rng.choice((0.3, 2.0, 5.0))
        self._kinds = rng.sample(KINDS, rng.randint(1, 6))
        apart = Random(f"{world.seed} late words")
        self._kinds += [kind for kind in LATE if apart.random() < 0.15]
        self._under_way: list[asyncio.Task[None]] = []
        self.is_done = False
        if kinds is not None:
            self._kinds, self._faults = list(kinds), 15
            self._pause_s = min(self._pause_s, 1.0)
        self._repeats = Repeats(world.network, apart)
        if "repeat_requests" in self._kinds:
            world.network.spy = self._repeats.precede

    async def run(self) -> None:
        """All faults of this run; the world is sound again when it returns."""
        until = self._world.loop.time() + LONGEST_S
        for _ in range(self._faults):
            if self._world.loop.time() > until:
                break
            await asyncio.sleep(self._rng.expovariate(1 / self._pause_s))
            kind = self._rng.choice(self._kinds)
            victim = self._victim()
            self._world.trace.note("fault", kind, victim.name)
            self._under_way.append(asyncio.create_task(getattr(self, f"_{kind}")(victim)))
        await asyncio.gather(*self._under_way)
        self._world.heal()
        self.is_done = True

    def _victim(self) -> ClusterMachine:
        leading = [machine for machine in self._world.cluster if machine.leads]
        return self._rng.choice(leading if leading and self._rng.random() < 0.4 else self._world.cluster)

    # Ends of nodes.

    async def _kill(self, victim: ClusterMachine) -> None:
        victim.kill(power=False, down_s=self._down_s())

    async def _lose_power(self, victim: ClusterMachine) -> None:
        victim.kill(power=True, down_s=self._down_s())

    async def _lose_power_everywhere(self, _: ClusterMachine) -> None:
        """Or almost everywhere, and not in the same instant."""
        for machine in self._world.cluster:
            if self._rng.random() < 0.8:
                machine.kill(power=True, down_s=self._down_s())
                await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.003)))

    async def _end_inside_disk_call(self, victim: ClusterMachine) -> None:
        """In the middle of what it does now, or of what does not happen often."""
        operation = self._rng.choice((None, None, "sync", "sync", "rename", "sync_directory", "truncate"))
        calls = self._rng.choice((1, 2, 3, 5, 10, 30))
        victim.kill_at_disk_call(calls, operation, power=self._rng.random() < 0.6, down_s=self._down_s())
        await self._for_a_while()
        victim.disk.stop_in = None

    async def _restart(self, victim: ClusterMachine) -> None:
        if victim.living is not None and victim.living.serving.done():
            victim.stop(down_s=self._down_s())
        else:
            victim.kill(power=False, down_s=self._down_s())

    async def _pause(self, victim: ClusterMachine) -> None:
        victim.pause()
        await self._for_a_while()
        victim.resume()

    async def _leave_words_behind(self, victim: ClusterMachine) -> None:
        """What it said before it died is still on its way when it is back, under another epoch."""
        links = [link for link in self._world.network.links if link.client.host == victim.host]
        for link in links:
            link.stall(client=True, server=False)
        await asyncio.sleep(self._world.timing.heartbeat_ms / 1000 * 1.5)
        victim.kill(power=False, down_s=0.05)
        await asyncio.sleep(self._world.timing.session_ms / 1000 * 1.5)
        for link in links:
            link.resume()

    async def _repeat_requests(self, victim: ClusterMachine) -> None:
        """What it has asked others, or they it, at any time before."""
        requests = self._repeats.some(victim.host)
        for request in requests:
            await asyncio.sleep(self._rng.choice((0.0, 0.003, 0.1, 0.1 * self._lasts_s)))
            self._repeats.repeat(request)

    async def _lose_metadata(self, victim: ClusterMachine) -> None:
        """Never that of a second voter before the first has caught up: then a majority would know too little. And it
        takes longer to replace than anybody goes on leading without a majority."""
        world = self._world
        if victim.seat.is_voter:
            others = [voter for voter in world.voters if voter is not victim]
            if len(world.voters) < 3 or any(voter.is_newborn for voter in others):
                return
        fetch_s = world.timing.fetch_ms / 1000 / 0.9
        victim.lose_directory(METADATA, down_s=1.5 * fetch_s + 1.0)

    # Troubles of the network.

    async def _cut_one_way(self, victim: ClusterMachine) -> None:
        other = self._rng.choice([host for host in self._hosts() if host != victim.host])
        await self._cut([self._rng.choice(((victim.host, other), (other, victim.host)))])

    async def _isolate(self, victim: ClusterMachine) -> None:
        """From all others, from clients too or not; both ways, or one."""
        others = [machine.host for machine in self._world.cluster if machine is not victim]
        others += [CLIENTS] if self._rng.random() < 0.5 else []
        out, back = self._rng.choice(((True, True), (True, True), (True, False), (False, True)))
        ways = [(victim.host, other) for other in others] if out else []
        await self._cut(ways + ([(other, victim.host) for other in others] if back else []))

    async def _part_in_halves(self, _: ClusterMachine) -> None:
        hosts = self._hosts()
        self._rng.shuffle(hosts)
        middle = self._rng.randint(1, len(hosts) - 1)
        one, other = hosts[:middle], hosts[middle:]
        await self._cut([way for a in one for b in other for way in ((a, b), (b, a))])

    async def _cut(self, ways: list[Way]) -> None:
        self._world.network.ways.cut(ways)
        await self._for_a_while()
        self._world.network.mend(ways)

    async def _slow_ways(self, victim: ClusterMachine) -> None:
        ways = [way for host in self._hosts() for way in ((host, victim.host), (victim.host, host))]
        self._world.network.ways.slow(ways, self._rng.choice((10.0, 100.0)))
        await self._for_a_while()
        self._world.network.ways.slow(ways, 1.0)

    async def _cut_links(self, _: ClusterMachine) -> None:
        share = self._rng.choice((0.1, 0.3, 1.0))
        for link in list(self._world.network.links):
            if self._rng.random() < share:
                link.cut()

    async def _stall_links(self, _: ClusterMachine) -> None:
        links = [link for link in self._world.network.links if self._rng.random() < 0.3]
        for link in links:
            link.stall(client=self._rng.random() < 0.6, server=self._rng.random() < 0.6)
        await self._for_a_while()
        for link in links:
            link.resume()

    def _hosts(self) -> list[str]:
        return [*(machine.host for machine in self._world.cluster), CLIENTS]

    # Troubles of disks.

    async def _fill_disk(self, victim: ClusterMachine) -> None:
        victim.harm_disk()
        victim.disk.space_left = self._rng.choice((0, 100, 1_000, 10_000))
        await self._for_a_while()
        victim.heal_disk()

    async def _slow_disk(self, victim: ClusterMachine) -> None:
        victim.slow_disk((0.001, self._rng.choice((0.1, 3.0))))
        await self._for_a_while()
        victim.slow_disk(victim.usual_disk_delay_s)

    async def _fail_disk(self, victim: ClusterMachine) -> None:
        """One device fails, for ever as far as the node can know; then the machine gets a new cable."""
        rng = self._rng
        device = rng.choice((DATA, METADATA, METADATA)) + "/"
        operations = rng.choice(({"sync"}, {"sync", "sync_directory", "sync_filesystem"}, {"write"}, {"rename"}))
        victim.harm_disk()
        victim.loses_power_on_failure = rng.random() < 0.5
        victim.disk.fail_on = lambda operation, path: operation in operations and path.startswith(device)
        await self._for_a_while()
        victim.kill(power=victim.loses_power_on_failure, down_s=self._down_s())
        await victim.ended()
        victim.heal_disk()

    def _down_s(self) -> float:
        return self._rng.choice((0.05, 0.3, 1.0, 4.0))

    async def _for_a_while(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.05, 2 * self._lasts_s))
