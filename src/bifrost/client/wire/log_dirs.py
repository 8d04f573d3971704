"""What brokers keep in which of their log directories, and how much room is left there."""

from __future__ import annotations

from collections.abc import Iterable

from bifrost.client.descriptions import LogDirectory
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.failures import from_code
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult


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
