"""DescribeLogDirs: what this broker keeps where, and how much room is left."""

from __future__ import annotations

import os
from collections.abc import Collection

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.errors import ErrorCode
from bifrost.log.log_directory import DirectoryState
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from bifrost.types import TopicPartition


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
    for partition, size_bytes in directory.sizes.items():
        if wanted is None or partition in wanted:
            topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic, partitions=[]))
            # A log lags behind its partition only while it is on its way to another directory (AlterReplicaLogDirs).
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=partition.partition, partition_size=size_bytes, offset_lag=0, is_future_key=False
                )
            )
    return DescribeLogDirsResult(
        log_dir=path,
        topics=list(topics.values()),
        total_bytes=directory.space.total_bytes,
        usable_bytes=directory.space.usable_bytes,
        is_cordoned=directory.is_cordoned,
    )
