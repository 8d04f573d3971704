"""One simulated machine and its network: builds the production node on them, ends it in every way, starts it again.

The disk outlives the node. A node that dies leaves nothing behind but what its disk holds and what the network has
already taken; with the power goes whatever was not synced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any

from bifrost.broker.node import Node, StartError
from bifrost.errors import StorageError
from bifrost.settings import Settings, parse_settings
from tests.sim.client import ADDRESS
from tests.sim.crowd.settings import group_settings
from tests.sim.history import Complaint, Crashed, History
from tests.sim.loop import SimClock, SimLoop
from tests.sim.network import SimNetwork
from tests.sim.process import PowerLost, Process
from tests.sim.storage import SimDisk
from tests.sim.trace import Trace

_log = logging.getLogger("bifrost")
_DISK_DELAYS_S = ((0.00005, 0.002), (0.0005, 0.02), (0.001, 0.1))


class Life:
    """One run of the node, from its start to its end."""

    def __init__(self, number: int, loop: SimLoop) -> None:
        self.process = Process(f"node-{number}")
        self.node: Node | None = None
        self.serving: asyncio.Future[bool] = loop.create_future()
        """Whether it came so far as to serve."""
        self.ended: asyncio.Future[None] = loop.create_future()
        self.power_lost = False
        """Whether its end takes the memory of the machine along."""
        self.met_bad_disk = False


class World:
    """Everything that a seed decides about, in one place."""

    def __init__(self, seed: str, policy: str, tell: Callable[[str], object] | None = None) -> None:
        self.seed = seed
        self.rng = Random(f"{seed} world")
        self.loop = SimLoop(Random(f"{seed} threads"))
        self.trace = Trace(self.loop.time, tell)
        self.history = History(survives_power_loss=policy == "ack")
        self.network = SimNetwork(self.loop, Random(f"{seed} network"), self.trace)
        self.disk = SimDisk(self.loop.hands, Random(f"{seed} disk"), self.trace)
        self.directories = ["/a"] if self.rng.random() < 0.6 else ["/a", "/b"]
        self.settings = self._settings(policy)
        self._disk_delay_s = self.loop.disk_delay_s = self.rng.choice(_DISK_DELAYS_S)
        self.disk.has_syncfs = self.rng.random() < 0.5
        self.life: Life | None = None
        self.disk_is_sound = True
        """False while the nemesis has its hands on the disk: then the node may fail because of it."""
        self.loses_power_on_failure = False
        """Whether a node that ends because of its disk is followed by a restart of the machine."""
        self._lives: list[Life] = []
        self._down_s = 0.0
        self._failures = 0
        self._keeper: asyncio.Task[None] | None = None
        self.loop.set_exception_handler(self._on_unhandled)

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
        )
        return settings

    def client_arguments(self) -> tuple[SimNetwork, History, str]:
        return self.network, self.history, self.seed

    # The node's life.

    def keep_up(self) -> None:
        """Start the node, now and whenever it has ended, as a supervisor would."""
        self._keeper = self.loop.create_task(self._keep_up())

    async def serving(self) -> None:
        """Returns once the node serves."""
        while True:
            life = self.life
            if life is not None and not life.ended.done() and await asyncio.shield(life.serving):
                return
            await asyncio.sleep(0.1)

    def kill(self, *, power: bool, down_s: float) -> None:
        """End the node at once, in the middle of whatever it does."""
        if self.life is not None and not self.life.ended.done():
            self._down_s = down_s
            self.life.power_lost = power
            self.life.process.kill()

    def kill_at_disk_call(self, calls: int, operation: str | None = None, *, power: bool, down_s: float) -> None:
        """End the node inside a call of its disk, so many calls, or calls of that kind, from now."""
        self.disk.stop_in = calls
        self.disk.stop_at = operation
        self._down_s = down_s
        if self.life is not None:
            self.life.power_lost = power

    def stop(self, *, down_s: float) -> None:
        """Ask the node to stop in good order."""
        if self.life is not None and self.life.node is not None and not self.life.ended.done():
            self._down_s = down_s
            self.life.process.run(self.life.node.request_stop)

    async def ended(self) -> None:
        """Returns once the node that runs now has ended."""
        if self.life is not None:
            await asyncio.shield(self.life.ended)

    def heal(self) -> None:
        """From now on the machine and the network work as they should, and fast."""
        self._disk_delay_s = _DISK_DELAYS_S[0]
        self.network.heal()
        self.heal_disk()

    def harm_disk(self) -> None:
        """The disk is about to fail those who use it."""
        self.disk_is_sound = False
        if self.life is not None:
            self.life.met_bad_disk = True

    def heal_disk(self) -> None:
        self.disk.space_left = None
        self.disk.fail_on = None
        self.disk.stop_in = None
        self.disk_is_sound = True
        self.loop.disk_delay_s = self._disk_delay_s
        self._get_directories_back()

    def _get_directories_back(self) -> None:
        """Restart the node if it has given one up that is well again, as an operator would."""
        node = self.life.node if self.life is not None else None
        if self.disk_is_sound and node is not None and node._logs is not None and node._logs.offline:
            self.stop(down_s=0.1)

    def close(self) -> None:
        """Nobody looks at anything any more."""
        for life in self._lives:
            life.process.kill()
        self.loop.hands.close()
        for life in self._lives:
            life.process.bury()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _keep_up(self) -> None:
        while True:
            life = self._start()
            await life.ended
            await asyncio.sleep(self._down_s)
            self._down_s = min(0.2 * 2**self._failures, 20.0)  # one that cannot start is tried less and less

    def _start(self) -> Life:
        life = self.life = Life(len(self._lives) + 1, self.loop)
        self._lives.append(life)
        life.met_bad_disk = not self.disk_is_sound
        self.trace.note("node", life.process.name, "starts")
        life.process.on_death.append(lambda: self.loop.call_outside(0, self._after_death, life))
        task = life.process.spawn(self._live(life))
        task.add_done_callback(lambda done: self._after_exit(life, done), context=Context())
        return life

    async def _live(self, life: Life) -> None:
        """What the main function of the process does."""
        rng = Random(f"{self.seed} {life.process.name}")
        node = life.node = Node(
            self.settings, disk=self.disk, clock=SimClock(self.loop), rng=rng, transport=self.network
        )
        await node.start()
        self.trace.note("node", life.process.name, "serves")
        life.serving.set_result(True)
        self._get_directories_back()
        await node.run_until_stopped()

    def _after_exit(self, life: Life, done: asyncio.Task[Any]) -> None:
        """The main function has returned: the process ends, with whatever it left behind."""
        if not life.process.alive:
            return
        error = None if done.cancelled() else done.exception()
        if error is not None:
            of_the_disk = isinstance(error, StorageError | StartError)
            had_trouble = not self.disk_is_sound or (life.met_bad_disk and not life.serving.done())
            if not of_the_disk or not had_trouble:
                self.complain("node failed", repr(error))
                self._failures += 1
            life.power_lost = self.loses_power_on_failure
        life.process.kill()

    def _after_death(self, life: Life) -> None:
        self.loop.hands.reap()
        node = life.node
        if node is not None and node.metrics.unexpected_errors:
            self.complain("unexpected errors", f"{node.metrics.unexpected_errors} requests met a bug")
        self.trace.note("node", life.process.name, "ended", life.power_lost)
        self.disk.crash(power=life.power_lost)
        self.network.end_process(life.process, 3.0 if life.power_lost else 0.1)
        self.history.add(Crashed(self.loop.time(), life.power_lost))
        if not life.serving.done():
            life.serving.set_result(False)
        life.ended.set_result(None)

    def complain(self, kind: str, detail: str) -> None:
        self.history.add(Complaint(self.loop.time(), kind, detail))

    def _on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, PowerLost):
            self.complain("unhandled", f"{context.get('message')}: {error!r}")
