"""The log directories of one broker, joined to the metadata: how its logs are opened, and what a failed one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from random import Random
from uuid import UUID

from bifrost.broker.live_settings import LiveSettings
from bifrost.clock import Clock
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import StorageError
from bifrost.log.config import FlushPolicy
from bifrost.log.disk import Disk
from bifrost.log.log_directory import LogDirectory
from bifrost.log.manager import LogManager
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition


def log_manager(
    disk: Disk,
    directories: Sequence[LogDirectory],
    image: MetadataImage,
    live: LiveSettings,
    *,
    clock: Clock,
    rng: Random,
    on_offline: Callable[[str, StorageError], None],
    recovery_pool: Callable[[], Executor] | None,
) -> LogManager:
    """The logs in those of the directories that are log directories; `load` opens them."""
    settings = live.started_with
    return LogManager(
        disk,
        [one for one in directories if one.path in settings.log_directories],
        loop=asyncio.get_running_loop(),
        clock=clock,
        rng=rng,
        cluster_id=image.cluster_id or "",
        node_id=settings.node_id,
        config_for=lambda name: live.log_config(live.topic_config(name)),
        topic_id_for=lambda name: UUID(bytes=image.topics[name].topic_id) if name in image.topics else None,
        policy=FlushPolicy(settings.flush_policy),
        on_offline=on_offline,
        recovery_pool=recovery_pool,
    )


def leave(path: str, replicas: ReplicaManager) -> list[Partition]:
    """The partitions whose logs are in a directory that failed: they are not served any more."""
    lost = [one for one in replicas if one.log.directory.startswith(path + "/")]
    for partition in lost:
        replicas.mark_offline(partition.tp)
    return lost


def directory_ids(directories: Iterable[LogDirectory]) -> list[UUID]:
    """What the controller knows them by."""
    return [one.directory_id for one in directories if one.directory_id is not None]
