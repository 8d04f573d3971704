"""Draws faults from the seed and lets them happen to a world, one after the other.

Each run uses only some kinds of fault (swarm testing): runs that have few of them in great numbers find what runs that
have a little of everything never reach. A run that is to show something asks for certain kinds, and gets
many of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from tests.sim.world import LoneWorld

LONGEST_S = 20.0
"""After so long it has done enough harm."""

KINDS = (
    "kill",
    "lose_power",
    "lose_power",
    "end_inside_disk_call",
    "end_inside_rare_disk_call",
    "end_while_starting",
    "restart",
    "cut_links",
    "stall_links",
    "slow_links",
    "shut_network",
    "fill_disk",
    "slow_disk",
    "fail_disk",
)


class Nemesis:
    """Does harm, then makes it good again."""

    def __init__(self, world: LoneWorld, kinds: Sequence[str] | None = None) -> None:
        self._world = world
        self._rng = rng = Random(f"{world.seed} nemesis")
        self._pause_s = rng.choice((0.1, 0.5, 1.5))
        self._faults: int = rng.randint(4, 12)
        self.is_done = False
        self._kinds = rng.sample(KINDS, rng.randint(2, len(KINDS)))
        if kinds is not None:
            self._pause_s, self._faults, self._kinds = 0.3, 15, list(kinds)

    async def run(self) -> None:
        """All faults of this run; the world is sound again when it returns."""
        until = self._world.loop.time() + LONGEST_S
        for _ in range(self._faults):
            if self._world.loop.time() > until:
                break
            await asyncio.sleep(self._rng.expovariate(1 / self._pause_s))
            kind = self._rng.choice(self._kinds)
            self._world.trace.note("fault", kind)
            await getattr(self, f"_{kind}")()
        self._world.heal()
        self.is_done = True

    # Ends of the node.

    async def _kill(self) -> None:
        self._world.machine.kill(power=False, down_s=self._down_s())

    async def _lose_power(self) -> None:
        self._world.machine.kill(power=True, down_s=self._down_s())

    async def _end_inside_disk_call(self) -> None:
        calls = self._rng.choice((1, 2, 3, 5, 10, 30))
        self._world.machine.kill_at_disk_call(calls, power=self._rng.random() < 0.6, down_s=self._down_s())
        await asyncio.sleep(self._rng.uniform(0.1, 2.0))

    async def _end_inside_rare_disk_call(self) -> None:
        """In the middle of what does not happen often: rolls, new and deleted topics, checkpoints."""
        operation = self._rng.choice(("makedirs", "rename", "remove", "truncate", "sync_directory", "sync"))
        calls = self._rng.choice((1, 1, 2, 3, 5))
        self._world.machine.kill_at_disk_call(calls, operation, power=self._rng.random() < 0.7, down_s=self._down_s())
        await asyncio.sleep(self._rng.uniform(0.1, 3.0))

    async def _end_while_starting(self) -> None:
        """Once more before it serves: recovery must survive its own end, too."""
        self._world.machine.kill(power=self._rng.random() < 0.6, down_s=0.1)
        for _ in range(self._rng.randint(1, 3)):
            await asyncio.sleep(0.05)
            calls = self._rng.randint(1, 40)
            self._world.machine.kill_at_disk_call(calls, power=self._rng.random() < 0.6, down_s=0.1)
            await self._for_a_while(0.5)

    async def _restart(self) -> None:
        self._world.machine.stop(down_s=self._down_s())
        await self._for_a_while(2.0)

    # Troubles of the network.

    async def _cut_links(self) -> None:
        share = self._rng.choice((0.3, 1.0))
        for link in list(self._world.network.links):
            if self._rng.random() < share:
                link.cut()

    async def _stall_links(self) -> None:
        for link in list(self._world.network.links):
            if self._rng.random() < 0.5:
                link.stall(client=self._rng.random() < 0.6, server=self._rng.random() < 0.6)
        await self._for_a_while(8.0)
        self._world.network.heal()

    async def _slow_links(self) -> None:
        for link in self._world.network.links:
            if self._rng.random() < 0.5:
                link.slowness = self._rng.choice((10.0, 100.0))
        await self._for_a_while(5.0)
        self._world.network.heal()

    async def _shut_network(self) -> None:
        self._world.network.is_down = True
        await self._cut_links()
        await self._for_a_while(2.0)
        self._world.network.heal()

    # Troubles of the disk.

    async def _fill_disk(self) -> None:
        self._world.machine.harm_disk()
        self._world.machine.disk.space_left = self._rng.choice((0, 100, 1_000, 10_000))
        await self._for_a_while(4.0)
        self._world.machine.heal_disk()

    async def _slow_disk(self) -> None:
        self._world.machine.slow_disk((0.001, self._rng.choice((0.1, 1.0))))
        await self._for_a_while(4.0)
        self._world.machine.heal_disk()

    async def _fail_disk(self) -> None:
        """One directory fails, for ever as far as the node can know; then the machine gets a new cable."""
        world, rng = self._world, self._rng
        directory = rng.choice(world.directories) + "/"
        operations = rng.choice(
            ({"sync"}, {"sync"}, {"sync", "sync_directory", "sync_filesystem"}, {"write"}, {"rename"})
        )
        world.machine.harm_disk()
        world.machine.loses_power_on_failure = rng.random() < 0.5
        world.machine.disk.fail_on = lambda operation, path: operation in operations and path.startswith(directory)
        await self._for_a_while(3.0)
        world.machine.kill(power=world.machine.loses_power_on_failure, down_s=self._down_s())
        await world.machine.ended()
        world.machine.heal_disk()

    def _down_s(self) -> float:
        return self._rng.choice((0.05, 0.3, 1.0))

    async def _for_a_while(self, longest_s: float) -> None:
        await asyncio.sleep(self._rng.uniform(0.05, longest_s))
