"""Compaction, driven: which log comes next is asked of `log/cleaning`, the work is done by worker processes, and what
they have finished takes its place in the log here, on the loop. Kafka: LogCleaner, LogCleanerManager.

A worker does a little at a time and is asked to go on after each piece. In between it is seen whether the log is still
the one that the cleaning began with: one that was cut or deleted meanwhile, or has lost segments, is left as it is.
Pauses between the pieces keep to `log.cleaner.io.max.bytes.per.second`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import BrokenExecutor, Executor
from itertools import count
from typing import Any, Final

from bifrost.broker.live_settings import LiveSettings
from bifrost.clock import Clock
from bifrost.errors import DiskFullError, StorageError
from bifrost.log.cleaning import worker
from bifrost.log.cleaning.choosing import Dirt, assess, dirtiest, task_for
from bifrost.log.cleaning.offset_map import entries_that_fit
from bifrost.log.cleaning.task import CleaningTask
from bifrost.log.disk import Disk
from bifrost.log.manager import LogManager
from bifrost.log.partition_log import PartitionLog
from bifrost.log.scan import REMEDY, DamagedBatchError
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition

_log = logging.getLogger(__name__)

_MS: Final = 1000.0
_TURN_S: Final = 0.001
"""How long logs are looked at before others have a turn on the loop."""
_numbers = count()
"""Of cleanings: no two of this process share one, not even those of several nodes in a test."""


class Cleaner:
    """One for each broker."""

    def __init__(
        self,
        disk: Disk,
        logs: LogManager,
        replicas: ReplicaManager,
        live: LiveSettings,
        clock: Clock,
        on_storage_error: Callable[[StorageError], None],
        pool: Callable[[], Executor] | None,
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._replicas = replicas
        self._live = live
        self._clock = clock
        self._on_storage_error = on_storage_error
        self._make_pool = pool
        self._loop = asyncio.get_running_loop()
        self._being_cleaned: set[Partition] = set()
        self._damaged: dict[PartitionLog, None] = {}
        """Logs that nobody tries to clean again. Kafka: LogCleanerManager.markPartitionUncleanable."""

    async def run(self, stops_within: Callable[[float], Awaitable[bool]]) -> None:
        """Look again and again, until the node stops."""
        while not await stops_within(self._live.now.log_cleaner_backoff_ms / _MS):
            settings = self._live.now
            if settings.log_cleaner_enable and settings.log_cleaner_threads:
                lanes = (self._clean_all(stops_within) for _ in range(settings.log_cleaner_threads))
                await _together(*lanes)

    async def _clean_all(self, stops_within: Callable[[float], Awaitable[bool]]) -> None:
        """One log after another, the dirtiest first, until no log is worth it."""
        pool: Executor | None = None
        try:
            while True:
                chosen = await self._choose()
                if chosen is None:
                    return
                if pool is None and self._make_pool is not None:
                    try:
                        pool = await self._loop.run_in_executor(None, self._make_pool)
                    except (BrokenExecutor, OSError) as error:
                        _log.warning("nothing is cleaned for now, no process could be started error=%r", error)
                        return
                partition, dirt = chosen
                self._being_cleaned.add(partition)
                try:
                    if not await self._clean(partition, dirt, pool, stops_within):
                        return
                finally:
                    self._being_cleaned.discard(partition)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    async def _choose(self) -> tuple[Partition, Dirt] | None:
        now_ms, turn_began = self._clock.now_ms(), self._loop.time()
        found: list[Dirt] = []
        of_log: dict[PartitionLog, Partition] = {}
        for partition in list(self._replicas):
            if (
                partition.log.config.compacted
                and self._is_here(partition)
                and partition not in self._being_cleaned
                and self._logs.futures.get(partition.tp) is None  # it would be copied before it is clean, or after
            ):
                dirt = self._assess(partition, now_ms)
                if dirt is not None and dirt.is_worth_it:
                    found.append(dirt)
                    of_log[partition.log] = partition
            if self._loop.time() - turn_began >= _TURN_S:
                await asyncio.sleep(0)
                turn_began = self._loop.time()
        free = [dirt for dirt in found if of_log[dirt.log] not in self._being_cleaned]  # by another lane meanwhile
        chosen = dirtiest(free)
        return None if chosen is None else (of_log[chosen.log], chosen)

    def _assess(self, partition: Partition, now_ms: int) -> Dirt | None:
        if partition.log in self._damaged:
            return None
        try:
            return assess(partition.log, partition.last_stable_offset, now_ms)
        except DamagedBatchError as damage:
            self._give_up(partition, damage)
        except StorageError as error:
            self._on_storage_error(error)
        return None

    async def _clean(
        self,
        partition: Partition,
        dirt: Dirt,
        pool: Executor | None,
        stops_within: Callable[[float], Awaitable[bool]],
    ) -> bool:
        """One round. Whether to go on with others."""
        settings, log = self._live.now, partition.log
        lanes = max(settings.log_cleaner_threads, 1)
        task = task_for(
            dirt,
            self._disk,
            now_ms=self._clock.now_ms(),
            map_entries_max=entries_that_fit(
                settings.log_cleaner_dedupe_buffer_size // lanes, settings.log_cleaner_io_buffer_load_factor
            ),
            read_bytes=settings.log_cleaner_io_buffer_size // lanes // 2,
        )
        number, generation = next(_numbers), log.owed.generation
        before, began = log.size_bytes, self._loop.time()
        try:
            try:
                cleaned_to = await self._work(number, task, partition, pool, stops_within)
            finally:
                await self._loop.run_in_executor(pool, worker.end, number)
        except BrokenExecutor as error:
            _log.warning("cleaning ended with its process partition=%s error=%r", partition.tp, error)
            return False
        except DiskFullError as full:
            _log.warning("no room to clean partition=%s path=%s", partition.tp, full.path)
            return False
        except StorageError as error:
            is_same = self._is_here(partition) and log.owed.generation == generation
            if not is_same or log.first_offset > task.sources[0].base_offset:
                return True  # it was cut or deleted, or has lost its first segments, while they were read
            return self._on_failure(partition, error)
        if cleaned_to is not None:
            log.first_dirty_offset = cleaned_to
            await self._logs.store_cleaned()
            _log.info(
                "log cleaned partition=%s from=%d to=%d bytes=%d/%d ms=%d",
                partition.tp,
                dirt.first_dirty_offset,
                cleaned_to,
                log.size_bytes,
                before,
                (self._loop.time() - began) * 1000,
            )
        return cleaned_to is not None

    async def _work(
        self,
        number: int,
        task: CleaningTask,
        partition: Partition,
        pool: Executor | None,
        stops_within: Callable[[float], Awaitable[bool]],
    ) -> int | None:
        """Up to where the log is clean now; None if it was given up because the node stops, or the log changed."""
        log, generation = partition.log, partition.log.owed.generation
        await self._loop.run_in_executor(pool, worker.begin, number, task)
        while True:
            began = self._loop.time()
            step = await self._loop.run_in_executor(pool, worker.advance, number)
            if not self._is_here(partition) or log.owed.generation != generation:
                return None
            if step.cleaned is not None:
                paths = log.replace_segments(step.cleaned)
                if paths is None:
                    return None
                self._logs.remove_later(log, paths)
            if step.clean_to is not None:
                return step.clean_to
            rate = self._live.now.log_cleaner_io_max_bytes_per_second
            pause_s = step.moved_bytes / rate - (self._loop.time() - began) if rate > 0 else 0.0
            if await stops_within(max(pause_s, 0.0)):
                return None

    def _on_failure(self, partition: Partition, error: StorageError) -> bool:
        if isinstance(error, DamagedBatchError):
            self._give_up(partition, error)
            return True
        self._on_storage_error(error)
        return False

    def _give_up(self, partition: Partition, damage: DamagedBatchError) -> None:
        self._damaged[partition.log] = None
        _log.error("log is damaged and not cleaned partition=%s %s remedy=%r", partition.tp, damage, REMEDY)

    def _is_here(self, partition: Partition) -> bool:
        return self._replicas.find(partition.tp) is partition


async def _together(*work: Coroutine[Any, Any, None]) -> None:
    """Waits for all of them, whatever becomes of one: nobody may use a log directory once the node has stopped."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
