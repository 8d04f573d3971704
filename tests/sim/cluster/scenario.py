"""One run of a cluster: clients at work while the nemesis does harm, then peace: it must become sound, and stay so."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from unittest.mock import patch

from bifrost.log import flush_job
from tests.sim.anomaly import Anomaly
from tests.sim.checkers import judge
from tests.sim.client import TROUBLE
from tests.sim.cluster.checkers import lost_changes
from tests.sim.cluster.nemesis import Nemesis
from tests.sim.cluster.watching import watched
from tests.sim.cluster.work import WORK
from tests.sim.cluster.world import ClusterWorld
from tests.sim.history import Acknowledged, History

PEACE_S = 60.0
"""So long may a cluster and its clients take once nothing disturbs them any more."""


class Outcome(NamedTuple):
    """What a run showed."""

    seed: int
    anomalies: list[Anomaly]
    digest: str
    virtual_s: float
    acknowledged: int
    seen: dict[str, int]
    history: History


def simulate(
    seed: int,
    *,
    about: str = "metadata",
    faults: Sequence[str] | None = None,
    layout: str | None = None,
    tell: Callable[[str], object] | None = None,
) -> Outcome:
    """Play the seed and judge it. The same arguments give the same digest, in any process."""
    world = ClusterWorld(f"{WORK[about].name} {seed}", layout, tell)
    logger = logging.getLogger("bifrost")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1 if tell is None else logging.DEBUG)
    gc.disable()  # its moments depend on everything that this process did before
    try:
        asyncio.set_event_loop(world.loop)
        with watched(world), patch.object(flush_job, "Lock", world.loop.hands.lock):
            world.loop.run_until_complete(_play_until_broken(world, about, faults))
        virtual_s, digest = world.loop.time(), world.trace.digest
        acknowledged = sum(len(event.values) for event in world.history.of(Acknowledged))
    finally:
        world.close()
        asyncio.set_event_loop(None)
        gc.enable()
        logger.setLevel(level)
    anomalies = [*judge(world.history), *lost_changes(world.history)]
    seen = world.judge.seen + world.copies.seen + world.fencing.seen
    return Outcome(seed, anomalies, digest, virtual_s, acknowledged, dict(seen), world.history)


async def _play_until_broken(world: ClusterWorld, about: str, faults: Sequence[str] | None) -> None:
    world.run = asyncio.create_task(_play(world, about, faults))
    await asyncio.gather(world.run, return_exceptions=True)
    if not world.run.cancelled():
        await world.run


async def _play(world: ClusterWorld, about: str, faults: Sequence[str] | None) -> None:
    nemesis = Nemesis(world, faults)
    for machine in world.cluster:
        machine.keep_up()
    if not await _in_peace(world, "the cluster does not form", _converged(world)):
        return
    work = WORK[about](world)
    if not await _in_peace(world, "topics are not created", work.prepare()):
        return
    work.begin(lambda: not nemesis.is_done)
    await nemesis.run()
    if not await _in_peace(world, "the cluster does not heal", _converged(world)):
        return
    for complaint, ending in work.endings():
        await _in_peace(world, complaint, ending)
    for machine in world.cluster:
        machine.kill(power=True, down_s=work.rng.random())
    await _in_peace(world, "the cluster does not start again", _converged(world))
    await _in_peace(world, "what was written cannot be read", work.look_back())
    await _stop_all(world)


async def _converged(world: ClusterWorld) -> None:
    while world.unconverged():  # noqa: ASYNC110  # nodes have no event for it
        await asyncio.sleep(0.2)


async def _stop_all(world: ClusterWorld) -> None:
    """Brokers first, which need somebody to take leave of."""
    for machine in (*reversed(world.brokers), *world.voters):
        machine.stop(down_s=10 * PEACE_S)
        await _in_peace(world, f"{machine.name} does not stop", machine.ended())


async def _in_peace(world: ClusterWorld, complaint: str, work: Awaitable[object]) -> bool:
    """Wait for what must come to an end now that nothing disturbs it; whether it does."""
    try:
        async with asyncio.timeout(PEACE_S):
            await work
    except TROUBLE as error:
        world.complain("stuck", f"{complaint}: {error!r} {world.unconverged()}".strip())
        return False
    return True
