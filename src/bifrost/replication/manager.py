"""The partitions that this node hosts, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bifrost.errors import ApiError, ErrorCode
from bifrost.replication.partition import Partition
from bifrost.types import TopicPartition


class ReplicaManager:
    """Finds a partition, or says why not."""

    def __init__(self, exists: Callable[[TopicPartition], bool] = lambda _: False) -> None:
        self.exists = exists
        """Whether the cluster has such a partition, here or elsewhere."""
        self._partitions: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, None] = {}

    def get(self, tp: TopicPartition) -> Partition:
        """The partition, or the ApiError that tells a client why it is not served here.

        Whoever asks for what others host should look where it is, and not give up on it: it may have moved (Kafka:
        ReplicaManager.getPartitionOrError).
        """
        partition = self._partitions.get(tp)
        if partition is None:
            if tp in self._offline:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {tp} failed")
            if self.exists(tp):
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(tp))
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        return partition

    def find(self, tp: TopicPartition) -> Partition | None:
        return self._partitions.get(tp)

    def add(self, partition: Partition) -> None:
        assert partition.tp not in self._partitions, f"{partition.tp} is hosted already"
        self._partitions[partition.tp] = partition
        self._offline.pop(partition.tp, None)

    def mark_offline(self, tp: TopicPartition) -> None:
        """Its disk failed: it belongs here, but cannot be served."""
        self.remove(tp)
        self._offline[tp] = None

    def remove(self, tp: TopicPartition) -> Partition | None:
        """Forget the partition; whoever waits on it learns that this node does not lead it any more."""
        self._offline.pop(tp, None)
        partition = self._partitions.pop(tp, None)
        if partition is not None:
            partition.resign()
        return partition

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """What `replication-offset-checkpoint` keeps."""
        return {tp: partition.high_watermark for tp, partition in self._partitions.items()}

    def on_tick(self, now_ms: float, lag_max_ms: float) -> None:
        """Time has passed: followers that are behind for too long are not in sync any more."""
        for partition in self._partitions.values():
            partition.on_tick(now_ms, lag_max_ms)

    def on_brokers_changed(self) -> None:
        """Brokers have come or gone."""
        for partition in self._partitions.values():
            partition.on_brokers_changed()

    def __contains__(self, tp: object) -> bool:
        return tp in self._partitions

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)
