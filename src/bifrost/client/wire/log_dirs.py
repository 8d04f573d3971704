"""What brokers keep in which of their log directories, how much room is left there, and how replicas are moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bifrost.client.descriptions import LogDirectory, ReplicaPlace
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.failures import from_code
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from bifrost.types import TopicPartition


def describe_log_dirs(cluster: Cluster, brokers: Iterable[int], deadline: Deadline) -> list[LogDirectory]:
    """Each broker's own, by its own word. A directory that has failed tells nothing but that."""
    cluster.topics(deadline)  # which also tells where the brokers are
    found = []
    for broker in brokers:
        answer = cluster.ask_node(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, deadline)
        if answer.error_code:
            raise from_code(answer.error_code, bootstrap=str(cluster))
        found += sorted((_directory(broker, one) for one in answer.results), key=lambda each: each.path)
    return found


def replica_places(cluster: Cluster, broker: int, deadline: Deadline) -> dict[TopicPartition, ReplicaPlace]:
    """In which of its directories a broker keeps each of its replicas, and where those that move are going."""
    cluster.topics(deadline)
    answer = cluster.ask_node(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, deadline)
    if answer.error_code:
        raise from_code(answer.error_code, bootstrap=str(cluster))
    logs = [
        (TopicPartition(topic.name, part.partition_index), one.log_dir, part)
        for one in answer.results
        for topic in one.topics
        for part in topic.partitions
    ]
    found = {tp: ReplicaPlace(broker, path, part.partition_size) for tp, path, part in logs if not part.is_future_key}
    for tp, path, part in logs:
        if part.is_future_key and tp in found:
            found[tp] = replace(found[tp], future_path=path, offset_lag=part.offset_lag)
    return found


def move_replica(cluster: Cluster, broker: int, tp: TopicPartition, path: str, deadline: Deadline) -> None:
    """Have the broker begin to move its replica to another of its directories (KIP-113)."""
    cluster.topics(deadline)
    wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=tp.topic, partitions=[tp.partition])])
    answer = cluster.ask_node(broker, AlterReplicaLogDirsRequest(dirs=[wanted]), AlterReplicaLogDirsResponse, deadline)
    codes = [one.error_code for topic in answer.results for one in topic.partitions]
    if any(codes):
        raise from_code(codes[0], topic=tp.topic, partition=tp.partition, bootstrap=str(cluster))


def _directory(broker: int, told: DescribeLogDirsResult) -> LogDirectory:
    partitions = [part for topic in told.topics for part in topic.partitions]
    return LogDirectory(
        broker=broker,
        path=told.log_dir,
        error=None if told.error_code == ErrorCode.NONE else ErrorCode(told.error_code).name,
        replicas=sum(not part.is_future_key for part in partitions),
        future_replicas=sum(part.is_future_key for part in partitions),
        size_bytes=sum(part.partition_size for part in partitions),
        total_bytes=None if told.total_bytes < 0 else told.total_bytes,
        usable_bytes=None if told.usable_bytes < 0 else told.usable_bytes,
        cordoned=told.is_cordoned,
    )
