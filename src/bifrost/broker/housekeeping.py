"""What a broker does every few seconds, so that its next start has little to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bifrost.broker.publisher import Publisher
from bifrost.controller.core.image import MetadataImage
from bifrost.log.manager import LogManager
from bifrost.replication.manager import ReplicaManager
from bifrost.settings import Settings

_MS: Final = 1000


async def look_after(
    logs: LogManager,
    replicas: ReplicaManager,
    publisher: Publisher,
    image: MetadataImage,
    settings: Settings,
    stops_within: Callable[[float], Awaitable[bool]],
) -> None:
    """Save high watermarks often and recovery points now and then, until the node stops."""
    loop = asyncio.get_running_loop()
    interval_s = settings.replica_high_watermark_checkpoint_interval_ms / _MS
    recovery_points_s = settings.log_flush_offset_checkpoint_interval_ms / _MS
    next_recovery_points = loop.time()
    while not await stops_within(interval_s):
        await logs.checkpoint_high_watermarks(replicas.high_watermarks())
        publisher.place_waiting(image)
        if loop.time() >= next_recovery_points:
            next_recovery_points = loop.time() + recovery_points_s
            logs.expire_producers()
            await logs.checkpoint()
