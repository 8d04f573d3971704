"""DescribeLogDirs, AlterReplicaLogDirs: what this broker keeps where, how much room is left, and what shall move."""

from __future__ import annotations

import os
from collections.abc import Collection

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.errors import ErrorCode
from bifrost.log.log_directory import DirectoryState
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from bifrost.types import TopicPartition


@api(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=range(1, 3))
def alter_replica_log_dirs(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """KIP-113. The answer says that it has begun, not that it is done: DescribeLogDirs tells. v2 is flexible."""
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for tp, path in wanted.items():
        result = topics.setdefault(tp.topic, AlterReplicaLogDirTopicResult(topic_name=tp.topic, partitions=[]))
        code = ctx.broker.log_moves.request(tp, path)
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


@api(ApiKey.DESCRIBE_LOG_DIRS, versions=range(1, 6))
async def describe_log_dirs(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """v3 an error for all (KIP-784); v4 the size of the volume (KIP-827); v5 cordoned directories (KIP-1066)."""
    wanted: Collection[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    directories = await ctx.broker.logs.describe()
    return DescribeLogDirsResponse(results=[_result(directory, wanted) for directory in directories])


def _result(directory: DirectoryState, wanted: Collection[TopicPartition] | None) -> DescribeLogDirsResult:
    path = os.path.abspath(directory.path)
    if directory.sizes is None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
    topics: dict[str, DescribeLogDirsTopic] = {}
    logs = [(partition, size_bytes, 0, False) for partition, size_bytes in directory.sizes.items()]
    logs += [(partition, copy.size_bytes, copy.offset_lag, True) for partition, copy in directory.copies.items()]
    for partition, size_bytes, lag, is_copy in logs:
        if wanted is None or partition in wanted:
            topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic, partitions=[]))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=partition.partition,
                    partition_size=size_bytes,
                    offset_lag=lag,
                    is_future_key=is_copy,
                )
            )
    return DescribeLogDirsResult(
        log_dir=path,
        topics=list(topics.values()),
        total_bytes=directory.space.total_bytes,
        usable_bytes=directory.space.usable_bytes,
        is_cordoned=directory.is_cordoned,
    )
