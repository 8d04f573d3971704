"""Recovering all logs of a directory after a crash.

This file decides where a recovery runs: a small one at once, a big one outside the loop, in worker processes if the
node can start them. What was written is made safe in one go at the end, because thousands of small syncs are slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple

from bifrost.errors import StorageError
from bifrost.log.config import LogConfig
from bifrost.log.disk import Disk
from bifrost.log.recovery import Recovered, bytes_to_scan, recover
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)

INLINE_BYTES_MAX: Final = 4 << 20
"""A few milliseconds of scanning; more leaves the loop."""

BREATH: Final = 32
"""Logs that are worked on before the loop gets a turn."""


class _Big(NamedTuple):
    size: int
    partition: TopicPartition
    task: Callable[[], Recovered]


async def recover_directory(
    disk: Disk,
    directory: str,
    partitions: Sequence[TopicPartition],
    *,
    recovery_points: Mapping[TopicPartition, int],
    start_offsets: Mapping[TopicPartition, int],
    config_for: Callable[[str], LogConfig],
    now_ms: int,
    pool: Callable[[], Executor] | None,
) -> dict[TopicPartition, int]:
    """Makes every log sound; where each of them ends."""
    recovered: dict[TopicPartition, Recovered] = {}
    big: list[_Big] = []
    for number, partition in enumerate(partitions):
        path = f"{directory}/{partition}"
        point = recovery_points.get(partition, 0)
        task = partial(
            recover,
            disk,
            path,
            config_for(partition.topic),
            recovery_point=point,
            log_start_offset=start_offsets.get(partition, 0),
            now_ms=now_ms,
            keep_gaps=partition not in recovery_points,  # it was copied in: see `home.NOT_LISTED`
            sync=False,
        )
        size = bytes_to_scan(disk, path, point)
        if size > INLINE_BYTES_MAX:
            big.append(_Big(size, partition, task))
        else:
            recovered[partition] = task()
        if number % BREATH == 0:
            await asyncio.sleep(0)
    if big:
        recovered.update(await _recover_big(directory, big, pool))
    written = [path for each in recovered.values() for path in each.written]
    await asyncio.get_running_loop().run_in_executor(None, _sync_written, disk, directory, written)
    return {partition: each.log_end_offset for partition, each in recovered.items()}


async def _recover_big(
    directory: str, tasks: list[_Big], pool: Callable[[], Executor] | None
) -> dict[TopicPartition, Recovered]:
    loop = asyncio.get_running_loop()
    total = sum(task.size for task in tasks)
    _log.info("recovering directory=%s logs=%d bytes=%d", directory, len(tasks), total)
    workers = pool() if pool is not None else None
    done: dict[TopicPartition, Recovered] = {}
    failure: StorageError | None = None
    scanned = 0
    try:
        # The longest first, so that no worker starts it when the others are through.
        tasks.sort(key=lambda each: -each.size)
        running = [(big, loop.run_in_executor(workers, big.task)) for big in tasks]
        for big, result in running:
            try:
                done[big.partition] = await result
            except StorageError as error:
                failure = failure or error  # the others are at work on their files until they are through
                continue
            scanned += big.size
            _log.info("recovered partition=%s bytes=%d/%d", big.partition, scanned, total)
    finally:
        if workers is not None:
            workers.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure
    return done


def _sync_written(disk: Disk, directory: str, paths: Sequence[str]) -> None:
    if disk.sync_filesystem(directory):
        return
    for path in paths:
        disk.open(path).sync()
    for folder in sorted({path.rpartition("/")[0] for path in paths}):
        disk.sync_directory(folder)
