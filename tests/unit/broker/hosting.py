"""A publisher with real logs in memory, driven by records as the controller would commit them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

from bifrost.broker.directory_assignments import DirectoryAssignments
from bifrost.broker.known_topics import KnownTopics
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.metadata_cache import MetadataCache
from bifrost.broker.publisher import Publisher
from bifrost.broker.waiters import Waiters
from bifrost.clock import SystemClock
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import MetadataRecord
from bifrost.controller.core.topics import NewTopic, TopicRef, create_topics, delete_topics
from bifrost.coordinator.driver import GroupCoordinator
from bifrost.errors import StorageError
from bifrost.log.config import FlushPolicy
from bifrost.log.log_directory import LogDirectory
from bifrost.log.manager import LogManager
from bifrost.log.memory_disk import MemoryDisk, MemoryFile
from bifrost.log.names import STRAY_DIRECTORY, partition_of
from bifrost.peers.transport import TcpTransport
from bifrost.protocol.messages.replicas import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from bifrost.replication.followers import Followers
from bifrost.replication.following_node import FetchSettings, FollowingNode
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.settings import Settings
from bifrost.types import NodeId, TopicPartition
from tests.unit.controller.stand_ins import apply, cluster_of, topic_id

ME = NodeId(1)


class BrokenDisk(MemoryDisk):
    """Fails where `fails` says so, with what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: Callable[[str], StorageError | None] = lambda _: None

    def _check(self, path: str) -> None:
        error = self.fails(path)
        if error is not None:
            raise error

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self._check(path)
        return super().open(path, create=create)

    def makedirs(self, path: str) -> None:
        self._check(path)
        super().makedirs(path)

    def rename(self, old: str, new: str) -> None:
        self._check(old)
        super().rename(old, new)


class Hosting:
    """One node's partitions. `await Hosting.start()`."""

    def __init__(
        self, disk: BrokenDisk, image: MetadataImage, directories: tuple[str, ...], policy: FlushPolicy
    ) -> None:
        self.disk = disk
        self.image = image
        self.settings = Settings()
        self.live = live = LiveSettings(self.settings, image)
        self.offline: list[str] = []
        loop = asyncio.get_running_loop()
        self.logs = LogManager(
            disk,
            [LogDirectory(disk, path) for path in directories],
            loop=loop,
            clock=SystemClock(),
            rng=random.Random(3),
            cluster_id=image.cluster_id or "",
            node_id=ME,
            config_for=lambda name: live.log_config(live.topic_config(name)),
            policy=policy,
            on_offline=lambda path, _: self.offline.append(path),
        )
        self.replicas = ReplicaManager(lambda tp: image.partition(*tp) is not None)
        self.waiters = Waiters(loop)
        self.metadata = MetadataCache(image, ME, loop.time)
        self.groups = GroupCoordinator(
            self.settings,
            KnownTopics(image),
            self.waiters,
            loop=loop,
            clock=SystemClock(),
            rng=random.Random(4),
            on_storage_error=self.logs.take_offline,
            configs_of=lambda _: {},
        )
        self.followed: list[str] = []
        """Whom this node would fetch from; nobody is reached in these tests."""
        self.assignments = DirectoryAssignments(self._assign, broker_id=ME, broker_epoch=lambda: 1)
        self.publisher = Publisher(
            ME,
            live,
            self.logs,
            self.replicas,
            self.waiters,
            self.metadata,
            self.groups,
            Surroundings(me=ME, wake=self.waiters.wake, nudge=self.waiters.nudge),
            Followers(self._following(), self._spawn),
            self.assignments,
        )

    async def _assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        raise AssertionError(request)  # nobody runs what asks

    def _following(self) -> FollowingNode:
        return FollowingNode(
            broker_id=ME,
            broker_epoch=lambda: 1,
            address_of=lambda _: None,
            transport=TcpTransport(),
            clock=SystemClock(),
            settings=FetchSettings(max_wait_ms=1, max_bytes=1, partition_max_bytes=1, pause_max_ms=1, timeout_ms=1),
            on_storage_error=self.logs.take_offline,
        )

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        work.close()
        self.followed.append(name)
        return asyncio.ensure_future(asyncio.sleep(0))

    @classmethod
    async def start(
        cls,
        disk: BrokenDisk | None = None,
        image: MetadataImage | None = None,
        directories: tuple[str, ...] = ("/data",),
        policy: FlushPolicy = FlushPolicy.OS,
    ) -> Hosting:
        """A node that starts on this disk with this metadata."""
        hosting = cls(disk or BrokenDisk(), image or cluster_of(1), directories, policy)
        await hosting.logs.load()
        hosting.publisher.publish_all(hosting.image)
        return hosting

    async def stop(self) -> None:
        await self.logs.close()

    def commit(self, *records: MetadataRecord) -> None:
        """One change of the metadata, published."""
        delta = apply(self.image, records)
        self.live.on_change(self.image, delta)
        self.publisher.publish(self.image, delta)

    def create(self, name: str, partitions: int = 1, number: int = 100, **configs: str) -> None:
        new = NewTopic(name, partitions, 1, configs=[(key.replace("_", "."), text) for key, text in configs.items()])
        decision = create_topics(self.image, self.settings, [new], topic_ids=[topic_id(number)])
        self.commit(*decision.records)

    def delete(self, name: str) -> None:
        self.commit(*delete_topics(self.image, self.settings, [TopicRef(name)]).records)

    def partition(self, name: str, index: int = 0) -> Partition:
        return self.replicas.get(TopicPartition(name, index))

    def folders(self, directory: str = "/data") -> list[str]:
        """Partitions that have a place on disk."""
        return [name for name in self.disk.directories(directory) if partition_of(name) is not None]

    def strays(self, directory: str = "/data") -> list[str]:
        """Partitions whose logs were set aside."""
        names = self.disk.directories(directory)
        return [name.rsplit(".", 1)[0] for name in names if name.endswith(STRAY_DIRECTORY)]
