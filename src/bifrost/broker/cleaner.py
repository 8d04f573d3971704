"""Compaction, driven: which log comes next is asked of `log/cleaning`, the work is done by worker processes, and what
they have finished takes its place in the log here, on the loop. Kafka: LogCleaner, LogCleanerManager.

A worker does a little at a time and is asked to go on after each piece. In between it is seen whether the log is still
the one that the cleaning began with: one that was cut or deleted meanwhile, or has lost segments, is left as it is.
Pauses between the pieces keep to `log.cleaner.io.max.bytes.per.second`.

A log that cannot be cleaned, because it is damaged or because its cleaning meets a bug or ends its worker again and
again, is left alone from then on, and the others are cleaned.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import BrokenExecutor, Executor
from itertools import count
from typing import Any, Final, TypeVar, TypeVarTuple

from bifrost.broker.live_settings import LiveSettings
from bifrost.clock import Clock
from bifrost.errors import DiskFullError, StorageError
from bifrost.log.cleaning import worker
from bifrost.log.cleaning.choosing import Dirt, assess, dirtiest, task_for
from bifrost.log.cleaning.offset_map import entries_that_fit
from bifrost.log.cleaning.task import CleaningTask, OversizedBatchError
from bifrost.log.disk import Disk
from bifrost.log.manager import LogManager
from bifrost.log.partition_log import PartitionLog
from bifrost.log.scan import REMEDY, DamagedBatchError
from bifrost.metrics import Metrics
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition

_log = logging.getLogger(__name__)

_MS: Final = 1000.0
_TURN_S: Final = 0.001
"""How long logs are looked at before others have a turn on the loop."""
_DEATHS_MAX: Final = 2
"""Workers that may end in the midst of one log before it is left alone."""
_numbers = count()
"""Of cleanings: no two of this process share one, not even those of several nodes in a test."""


_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _WorkerBugError(Exception):
    """A worker failed in a way that nobody has thought of; its cause says how."""


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
        metrics: Metrics,
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
        self._metrics = metrics
        self._uncleanable: set[PartitionLog] = set()
        """Logs that nobody tries to clean again. Kafka: LogCleanerManager.markPartitionUncleanable."""
        self._deaths: Counter[PartitionLog] = Counter()
        """Workers that ended in the midst of a log since it was cleaned."""

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
        self._forget_the_gone()
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
        chosen = dirtiest(dirt for dirt in free if dirt.log not in self._deaths) or dirtiest(free)
        return None if chosen is None else (of_log[chosen.log], chosen)

    def _assess(self, partition: Partition, now_ms: int) -> Dirt | None:
        if partition.log in self._uncleanable:
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
                await self._ask(pool, worker.end, number)
        except BrokenExecutor as error:
            self._on_death(partition, error)
            return False
        except DiskFullError as full:
            _log.warning("no room to clean partition=%s path=%s", partition.tp, full.path)
            return False
        except (StorageError, _WorkerBugError) as error:
            is_same = self._is_here(partition) and log.owed.generation == generation
            if not is_same or log.first_offset > task.sources[0].base_offset:
                return True  # it was cut or deleted, or has lost its first segments, while they were read
            return self._on_failure(partition, error)
        if cleaned_to is not None:
            log.first_dirty_offset = cleaned_to
            self._deaths.pop(log, None)
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
        await self._ask(pool, worker.begin, number, task)
        while True:
            began = self._loop.time()
            step = await self._ask(pool, worker.advance, number)
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

    async def _ask(
        self, pool: Executor | None, work: Callable[[*_Arguments], _Result], *arguments: *_Arguments
    ) -> _Result:
        """What a worker makes of it. A bug that it meets ends no more than this cleaning: all that it may have done is
        to add files that belong to no log."""
        try:
            return await self._loop.run_in_executor(pool, work, *arguments)
        except (StorageError, BrokenExecutor):
            raise
        except Exception as error:
            raise _WorkerBugError(repr(error)) from error

    def _on_failure(self, partition: Partition, error: StorageError | _WorkerBugError) -> bool:
        if isinstance(error, DamagedBatchError):
            self._give_up(partition, error)
            return True
        if isinstance(error, _WorkerBugError):
            self._leave_alone(partition)
            _log.error("log is not cleaned any more, that met a bug partition=%s", partition.tp, exc_info=error)
            return True
        self._on_storage_error(error)
        return False

    def _on_death(self, partition: Partition, error: BrokenExecutor) -> None:
        """A log that ends its worker would otherwise be chosen first, for ever, and no other would be cleaned."""
        self._deaths[partition.log] += 1
        _log.warning("cleaning ended with its process partition=%s error=%r", partition.tp, error)
        if self._deaths[partition.log] >= _DEATHS_MAX:
            self._leave_alone(partition)
            _log.error("log is not cleaned any more, its worker always ends partition=%s", partition.tp)

    def _give_up(self, partition: Partition, damage: DamagedBatchError) -> None:
        self._leave_alone(partition)
        if isinstance(damage, OversizedBatchError):
            _log.error(
                "log holds a batch too large to look into and is not cleaned partition=%s %s", partition.tp, damage
            )
        else:
            _log.error("log is damaged and not cleaned partition=%s %s remedy=%r", partition.tp, damage, REMEDY)

    def _leave_alone(self, partition: Partition) -> None:
        self._uncleanable.add(partition.log)
        self._metrics.uncleanable_partitions = len(self._uncleanable)

    def _forget_the_gone(self) -> None:
        if self._uncleanable or self._deaths:
            here = {partition.log for partition in self._replicas}
            self._uncleanable &= here
            self._deaths = Counter({log: deaths for log, deaths in self._deaths.items() if log in here})
            self._metrics.uncleanable_partitions = len(self._uncleanable)

    def _is_here(self, partition: Partition) -> bool:
        return self._replicas.find(partition.tp) is partition


async def _together(*work: Coroutine[Any, Any, None]) -> None:
    """Waits for all of them, whatever becomes of one: nobody may use a log directory once the node has stopped."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
