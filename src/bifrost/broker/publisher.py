"""Turns changes of the metadata into partitions on this node: the only place that knows both.

It runs after every committed change, on the loop, and does in one go what the change means here: logs of deleted topics
go, logs of new partitions come, leaders learn their epochs, logs their configs, and the group coordinator what it has
to coordinate.

Must never: fail because of one partition. What a broken disk takes with it is marked offline, the rest goes on. A full
disk is not a broken one: a partition that it has no room for waits. Nor delete what no record of the metadata deletes:
logs that the metadata does not know are set aside.
"""

from __future__ import annotations

import logging
from uuid import UUID

from bifrost.broker.directory_assignments import DirectoryAssignments
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.metadata_cache import MetadataCache
from bifrost.broker.waiters import Waiters
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.state import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, Topic
from bifrost.controller.core.state import Partition as PartitionState
from bifrost.coordinator.driver import GroupCoordinator
from bifrost.coordinator.router import OFFSETS_TOPIC
from bifrost.errors import DiskFullError, StorageError
from bifrost.log.manager import LogManager
from bifrost.log.partition_log import PartitionLog
from bifrost.replication.followers import Followers
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.settings import TopicConfig
from bifrost.types import NodeId, TopicPartition

_log = logging.getLogger(__name__)


class Publisher:
    """Keeps this node's partitions in step with the image."""

    def __init__(
        self,
        node_id: NodeId,
        live: LiveSettings,
        logs: LogManager,
        replicas: ReplicaManager,
        waiters: Waiters,
        metadata: MetadataCache,
        groups: GroupCoordinator,
        around: Surroundings,
        followers: Followers,
        assignments: DirectoryAssignments,
    ) -> None:
        self._node_id = node_id
        self._live = live
        self._logs = logs
        self._replicas = replicas
        self._waiters = waiters
        self._metadata = metadata
        self._groups = groups
        self._around = around
        self._followers = followers
        self._assignments = assignments
        self._waiting: dict[TopicPartition, None] = {}  # for room on a full disk

    def publish_all(self, image: MetadataImage) -> None:
        """At start: take in everything there is, and set aside the logs that nobody asks this node to have."""
        self._note_brokers(image)
        for topic in image.topics.values():
            config = self._live.topic_config(topic.name)
            for index, state in enumerate(topic.partitions):
                self._place(topic, index, state, config, is_new=False)
        for tp in self._logs.partitions:
            known = image.partition(tp.topic, tp.partition)
            if known is None or self._node_id not in known.replicas:
                self._set_aside(tp, "unknown to the metadata" if known is None else "not assigned to this node")

    def publish(self, image: MetadataImage, delta: Delta) -> None:
        """Act on what has changed."""
        if delta.brokers:
            self._note_brokers(image)
        for topic in delta.topics_deleted.values():
            self._metadata.forget(topic.topic_id)
            for index in range(len(topic.partitions)):
                self._remove(TopicPartition(topic.name, index))
        configs: dict[str, TopicConfig] = {}
        for change in delta.partitions.values():
            name = change.topic.name
            if name not in configs:
                configs[name] = self._live.topic_config(name)
            is_new = change.before is None or self._node_id not in change.before.replicas
            self._place(change.topic, change.partition, change.after, configs[name], is_new=is_new)
        self._reconfigure(image, delta)
        if delta.brokers:
            self._replicas.on_brokers_changed()
        changed = dict.fromkeys(change.topic.name for change in delta.partitions.values() if change.before is None)
        deleted = dict.fromkeys(topic.name for topic in delta.topics_deleted.values())
        if changed or deleted:
            self._groups.topics_changed(changed, deleted)

    def place_waiting(self, image: MetadataImage) -> None:
        """Try again to host what the disk had no room for; to be called every now and then."""
        waiting, self._waiting = self._waiting, {}
        for tp in waiting:
            topic, state = image.topics.get(tp.topic), image.partition(tp.topic, tp.partition)
            if topic is not None and state is not None:
                self._place(topic, tp.partition, state, self._live.topic_config(tp.topic), is_new=True)

    def _place(self, topic: Topic, index: int, state: PartitionState, config: TopicConfig, *, is_new: bool) -> None:
        """Host the partition if this node is one of its replicas, and lead it if it is the leader."""
        tp = TopicPartition(topic.name, index)
        if self._node_id not in state.replicas:
            self._remove(tp)
            return
        try:
            partition = self._replicas.find(tp) or self._create(topic, tp, state, config, is_new=is_new)
        except DiskFullError as error:
            _log.warning("partition waits for room tp=%s path=%s reason=%r", tp, error.path, error.detail)
            self._replicas.mark_offline(tp)
            self._waiting[tp] = None
            return
        except StorageError as error:
            self._logs.take_offline(error)
            self._replicas.mark_offline(tp)
            self._tell_directory(topic, index, state)
            return
        self._tell_directory(topic, index, state)
        replicas = tuple(map(NodeId, state.replicas))
        if state.leader == self._node_id:
            isr = frozenset(map(NodeId, state.isr))
            partition.lead(state.leader_epoch, replicas, isr, state.partition_epoch)
            self._followers.forget(partition)
            if tp.topic == OFFSETS_TOPIC:
                self._groups.elected(partition)
        else:
            self._follow(partition, NodeId(state.leader) if state.has_leader else None, state.leader_epoch, replicas)

    def tell_moved(self, image: MetadataImage, tp: TopicPartition) -> None:
        """The replica is in another directory now."""
        topic, state = image.topics.get(tp.topic), image.partition(*tp)
        if topic is not None and state is not None and self._node_id in state.replicas:
            self._tell_directory(topic, tp.partition, state)

    def _tell_directory(self, topic: Topic, index: int, state: PartitionState) -> None:
        """The controller should know where the replica is; of one that is nowhere, that it is (KIP-858)."""
        known = state.directory_of(self._node_id)
        actual = self._logs.directory_id_of(TopicPartition(topic.name, index))
        if actual is None:
            actual = LOST_DIRECTORY if known == UNASSIGNED_DIRECTORY else known
        self._assignments.note(topic.topic_id, index, actual=actual, known=known)

    def _follow(self, partition: Partition, leader: NodeId | None, epoch: int, replicas: tuple[NodeId, ...]) -> None:
        if (partition.leader_id, partition.leader_epoch) == (leader, epoch) and not partition.is_leader:
            partition.replicas = replicas
            self._followers.look_again(partition)  # it may be in sync now
            return
        partition.follow(leader, epoch, replicas)
        if partition.tp.topic == OFFSETS_TOPIC:
            self._groups.resigned(partition.tp.partition)
        self._followers.assign(partition)

    def _note_brokers(self, image: MetadataImage) -> None:
        """Who may be in sync, for leaders to look at."""
        self._metadata.note_brokers()
        live = self._around.live
        live.clear()
        live.update((NodeId(one.broker_id), one.epoch) for one in image.brokers.values() if one.active)

    def _create(
        self, topic: Topic, tp: TopicPartition, state: PartitionState, config: TopicConfig, *, is_new: bool
    ) -> Partition:
        log = self._existing_log(topic, tp)
        if log is None:
            directory_id = state.directory_of(self._node_id)
            if self._logs.offline and not is_new and not self._logs.placing.is_online(directory_id):
                # An empty log elsewhere would look as if everything in the partition had been lost.
                raise StorageError(next(iter(self._logs.offline)), f"{tp} is in it, or nowhere")
            log = self._create_log(topic, tp, config, directory_id)
        partition = Partition(
            tp,
            log,
            self._around,
            min_insync_replicas=config.min_insync_replicas,
            high_watermark=self._logs.high_watermarks.get(tp, 0),
            topic_id=topic.topic_id,
        )
        self._replicas.add(partition)
        return partition

    def _create_log(self, topic: Topic, tp: TopicPartition, config: TopicConfig, directory_id: bytes) -> PartitionLog:
        """In the first directory that will have it: one that fails is left, and another tried (Kafka: LogManager)."""
        left = len(self._logs.directories)
        while True:
            try:
                return self._logs.create(tp, UUID(bytes=topic.topic_id), self._live.log_config(config), directory_id)
            except DiskFullError:
                raise
            except StorageError as error:
                self._logs.take_offline(error)
                if not 0 < len(self._logs.directories) < left:
                    raise
                left = len(self._logs.directories)

    def _existing_log(self, topic: Topic, tp: TopicPartition) -> PartitionLog | None:
        """The log that is there, unless it is of another topic of the same name, which then is not in the way."""
        log = self._logs.get(tp)
        if log is not None and log.topic_id is not None and log.topic_id.bytes != topic.topic_id:
            self._logs.set_aside(tp, f"of another topic, {log.topic_id}")
            return None
        return log

    def _remove(self, tp: TopicPartition) -> None:
        partition = self._replicas.remove(tp)
        if partition is not None:
            self._followers.forget(partition)
            self._assignments.forget(partition.topic_id, tp.partition)
            if tp.topic == OFFSETS_TOPIC:
                self._groups.resigned(tp.partition)
            self._waiters.forget(tp)
            try:
                self._logs.delete(tp)
            except StorageError as error:
                self._logs.take_offline(error)

    def _set_aside(self, tp: TopicPartition, reason: str) -> None:
        try:
            self._logs.set_aside(tp, reason)
        except StorageError as error:
            self._logs.take_offline(error)

    def _mine(self, delta: Delta) -> bool:
        """Whether the settings of this node have changed."""
        return any((BROKER_RESOURCE, name) in delta.configs for name in (EVERY_BROKER, str(self._node_id)))

    def _reconfigure(self, image: MetadataImage, delta: Delta) -> None:
        """Tell logs their configs, all of them if what topics inherit has changed."""
        if self._mine(delta):
            changed = list(image.topics.values())
        else:
            names = [name for resource_type, name in delta.configs if resource_type == TOPIC_RESOURCE]
            changed = [image.topics[name] for name in names if name in image.topics]
        for topic in changed:
            config = self._live.topic_config(topic.name)
            for index in range(len(topic.partitions)):
                partition = self._replicas.find(TopicPartition(topic.name, index))
                if partition is not None:
                    partition.log.config = self._live.log_config(config)
                    partition.min_insync_replicas = config.min_insync_replicas
                    self._followers.look_again(partition)
