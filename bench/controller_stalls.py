"""For how long a controller keeps everybody waiting: the longest turn of its loop, for the largest things it does.

    python -m bench.controller_stalls [--topics 1000 10000 33334] [--brokers 3] [--without-gc]

A quorum of one on a disk in memory, with topics of three partitions, created a thousand in each request. Then one
broker is fenced that leads a third of them, a snapshot is taken, and the node is started again, from the log and from
the snapshot. For each of these: how long it took, of that in CPU time, and the longest turn of the loop meanwhile, in
CPU time. Prints JSON, and in the end the rows of the table in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
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
NEVER_MS = 1 << 30


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
        started, worked = time.perf_counter(), time.process_time()
        await work()
        await asyncio.sleep(0)
        took, cpu = time.perf_counter() - started, time.process_time() - worked
        return {
            "ms": round(took * 1000, 1),
            "cpu_ms": round(cpu * 1000, 1),
            "longest_stall_ms": round(self._longest * 1000, 1),
        }

    def stop(self) -> None:
        self._task.cancel()


class NoWayThere(TcpTransport):
    """No broker can be looked for: the controller would miss those that only the metadata has, and fence them."""

    async def connect(self, *_: Any) -> asyncio.Transport:
        raise OSError(errno.EHOSTUNREACH, "No route to host")


def open_odin(disk: MemoryDisk, snapshot_bytes: int) -> Odin:
    settings = replace(
        Settings(),
        log_dirs=("data",),
        metadata_log_max_record_bytes_between_snapshots=snapshot_bytes,
        broker_session_timeout_ms=NEVER_MS,
    )

    def fail(error: BaseException) -> None:
        raise error

    return Odin.open(
        settings,
        disk,
        transport=NoWayThere(),
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

    started = time.process_time()
    odin = open_odin(disk, 1)
    opened_ms = round((time.process_time() - started) * 1000, 1)

    async def start_again() -> None:
        nonlocal running
        running = await start(odin)

    told["start_from_log"] = {"open_cpu_ms": opened_ms, **await stalls.during(start_again)}

    async def snapshot() -> None:
        while odin.member.storage.snapshot is None:  # noqa: ASYNC110  # nobody is told of it
            await asyncio.sleep(0)

    told["take_a_snapshot"] = await stalls.during(snapshot)
    await stop(odin, running)

    started = time.process_time()
    odin = open_odin(disk, NEVER_BYTES)
    opened_ms = round((time.process_time() - started) * 1000, 1)
    told["start_from_snapshot"] = {"open_cpu_ms": opened_ms, **await stalls.during(start_again)}
    await stop(odin, running)
    stalls.stop()
    return told


def rows(all_told: list[dict[str, Any]]) -> list[str]:
    """For the table in docs/benchmarks.md: CPU time in all, and of that the longest turn."""
    steps = {
        "create_1000_topics": "1,000 topics created, the last",
        "fence_a_broker": "a broker fenced that leads a third",
        "start_from_log": "started from the log",
        "take_a_snapshot": "snapshot taken while it serves",
        "start_from_snapshot": "started from the snapshot",
    }
    found = ["| | " + " | ".join(f"{told['partitions']:,} partitions" for told in all_told) + " |"]
    for step, text in steps.items():
        figures = [told[step] for told in all_told]
        cells = [
            f"{each.get('open_cpu_ms', 0) + each['cpu_ms']:,.0f} ms, {each['longest_stall_ms']:.0f} ms"
            for each in figures
        ]
        found.append(f"| {text}: in all, longest turn | {' | '.join(cells)} |")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000, 10_000, 33_334])
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--without-gc", action="store_true", help="Turn the collector of garbage off, to see its part.")
    options = parser.parse_args()
    if options.without_gc:
        gc.disable()
    all_told = []
    for topics in options.topics:
        all_told.append(asyncio.run(measure(topics, options.brokers)))
        print(json.dumps(all_told[-1]), flush=True)
    print("\n".join(rows(all_told)))


if __name__ == "__main__":
    main()
