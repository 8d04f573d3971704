"""Old segments go: every now and then, on leaders and followers alike, a few at a time. Kafka: LogManager.cleanupLogs.

First logs are told to begin later, then that is stored, and only then their files are renamed: in another order a loss
of power could bring back some of them, and not others. Renamed files are removed after `file.delete.delay.ms`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bifrost.clock import Clock
from bifrost.errors import DiskFullError, StorageError
from bifrost.log.manager import LogManager
from bifrost.log.retention import Sweep
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.settings import Settings

_log = logging.getLogger(__name__)

_MS: Final = 1000.0
_LOOKS_AT_ONCE: Final = 8
"""Segments that are looked at in one go: each may cost a read of its time index."""
_RENAMES_AT_ONCE: Final = 2
"""Segments that are renamed in one go, each with its companions."""
_TURN_S: Final = 0.001
"""How long it goes on before others have a turn on the loop."""


class Retention:
    """One for each broker."""

    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        clock: Clock,
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._on_storage_error = on_storage_error
        self._loop = asyncio.get_running_loop()
        self._turn_began = 0.0

    async def run(self, settings: Settings, stops_within: Callable[[float], Awaitable[bool]]) -> None:
        """Look again and again, until the node stops."""
        pause_ms = settings.log_initial_task_delay_ms
        while not await stops_within(pause_ms / _MS):
            pause_ms = settings.log_retention_check_interval_ms
            await self.look()

    async def look(self) -> None:
        """Once, at all partitions of this node."""
        self._turn_began = self._loop.time()
        starts: dict[Partition, int] = {}
        for partition in list(self._replicas):
            await self._move_start(partition)
            starts[partition] = partition.log.log_start_offset
        await self._logs.store_starts()
        for partition, start in starts.items():
            await self._take_out(partition, start)

    async def _move_start(self, partition: Partition) -> None:
        sweep: Sweep | None = None
        while self._is_here(partition):
            if sweep is None:
                sweep = Sweep(partition.log, self._clock.now_ms())
            try:
                start = sweep.step(partition.high_watermark, _LOOKS_AT_ONCE)
            except DiskFullError as full:
                _log.warning("no room for another segment, the last one stays path=%s", full.path)
                return
            except StorageError as error:
                self._on_storage_error(error)
                return
            if start is not None:
                partition.begin_at(start)
            await self._let_others()
            if start is None:
                return

    async def _take_out(self, partition: Partition, start: int) -> None:
        log, count = partition.log, 0
        while self._is_here(partition):
            try:
                paths = log.take_out_segments(start, _RENAMES_AT_ONCE)
            except StorageError as error:
                self._on_storage_error(error)
                return
            if not paths:
                break
            count += 1
            self._logs.remove_later(log, paths)
            await self._let_others()
        if count:
            _log.info("old segments deleted partition=%s log_start=%d", partition.tp, log.log_start_offset)

    def _is_here(self, partition: Partition) -> bool:
        return self._replicas.find(partition.tp) is partition

    async def _let_others(self) -> None:
        if self._loop.time() - self._turn_began >= _TURN_S:
            await asyncio.sleep(0)
            self._turn_began = self._loop.time()
