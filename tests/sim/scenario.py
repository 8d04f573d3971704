"""One run: clients at work while the nemesis does harm, then peace, restarts, and everything is read back."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from bifrost.log import flush_job, flusher, startup
from tests.sim.admins import Admin, Observer
from tests.sim.anomaly import Anomaly
from tests.sim.checkers import judge
from tests.sim.client import TROUBLE, Topic
from tests.sim.compacted import scenario as compacted
from tests.sim.consumers import Consumer, read_all
from tests.sim.crowd.crowd import Crowd
from tests.sim.history import Acknowledged, History, Polled, ReadBack, Value
from tests.sim.nemesis import Nemesis
from tests.sim.producers import IdempotentProducer, PlainProducer, Producer
from tests.sim.world import LoneWorld, World

PEACE_S = 120.0
"""So long may clients take to finish once nothing disturbs them any more."""

BATCHES = 10
"""So many at least does each producer write; they go on for as long as they are disturbed."""


class Outcome(NamedTuple):
    """What a run showed."""

    seed: int
    policy: str
    anomalies: list[Anomaly]
    digest: str
    virtual_s: float
    acknowledged: int
    history: History


class Work(NamedTuple):
    """Everybody who has nothing to do with groups."""

    writing: list[asyncio.Task[None]]
    reading: list[asyncio.Task[None]]
    """And watching; to no end."""
    churning: list[asyncio.Task[None]]


def simulate(
    seed: int,
    policy: str = "ack",
    *,
    faults: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    is_compacted: bool = False,
    tell: Callable[[str], object] | None = None,
) -> Outcome:
    """Play the seed and judge it. The same arguments give the same digest, in any process.

    Who names `groups` wants to see these kinds of them and nobody else; if not, the seed decides. With `is_compacted`
    there are topics that are compacted, and nothing else.
    """
    name = f"{seed} {policy}"
    world = LoneWorld(name, policy, tell, compacted.cleaner_settings(name) if is_compacted else None)
    logger = logging.getLogger("bifrost")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1 if tell is None else logging.DEBUG)
    gc.disable()  # its moments depend on everything that this process did before
    try:
        asyncio.set_event_loop(world.loop)
        with _low_limits(Random(f"{world.seed} limits")), patch.object(flush_job, "Lock", world.loop.hands.lock):
            work = compacted.play(world, faults, _in_peace) if is_compacted else _play(world, faults, groups)
            world.loop.run_until_complete(work)
        acknowledged = sum(len(event.values) for event in world.history.of(Acknowledged))
        virtual_s, digest = world.loop.time(), world.trace.digest
    finally:
        world.close()
        compacted.forget_cleanings()
        asyncio.set_event_loop(None)
        gc.enable()
        logger.setLevel(level)
    return Outcome(seed, policy, judge(world.history), digest, virtual_s, acknowledged, world.history)


@contextmanager
def _low_limits(rng: Random) -> Iterator[None]:
    """In some runs a log is long, and a round crowded, when there is little in it."""
    with (
        patch.object(startup, "INLINE_BYTES_MAX", rng.choice((startup.INLINE_BYTES_MAX, 2_000))),
        patch.object(flusher, "SYNCFS_FILES_MIN", rng.choice((flusher.SYNCFS_FILES_MIN, 3))),
    ):
        yield


async def _play(world: LoneWorld, faults: Sequence[str] | None, groups: Sequence[str] | None) -> None:
    rng = Random(f"{world.seed} scenario")
    world.machine.keep_up()
    await world.machine.serving()
    admin = Admin("admin", *world.client_arguments())
    topics = [topic for name in ("orders", "trucks") if (topic := await _create(admin, name, rng))]
    nemesis = Nemesis(world, faults)
    work = Work([], [], []) if groups else _set_to_work(world, admin, topics, nemesis, rng)
    crowd = Crowd(world, topics, groups)
    crowd.start()
    await nemesis.run()
    if not await _in_peace(world, "nobody serves", world.machine.serving()):
        return
    await _in_peace(world, "a producer does not finish", asyncio.gather(*work.writing))
    await _in_peace(world, "the admin does not finish", asyncio.gather(*work.churning))
    await _in_peace(world, "groups do not settle", crowd.settle())
    for task in work.reading:
        task.cancel()
    await asyncio.gather(*work.reading, return_exceptions=True)
    world.machine.kill(power=rng.random() < 0.7, down_s=0.1)
    await _in_peace(world, "what was written cannot be read", _read_back(world, admin, 1))
    await _in_peace(world, "groups do not settle again", crowd.settle())
    await crowd.leave()
    world.machine.stop(down_s=0.1)
    await _in_peace(world, "what was written cannot be read again", _read_back(world, admin, 2))
    await _in_peace(world, "what was committed cannot be read", crowd.look_back())
    world.machine.stop(down_s=PEACE_S)
    await _in_peace(world, "the node does not stop", world.machine.ended())


def _set_to_work(world: World, admin: Admin, topics: list[Topic], nemesis: Nemesis, rng: Random) -> Work:
    args = (*world.client_arguments(), topics)
    producers: list[Producer] = [IdempotentProducer(f"idem{n}", *args, BATCHES) for n in range(rng.randint(1, 3))]
    producers += [PlainProducer(f"plain{n}", *args, BATCHES) for n in range(rng.randint(0, 2))]
    for producer in producers:
        producer.goes_on = lambda: not nemesis.is_done
    consumers = [Consumer(f"reader{n}", *args) for n in range(rng.randint(1, 2))]
    observer = Observer("observer", *world.client_arguments())
    return Work(
        writing=[asyncio.create_task(producer.run()) for producer in producers],
        reading=[
            *(asyncio.create_task(consumer.run()) for consumer in consumers),
            asyncio.create_task(observer.run(topics)),
        ],
        churning=[asyncio.create_task(_churn(world, admin, rng))],
    )


async def _create(admin: Admin, name: str, rng: Random) -> Topic | None:
    configs = {
        "internal.segment.bytes": str(rng.choice((8_000, 20_000, 1 << 20))),
        "index.interval.bytes": str(rng.choice((0, 300, 4096))),
        "message.timestamp.type": rng.choice(("CreateTime", "LogAppendTime")),
    }
    return await admin.create(name, rng.randint(1, 3), configs)


async def _churn(world: World, admin: Admin, rng: Random) -> None:
    """Topics come and go, grow, and are written to while they go."""
    for number in range(rng.randint(0, 8)):
        await asyncio.sleep(rng.uniform(0.05, 1.5))
        name = f"temporary-{number % 2}"
        topic = admin.topics.get(name)
        if topic is None:
            topic = await _create(admin, name, rng)
            if topic is None:
                continue
        producer = IdempotentProducer(f"temp{number}", *world.client_arguments(), [topic], rng.choice((1, 8, 60)))
        producer.version = 13  # by id: what is late must not end up in the next topic of that name
        writing = asyncio.create_task(producer.run())
        await asyncio.sleep(rng.choice((0.05, 0.5, 2.0)))
        if rng.random() < 0.4:
            await admin.grow(topic, topic.partitions + 1)
        if rng.random() < 0.6:
            await admin.delete(topic)
        left = admin.topics.get(name)
        if left is not None and left.topic_id == topic.topic_id:
            await writing
        else:  # it would try for ever
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)


async def _read_back(world: LoneWorld, admin: Admin, turn: int) -> None:
    await world.machine.ended()
    await world.machine.serving()
    topics = list((await admin.look()).values())
    ends = await Observer(f"observer-{turn}", *world.client_arguments()).ask(topics)
    missing = {place for topic in topics for place in topic.places} - ends.keys()
    if missing:
        world.complain("not served", ", ".join(sorted(map(str, missing))))
    reader = Consumer(f"reader-{turn}", *world.client_arguments(), topics, calm=True)
    await read_all(reader, ends)
    for place, end in ends.items():
        found: dict[int, Value] = {}
        for event in world.history.of(Polled):
            if event.reader == reader.name and event.place == place:
                found.update(event.records)
        world.history.add(ReadBack(world.loop.time(), place, end, tuple(sorted(found.items()))))


async def _in_peace(world: World, complaint: str, work: object) -> bool:
    """Wait for what must come to an end now that nothing disturbs it; whether it does."""
    try:
        async with asyncio.timeout(PEACE_S):
            await work  # type: ignore[misc]
    except TROUBLE as error:
        world.complain("stuck", f"{complaint}: {error!r}")
        return False
    return True
