"""One run about topics that are compacted: keys are written again and again while logs are cleaned, old segments go and
the nemesis does harm; then peace, in which cleaning goes on, restarts, and everything is read back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from bifrost.errors import ErrorCode
from bifrost.log.cleaning import worker
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.fetch import PartitionFetchResult
from tests.sim.admins import EARLIEST, Admin, Observer
from tests.sim.client import TROUBLE, Topic, Wire
from tests.sim.compacted.keys import key_of
from tests.sim.consumers import Consumer, read_all
from tests.sim.history import CompactedEnd, History, Place, Polled, Value
from tests.sim.loop import EPOCH_MS
from tests.sim.nemesis import Nemesis
from tests.sim.network import SimNetwork
from tests.sim.producers import IdempotentProducer
from tests.sim.world import LoneWorld

BATCHES = 40
_CLEANS_ON_S = 5.0
_LOOK_UPS = 5

InPeace = Callable[[LoneWorld, str, Awaitable[object]], Awaitable[bool]]


def cleaner_settings(seed: str) -> dict[str, str]:
    """Of the broker: everything that takes something out of logs is always at work."""
    rng = Random(f"{seed} cleaner settings")
    return {
        "log.cleaner.backoff.ms": str(rng.choice((50, 200, 1000))),
        "log.cleaner.threads": str(rng.choice((1, 2))),
        "log.initial.task.delay.ms": "100",
        "log.retention.check.interval.ms": str(rng.choice((100, 500))),
    }


class KeyedProducer(IdempotentProducer):
    key_of = staticmethod(key_of)
    sizes = (0, 20, 200)


class TimeAsker(Observer):
    """Asks by time, which looks into segments that may be replaced meanwhile."""

    async def run(self, topics: Sequence[Topic]) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.02, 0.3))
            try:
                wire = await self.connect()
                try:
                    for _ in range(_LOOK_UPS):
                        await self._list(wire, topics, EPOCH_MS + self.rng.randint(0, 30_000))
                finally:
                    wire.close()
            except TROUBLE:
                continue

    async def earliest(self, wire: Wire, topics: Sequence[Topic]) -> dict[Place, int]:
        return await self._list(wire, topics, EARLIEST)


class KeyedReader(Consumer):
    """Knows that offsets may be missing, and that logs begin later than they did."""

    def __init__(
        self, name: str, network: SimNetwork, history: History, seed: str, topics: Sequence[Topic], calm: bool = False
    ) -> None:
        super().__init__(name, network, history, seed, topics, calm=calm)
        self._rewind_share = 0.0 if calm else 0.1  # to see what is gone, and that it stays so
        self._observer = TimeAsker(f"{name}-observer", network, history, seed)

    async def _take(
        self, place: Place, offset: int, asked_at: float, asked_of: str, result: PartitionFetchResult
    ) -> None:
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.positions[place] = await self._start(place)
            return
        await super()._take(place, offset, asked_at, asked_of, result)
        if result.error_code == ErrorCode.NONE:
            ends = [header.next_offset for _, header in iter_headers(memoryview(result.records or b""))]  # type: ignore[arg-type]
            self.positions[place] = max([*ends, offset])

    async def _start(self, place: Place) -> int:
        topic = next(one for one in self._topics.values() if one.name == place.topic)
        wire = await self.connect()
        try:
            return (await self._observer.earliest(wire, [topic])).get(place, 0)
        finally:
            wire.close()


async def play(world: LoneWorld, faults: Sequence[str] | None, in_peace: InPeace) -> None:
    rng, args = Random(f"{world.seed} compacted"), world.client_arguments()
    world.machine.keep_up()
    await world.machine.serving()
    admin = Admin("admin", *args)
    topics = [topic for policy in ("compact", "compact,delete") if (topic := await _create(admin, policy, rng))]
    nemesis = Nemesis(world, faults)
    producers = [KeyedProducer(f"keyed{n}", *args, topics, BATCHES) for n in range(rng.randint(2, 3))]
    for producer in producers:
        producer.goes_on = lambda: not nemesis.is_done
    writing = [asyncio.create_task(producer.run()) for producer in producers]
    reading = [asyncio.create_task(KeyedReader(f"reader{n}", *args, topics).run()) for n in range(2)]
    reading += [asyncio.create_task(asker("asker", *args).run(topics)) for asker in (Observer, TimeAsker)]
    await nemesis.run()
    if not await in_peace(world, "nobody serves", world.machine.serving()):
        return
    await in_peace(world, "a producer does not finish", asyncio.gather(*writing))
    await asyncio.sleep(_CLEANS_ON_S)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    world.machine.kill(power=rng.random() < 0.7, down_s=0.1)
    await in_peace(world, "what was written cannot be read", _read_back(world, topics, 1))
    world.machine.stop(down_s=0.1)
    await in_peace(world, "what was written cannot be read again", _read_back(world, topics, 2))
    world.machine.stop(down_s=1000.0)
    await in_peace(world, "the node does not stop", world.machine.ended())


def forget_cleanings() -> None:
    """Those that nodes have left behind which were killed."""
    for work in worker._under_way.values():
        work.close()  # type: ignore[attr-defined]
    worker._under_way.clear()


async def _create(admin: Admin, policy: str, rng: Random) -> Topic | None:
    configs = {
        "cleanup.policy": policy,
        "internal.segment.bytes": str(rng.choice((2_000, 8_000))),
        "index.interval.bytes": str(rng.choice((0, 300))),
        "min.cleanable.dirty.ratio": str(rng.choice((0.0, 0.1, 0.5))),
        "message.timestamp.type": rng.choice(("CreateTime", "LogAppendTime")),
        "file.delete.delay.ms": str(rng.choice((0, 1000))),
        "retention.ms": str(rng.choice((1000, 5000))),
    }
    return await admin.create(policy.replace(",", "-"), rng.randint(1, 2), configs)


async def _read_back(world: LoneWorld, topics: Sequence[Topic], turn: int) -> None:
    await world.machine.ended()
    await world.machine.serving()
    args = world.client_arguments()
    observer = TimeAsker(f"observer-{turn}", *args)
    ends = await observer.ask(topics)
    missing = {place for topic in topics for place in topic.places} - ends.keys()
    if missing:
        world.complain("not served", ", ".join(sorted(map(str, missing))))
    reader = KeyedReader(f"reader-{turn}", *args, topics, calm=True)
    await read_all(reader, ends)
    wire = await observer.connect()
    starts = await observer.earliest(wire, topics)
    wire.close()
    for place, end in ends.items():
        found: dict[int, Value] = {}
        for event in world.history.of(Polled):
            if event.reader == reader.name and event.place == place:
                found.update(event.records)
        records = tuple(sorted(found.items()))
        world.history.add(CompactedEnd(world.loop.time(), place, starts.get(place, 0), end, records))
