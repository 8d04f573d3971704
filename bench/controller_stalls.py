"""For how long a controller keeps everybody waiting: the longest turn of its loop, for the largest things it does.

    python -m bench.controller_stalls [--topics 10000] [--brokers 3]

A quorum of one on a disk in memory, with topics of three partitions, created a thousand in each request. Then one
broker is fenced that leads a third of them, a snapshot is taken, and the node is started again, from the log and from
the snapshot. For each of these: how long it took, and the longest turn of the loop meanwhile, in CPU time. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from bifrost.broker.odin import Odin
from bifrost.clock import SystemClock
from bifrost.controller.core.brokers import Registration, register_broker
from bifrost.controller.core.heartbeats import fence_broker
from bifrost.controller.core.records import Endpoint
from bifrost.controller.core.topics import NewTopic
from bifrost.log.memory_disk import MemoryDisk
from bifrost.metrics import Metrics
from bifrost.peers.transport import TcpTransport
from bifrost.settings import Settings

TOPICS_PER_REQUEST = 1_000
PARTITIONS = 3
NEVER_BYTES = 1 << 40


class Stalls:
    """The longest turn that the loop took since it was last asked."""

    def __init__(self) -> None:
        self._longest = 0.0
        self._task = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        before = time.thread_time()  # others on the machine do not count
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self._longest = max(self._longest, now - before)
            before = now

    async def during(self, work: Callable[[], Awaitable[Any]]) -> dict[str, float]:
        gc.collect()
        await asyncio.sleep(0)
        self._longest = 0.0
        started = time.perf_counter()
        await work()
        await asyncio.sleep(0)
        took = time.perf_counter() - started
        return {"ms": round(took * 1000, 1), "longest_stall_ms": round(self._longest * 1000, 1)}

    def stop(self) -> None:
        self._task.cancel()


def open_odin(disk: MemoryDisk, snapshot_bytes: int) -> Odin:
    settings = replace(Settings(), log_dirs=("data",), metadata_log_max_record_bytes_between_snapshots=snapshot_bytes)

    def fail(error: BaseException) -> None:
        raise error

    return Odin.open(
        settings,
        disk,
        transport=TcpTransport(),
        clock=SystemClock(),
        rng=random.Random(1),
        metrics=Metrics(),
        on_failure=fail,
    )


async def start(odin: Odin) -> asyncio.Future[None]:
    """Until it is active, and has applied everything."""
    odin.start()
    running = asyncio.ensure_future(odin.run())
    await odin.until_founded()
    while not odin.controller.is_active:
        await odin.member.changed()
    return running


async def stop(odin: Odin, running: asyncio.Future[None]) -> None:
    await odin.stop(clean=True)
    await running
    odin.close()


async def register(odin: Odin, brokers: int) -> None:
    for broker in range(brokers):
        asked = Registration(
            broker_id=broker,
            cluster_id=odin.replica.image.cluster_id or "",
            incarnation=broker.to_bytes(16, "big"),
            endpoints=(Endpoint("PLAINTEXT", "localhost", 9092),),
        )
        await odin.controller.submit(lambda image, asked=asked: register_broker(image, asked))  # type: ignore[misc]


async def measure(topics: int, brokers: int) -> dict[str, Any]:
    disk, stalls = MemoryDisk(), Stalls()
    told: dict[str, Any] = {"topics": topics, "partitions": topics * PARTITIONS, "brokers": brokers}
    odin = open_odin(disk, NEVER_BYTES)
    running = await start(odin)
    await register(odin, brokers)
    for first in range(0, topics, TOPICS_PER_REQUEST):
        count = min(TOPICS_PER_REQUEST, topics - first)
        wanted = [NewTopic(f"topic-{first + number:06d}", PARTITIONS, min(brokers, 3)) for number in range(count)]
        told["create_1000_topics"] = await stalls.during(lambda wanted=wanted: odin.controller.create_topics(wanted))  # type: ignore[misc]
    led = sum(topic.partitions[index].leader == 0 for topic in odin.replica.image.topics.values() for index in range(3))
    epoch = odin.replica.image.brokers[0].epoch
    fenced = await stalls.during(lambda: odin.controller.submit(lambda image: fence_broker(image, 0, epoch)))
    told["fence_a_broker"] = {**fenced, "leads": led}
    await stop(odin, running)

    started = time.perf_counter()
    odin = open_odin(disk, 1)
    opened_ms = round((time.perf_counter() - started) * 1000, 1)

    async def start_again() -> None:
        nonlocal running
        running = await start(odin)

    told["start_from_log"] = {"open_ms": opened_ms, **await stalls.during(start_again)}

    async def snapshot() -> None:
        while odin.member.storage.snapshot is None:  # noqa: ASYNC110  # nobody is told of it
            await asyncio.sleep(0)

    told["take_a_snapshot"] = await stalls.during(snapshot)
    await stop(odin, running)

    started = time.perf_counter()
    odin = open_odin(disk, NEVER_BYTES)
    opened_ms = round((time.perf_counter() - started) * 1000, 1)
    told["start_from_snapshot"] = {"open_ms": opened_ms, **await stalls.during(start_again)}
    await stop(odin, running)
    stalls.stop()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--brokers", type=int, default=3)
    options = parser.parse_args()
    for topics in options.topics:
        print(json.dumps(asyncio.run(measure(topics, options.brokers))))


if __name__ == "__main__":
    main()
