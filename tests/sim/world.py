"""Everything that a seed decides about, in one place: time, the network, machines, and what was seen of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from bifrost.settings import Settings, parse_settings
from tests.sim.client import ADDRESS
from tests.sim.crowd.settings import group_settings
from tests.sim.history import Complaint, History
from tests.sim.loop import SimLoop
from tests.sim.machine import Machine
from tests.sim.network import SimNetwork
from tests.sim.process import PowerLost
from tests.sim.storage import SimDisk
from tests.sim.trace import Trace


class World:
    """Machines on a network. Whoever makes it puts them there."""

    def __init__(
        self,
        seed: str,
        *,
        survives_power_loss: bool = True,
        leaders_move: bool = False,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(f"{seed} world")
        self.loop = SimLoop(Random(f"{seed} threads"))
        self.trace = Trace(lambda: self.loop.world_time, tell)
        self.history = History(survives_power_loss=survives_power_loss, leaders_move=leaders_move)
        self.network = SimNetwork(self.loop, Random(f"{seed} network"), self.trace)
        self.machines: list[Machine] = []
        self.loop.set_exception_handler(self._on_unhandled)

    def client_arguments(self) -> tuple[SimNetwork, History, str]:
        return self.network, self.history, self.seed

    def heal(self) -> None:
        """From now on the machines and the network work as they should, and fast."""
        self.network.heal()
        for machine in self.machines:
            machine.heal()

    def close(self) -> None:
        """Nobody looks at anything any more."""
        for machine in self.machines:
            machine.kill_all()
        self.loop.hands.close()
        for machine in self.machines:
            machine.bury_all()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def complain(self, kind: str, detail: str) -> None:
        self.history.add(Complaint(self.loop.world_time, kind, detail))

    def _on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, PowerLost):
            self.complain("unhandled", f"{context.get('message')}: {error!r}")


class LoneWorld(World):
    """One machine, whose node is a whole cluster."""

    def __init__(
        self,
        seed: str,
        policy: str,
        tell: Callable[[str], object] | None = None,
        more_settings: dict[str, str] | None = None,
    ) -> None:
        super().__init__(seed, survives_power_loss=policy == "ack", tell=tell)
        self._more_settings = more_settings or {}
        disk = SimDisk(self.loop.hands, Random(f"{seed} disk"), self.trace)
        self.directories = ["/a"] if self.rng.random() < 0.6 else ["/a", "/b"]
        settings = self._settings(policy)
        self.machine = Machine(self, "node", settings, disk, host=ADDRESS[0])
        self.machine.draw_disk(self.rng)
        self.machines = [self.machine]

    def _settings(self, policy: str) -> Settings:
        settings, _ = parse_settings(
            {
                "node.id": "1",
                "listeners": f"PLAINTEXT://{ADDRESS[0]}:{ADDRESS[1]}",
                "log.dirs": ",".join(self.directories),
                "flush.policy": policy,
                "replica.high.watermark.checkpoint.interval.ms": str(self.rng.choice((200, 1000, 5000))),
                "log.flush.offset.checkpoint.interval.ms": str(self.rng.choice((500, 3000, 60_000))),
                "log.segment.delete.delay.ms": str(self.rng.choice((0, 1000, 60_000))),
                "max.incremental.fetch.session.cache.slots": str(self.rng.choice((1, 1000))),
            }
            | group_settings(self.seed)
            | self._more_settings
        )
        return settings
