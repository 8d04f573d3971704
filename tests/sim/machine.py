"""One simulated machine: builds the production node on it, ends it in every way, starts it again.

The disk outlives the node. A node that dies leaves nothing behind but what its disk holds and what the network has
already taken; with the power goes whatever was not synced.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, Any

from bifrost.broker.node import Node, StartError, StoppedError
from bifrost.errors import StorageError
from bifrost.settings import Settings
from tests.sim.history import Crashed
from tests.sim.loop import SimClock, SimLoop
from tests.sim.network import MachineTransport
from tests.sim.process import Process
from tests.sim.storage import SimDisk

if TYPE_CHECKING:
    from tests.sim.world import World

DISK_DELAYS_S = ((0.00005, 0.002), (0.0005, 0.02), (0.001, 0.1))
"""A fast disk, a fair one, and one that is a trial; between which bounds a call takes."""
_CLOSING_S = 5.0
"""So long may a node take to end that has met a bad disk."""


class Life:
    """One run of the node, from its start to its end."""

    def __init__(self, process: Process, loop: SimLoop) -> None:
        self.process = process
        self.node: Node | None = None
        self.serving: asyncio.Future[bool] = loop.create_future()
        """Whether it came so far as to serve."""
        self.ended: asyncio.Future[None] = loop.create_future()
        self.power_lost = False
        """Whether its end takes the memory of the machine along."""
        self.met_bad_disk = False


class Machine:
    """What of the world belongs to one node."""

    def __init__(
        self,
        world: World,
        name: str,
        settings: Settings,
        disk: SimDisk,
        *,
        host: str,
        clock_rate: float = 1.0,
        clock_skew_s: float = 0.0,
        is_off_without_power: bool = False,
    ) -> None:
        self.name = name
        self.host = host
        """What the network calls it."""
        self.settings = settings
        self.disk = disk
        self.usual_disk_delay_s = self._disk_delay_s = DISK_DELAYS_S[0]
        self.life: Life | None = None
        self.disk_is_sound = True
        """False while the nemesis has its hands on the disk: then the node may fail because of it."""
        self.loses_power_on_failure = False
        """Whether a node that ends because of its disk is followed by a restart of the machine."""
        self.starts_not_before = 0.0
        self.disks_lost = 0
        self._world = world
        self._clock_rate = clock_rate
        self._clock_skew_s = clock_skew_s
        self._is_off_without_power = is_off_without_power
        """Then nobody refuses connections on its behalf until it is started again."""
        self._transport = MachineTransport(world.network, host)
        self._lives: list[Life] = []
        self._down_s = 0.0
        self._healed_at = -_CLOSING_S
        self._lost: str | None = None
        self._failures = 0
        self._keeper: asyncio.Task[None] | None = None

    def draw_disk(self, rng: Random) -> None:
        """How fast it is on an ordinary day, and what its file system can do."""
        self.usual_disk_delay_s = rng.choice(DISK_DELAYS_S)
        self.slow_disk(self.usual_disk_delay_s)
        self.disk.has_syncfs = rng.random() < 0.5

    # The node's life.

    def keep_up(self) -> None:
        """Start the node, now and whenever it has ended, as a supervisor would."""
        self._keeper = self._world.loop.create_task(self._keep_up())

    @property
    def living(self) -> Life | None:
        return self.life if self.life is not None and not self.life.ended.done() and self.life.process.alive else None

    @property
    def node(self) -> Node | None:
        """While it lives."""
        return None if self.living is None else self.living.node

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

    def lose_directory(self, path: str, *, down_s: float) -> None:
        """The machine loses power and a device, and gets an empty one."""
        self.disks_lost += 1
        if self.living is None:
            self.disk.lose(path)
        else:
            self._lost = path
            self.kill(power=True, down_s=down_s)
        self.starts_not_before = self._world.loop.world_time + down_s

    def stop(self, *, down_s: float) -> None:
        """Ask the node to stop in good order."""
        if self.life is not None and self.life.node is not None and not self.life.ended.done():
            self._down_s = down_s
            self.life.process.run(self.life.node.request_stop)

    def pause(self) -> None:
        """As SIGSTOP does."""
        if self.living is not None:
            self._world.trace.note("node", self.living.process.name, "paused")
            self.living.process.pause()

    def resume(self) -> None:
        if self.living is not None and self.living.process.paused:
            self._world.trace.note("node", self.living.process.name, "goes on")
            self._world.loop.resume(self.living.process)
            self._world.network.resume(self.living.process)

    async def ended(self) -> None:
        """Returns once the node that runs now has ended."""
        if self.life is not None:
            await asyncio.shield(self.life.ended)

    def heal(self) -> None:
        """From now on the machine works as it should, and fast."""
        self.usual_disk_delay_s = DISK_DELAYS_S[0]
        self.heal_disk()
        self.resume()

    def slow_disk(self, delay_s: tuple[float, float]) -> None:
        self._disk_delay_s = delay_s
        if self.life is not None:
            self.life.process.disk_delay_s = delay_s

    def harm_disk(self) -> None:
        """The disk is about to fail those who use it."""
        self.disk_is_sound = False
        if self.life is not None:
            self.life.met_bad_disk = True

    def heal_disk(self) -> None:
        self.disk.space_left = None
        self.disk.fail_on = None
        self.disk.stop_in = None
        if not self.disk_is_sound:
            self._healed_at = self._world.loop.world_time
        self.disk_is_sound = True
        self.slow_disk(self.usual_disk_delay_s)
        self._get_directories_back()

    def _get_directories_back(self) -> None:
        """Restart the node if it has given one up that is well again, as an operator would."""
        node = self.life.node if self.life is not None else None
        if self.disk_is_sound and node is not None and node._logs is not None and node._logs.offline:
            self.stop(down_s=0.1)

    def kill_all(self) -> None:
        for life in self._lives:
            life.process.kill()

    def bury_all(self) -> None:
        for life in self._lives:
            life.process.bury()

    async def _keep_up(self) -> None:
        loop = self._world.loop
        while True:
            life = self._start()
            await life.ended
            await asyncio.sleep(max(self._down_s, self.starts_not_before - loop.time()))
            self._down_s = min(0.2 * 2**self._failures, 20.0)  # one that cannot start is tried less and less

    def _start(self) -> Life:
        world = self._world
        process = Process(
            f"{self.name}-{len(self._lives) + 1}", clock_rate=self._clock_rate, disk_delay_s=self._disk_delay_s
        )
        life = self.life = Life(process, world.loop)
        self._lives.append(life)
        life.met_bad_disk = not self.disk_is_sound
        world.network.ways.off.discard(self.host)
        world.trace.note("node", life.process.name, "starts")
        life.process.on_death.append(lambda: world.loop.call_outside(0, self._after_death, life))
        task = life.process.spawn(self._live(life))
        task.add_done_callback(lambda done: self._after_exit(life, done), context=Context())
        return life

    async def _live(self, life: Life) -> None:
        """What the main function of the process does."""
        world = self._world
        rng = Random(f"{world.seed} {life.process.name}")
        clock = SimClock(world.loop, self._clock_skew_s)
        node = life.node = Node(self.settings, disk=self.disk, clock=clock, rng=rng, transport=self._transport)
        await node.start()
        world.trace.note("node", life.process.name, "serves")
        life.serving.set_result(True)
        self._get_directories_back()
        await node.run_until_stopped()

    def _after_exit(self, life: Life, done: asyncio.Task[Any]) -> None:
        """The main function has returned: the process ends, with whatever it left behind."""
        if not life.process.alive:
            return
        error = None if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, StoppedError):  # told to stop before it served
            of_the_disk = isinstance(error, StorageError | StartError)
            recently = self._world.loop.world_time < self._healed_at + _CLOSING_S
            had_trouble = not self.disk_is_sound or (life.met_bad_disk and (recently or not life.serving.done()))
            if not of_the_disk or not had_trouble:
                self._world.complain("node failed", f"{life.process.name}: {error!r}")
                self._failures += 1
            life.power_lost = self.loses_power_on_failure
        life.process.kill()

    def _after_death(self, life: Life) -> None:
        world = self._world
        world.loop.hands.reap()
        node = life.node
        if node is not None and node.metrics.unexpected_errors:
            world.complain("unexpected errors", f"{node.metrics.unexpected_errors} requests met a bug")
        world.trace.note("node", life.process.name, "ended", life.power_lost)
        self.disk.crash(power=life.power_lost)
        if self._lost is not None:
            self.disk.lose(self._lost)
            self._lost = None
        if life.power_lost and self._is_off_without_power:
            world.network.ways.off.add(self.host)
        world.network.end_process(life.process, 3.0 if life.power_lost else 0.1)
        world.history.add(Crashed(world.loop.time(), life.power_lost))
        if not life.serving.done():
            life.serving.set_result(False)
        if not life.ended.done():  # else nobody waits any more: the world is being closed
            life.ended.set_result(None)
