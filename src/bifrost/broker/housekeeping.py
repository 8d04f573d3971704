"""What a broker does every few seconds, so that its next start has little to do, and its disks have room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bifrost.broker.cleaner import Cleaner
from bifrost.broker.publisher import Publisher
from bifrost.broker.retention import Retention
from bifrost.clock import Clock
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import StorageError
from bifrost.log.manager import LogManager
from bifrost.replication.followers import Spawn
from bifrost.replication.manager import ReplicaManager
from bifrost.settings import Settings

_MS: Final = 1000


class Housekeeping:
    """One for each broker."""

    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        publisher: Publisher,
        image: MetadataImage,
        clock: Clock,
        settings: Settings,
        on_storage_error: Callable[[StorageError], None],
        cleaner: Cleaner,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._publisher = publisher
        self._image = image
        self._settings = settings
        self._retention = Retention(logs, replicas, clock, on_storage_error)
        self._cleaner = cleaner

    def start(self, spawn: Spawn, stops_within: Callable[[float], Awaitable[bool]]) -> None:
        """Go on until the node stops."""
        spawn(self._save(stops_within), "housekeeping")
        spawn(self._retention.run(self._settings, stops_within), "retention")
        spawn(self._cleaner.run(stops_within), "compaction")

    async def _save(self, stops_within: Callable[[float], Awaitable[bool]]) -> None:
        """High watermarks often, and recovery points now and then."""
        loop, settings = asyncio.get_running_loop(), self._settings
        interval_s = settings.replica_high_watermark_checkpoint_interval_ms / _MS
        recovery_points_s = settings.log_flush_offset_checkpoint_interval_ms / _MS
        next_recovery_points = loop.time()
        while not await stops_within(interval_s):
            await self._logs.checkpoint_high_watermarks(self._replicas.high_watermarks())
            self._publisher.place_waiting(self._image)
            if loop.time() >= next_recovery_points or self._logs.has_unlisted:
                next_recovery_points = loop.time() + recovery_points_s
                self._logs.expire_producers()
                await self._logs.checkpoint()
