"""The log directories of one broker, and what lies in them."""

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I32, I64, Message, Struct, since


class AlterReplicaLogDirTopic(Struct):
    name: str
    partitions: list[I32]


class AlterReplicaLogDir(Struct):
    path: str
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Message, api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=range(1, 3), flexible=2):
    """Moves replicas to other directories of the same broker (KIP-113)."""

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: I32
    error_code: I16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Message, api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=range(1, 3), flexible=2):
    throttle_time_ms: I32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []  # noqa: RUF012 - msgspec makes a new one for every message


class DescribableLogDirTopic(Struct):
    topic: str
    partitions: list[I32]


class DescribeLogDirsRequest(Message, api=ApiKey.DESCRIBE_LOG_DIRS, versions=range(1, 6), flexible=2):
    # Null: everything.
    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: I32
    partition_size: I64
    offset_lag: I64
    is_future_key: bool


class DescribeLogDirsTopic(Struct):
    name: str
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: I16 = 0
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: Annotated[I64, since(4)] = -1
    usable_bytes: Annotated[I64, since(4)] = -1
    is_cordoned: Annotated[bool, since(5)] = False


class DescribeLogDirsResponse(Message, api=ApiKey.DESCRIBE_LOG_DIRS, versions=range(1, 6), flexible=2):
    throttle_time_ms: I32 = 0
    error_code: Annotated[I16, since(3)] = 0
    results: list[DescribeLogDirsResult] = []  # noqa: RUF012 - msgspec makes a new one for every message
