"""Logs in two directories of a disk that forgets, and what moves them from one to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any
from uuid import UUID

from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.log_moves import LogMoves
from bifrost.controller.core.image import MetadataImage
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.disk import Disk
from bifrost.log.log_directory import LogDirectory
from bifrost.log.manager import LogManager
from bifrost.log.partition_log import PartitionLog
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.settings import Settings
from bifrost.types import NodeId, TopicPartition
from tests.unit.log.batches import NOW, append, values_of

A0 = TopicPartition("a", 0)
TOPIC_ID = UUID(int=77)
ONE, TWO = "/one", "/two"


class FixedClock:
    def now_ms(self) -> int:
        return NOW


class MovingLogs:
    """A node with one partition, whose log may move. `await MovingLogs.start(disk)`."""

    def __init__(self, disk: Disk, *, policy: FlushPolicy, config: LogConfig, settings: Settings) -> None:
        self.disk = disk
        self.config = config
        self.moved: list[TopicPartition] = []
        self.lost: list[str] = []
        self.logs = LogManager(
            disk,
            [LogDirectory(disk, path) for path in (ONE, TWO)],
            loop=asyncio.get_running_loop(),
            clock=FixedClock(),
            rng=Random(1),
            cluster_id="cluster",
            node_id=1,
            config_for=lambda _: config,
            topic_id_for=lambda _: TOPIC_ID,
            policy=policy,
            on_offline=lambda path, _: self._on_offline(path),
            file_delete_delay_ms=0,
        )
        self.replicas = ReplicaManager(lambda tp: tp.topic in ("a", "elsewhere"))
        self.stopping = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self._settings = settings

    @classmethod
    async def start(
        cls,
        disk: Disk,
        *,
        policy: FlushPolicy = FlushPolicy.ACK,
        config: LogConfig | None = None,
        settings: Settings | None = None,
    ) -> MovingLogs:
        node = cls(disk, policy=policy, config=config or LogConfig(segment_bytes=400), settings=settings or Settings())
        await node.logs.load()
        node.moves = LogMoves(
            node.logs,
            node.replicas,
            LiveSettings(node._settings, MetadataImage()),
            FixedClock(),
            on_storage_error=node.logs.take_offline,
            on_moved=node.moved.append,
            spawn=node._spawn,
            stops_within=node._stops_within,
        )
        if A0 in node.logs.partitions:
            node.host()
        node.moves.resume()
        return node

    moves: LogMoves

    def create(self) -> PartitionLog:
        self.logs.create(A0, TOPIC_ID, self.config)
        return self.host()

    def host(self) -> PartitionLog:
        partition = Partition(A0, self.log, Surroundings(me=NodeId(1), wake=lambda _: None), min_insync_replicas=1)
        self.replicas.add(partition)
        return partition.log

    @property
    def log(self) -> PartitionLog:
        log = self.logs.get(A0)
        assert log is not None
        return log

    @property
    def values(self) -> list[bytes | None]:
        return values_of(self.log)

    def write(self, first: int, end: int) -> None:
        for number in range(first, end):
            append(self.log, b"value %d" % number)

    async def until_still(self) -> None:
        """Wait until nothing moves any more, for whatever reason; what ended a move is raised."""
        while self.tasks:
            await self.tasks.pop()

    def folders(self, path: str) -> list[str]:
        return self.disk.directories(path)

    def _on_offline(self, path: str) -> None:
        self.lost.append(path)
        for partition in [one for one in self.replicas if one.log.directory.startswith(path + "/")]:
            self.replicas.mark_offline(partition.tp)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self.tasks.append(task)
        return task

    async def _stops_within(self, seconds: float) -> bool:
        if seconds > 0:
            try:
                await asyncio.wait_for(self.stopping.wait(), seconds)
            except TimeoutError:
                pass
        else:
            await asyncio.sleep(0)
        return self.stopping.is_set()
