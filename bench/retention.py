"""For how long everybody waits while old segments go: the longest stall of the loop, for thousands of segments at once.

    python -m bench.retention [--segments 10000] [--partitions 1] [--data DIRECTORY]

Logs on a real disk whose segments have all had their time, opened anew, so that what tells their age has to be read.
One look takes them out: it moves starts, stores them, renames files. Then threads remove the files. For both: how long
it took, the longest that somebody waited for the loop, and how much of that the loop computed; and the same for a loop
that is idle for as long, which is this machine's noise. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from bifrost.broker.retention import Retention
from bifrost.clock import SystemClock
from bifrost.errors import StorageError
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.log_directory import LogDirectory
from bifrost.log.manager import LogManager
from bifrost.log.real_disk import RealDisk
from bifrost.protocol.batch import read_header
from bifrost.protocol.records import encode_batch
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.types import NodeId, TopicPartition

ME = NodeId(0)
DAY_MS = 86_400_000
TICK_S = 0.001
VALUE = b"v" * 1000
CONFIG = LogConfig(retention_ms=DAY_MS, file_delete_delay_ms=0)


class Waits:
    """How long somebody waits who wants the loop every millisecond, and how much the loop computed meanwhile."""

    def __init__(self) -> None:
        self._longest_s = self._longest_cpu_s = 0.0
        self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while True:
            before, cpu_before = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK_S)
            self._longest_s = max(self._longest_s, time.perf_counter() - before - TICK_S)
            self._longest_cpu_s = max(self._longest_cpu_s, time.thread_time() - cpu_before)

    async def during(self, work: Callable[[], Awaitable[object]]) -> dict[str, float]:
        gc.collect()
        await asyncio.sleep(2 * TICK_S)
        self._longest_s = self._longest_cpu_s = 0.0
        started = time.perf_counter()
        await work()
        await asyncio.sleep(2 * TICK_S)
        took_s = time.perf_counter() - started
        return {
            "seconds": round(took_s, 3),
            "longest_wait_ms": round(self._longest_s * 1000, 2),
            "longest_wait_cpu_ms": round(self._longest_cpu_s * 1000, 2),
        }


def fail(error: StorageError) -> None:
    raise error


async def opened(path: Path) -> LogManager:
    disk = RealDisk()
    logs = LogManager(
        disk,
        [LogDirectory(disk, str(path))],
        loop=asyncio.get_running_loop(),
        clock=SystemClock(),
        rng=random.Random(1),
        cluster_id="bench",
        node_id=ME,
        config_for=lambda _: CONFIG,
        policy=FlushPolicy.OS,
        file_delete_delay_ms=0,
    )
    await logs.load()
    return logs


async def fill(path: Path, segments: int, partitions: int) -> None:
    """Segments of one batch each, from the day before yesterday."""
    logs = await opened(path)
    now_ms = int(time.time() * 1000)
    for index in range(partitions):
        log = logs.create(TopicPartition("old", index), UUID(int=1), CONFIG)
        for number in range(segments // partitions):
            batch = encode_batch([(now_ms - 2 * DAY_MS, None, VALUE, ())])
            log.append(memoryview(batch), read_header(batch), leader_epoch=0, now_ms=now_ms)
            log.roll(now_ms)
            while number % 100 == 0 and log.owed.files:  # noqa: ASYNC110  # they stay open until they are synced
                await asyncio.sleep(0.001)
    await logs.close()


def led(logs: LogManager) -> ReplicaManager:
    replicas = ReplicaManager()
    around = Surroundings(me=ME, wake=lambda _: None)
    for tp in logs.partitions:
        log = logs.get(tp)
        assert log is not None
        partition = Partition(tp, log, around, min_insync_replicas=1, high_watermark=log.log_end_offset)
        partition.lead(1, (ME,), frozenset({ME}), 1)
        replicas.add(partition)
    return replicas


async def until_removed(path: Path) -> None:
    while await asyncio.to_thread(_is_left, path):  # noqa: ASYNC110  # no event tells of files
        await asyncio.sleep(0.05)


def _is_left(path: Path) -> bool:
    return any(name.endswith(".deleted") for folder in path.glob("old-*") for name in os.listdir(folder))


async def measure(path: Path, segments: int, partitions: int) -> dict[str, Any]:
    await fill(path, segments, partitions)
    logs = await opened(path)
    replicas = led(logs)
    retention = Retention(logs, replicas, SystemClock(), fail)
    before = sum(len(one.log.segments) for one in replicas)
    waits = Waits()
    look = await waits.during(retention.look)
    removal = await waits.during(lambda: until_removed(path))
    idle = await waits.during(lambda: asyncio.sleep(look["seconds"]))
    left = sum(len(one.log.segments) for one in replicas)
    return {
        "segments": before - left,
        "partitions": partitions,
        "look": look,
        "removal": removal,
        "idle": idle,
        "open_files": sum("/old-" in _link(name) for name in os.listdir("/proc/self/fd")),
    }


def _link(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--data", type=Path, default=None, help="a directory on the disk to measure")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bifrost-retention-", dir=given.data))
    try:
        print(json.dumps(asyncio.run(measure(folder / "data", given.segments, given.partitions)), indent=2))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
