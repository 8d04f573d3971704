"""Records that are to be deleted from the beginning of a partition (KIP-107)."""

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I32, I64, Message, Struct


class DeleteRecordsPartition(Struct):
    partition_index: I32
    # The first offset that stays; -1 stands for the high watermark.
    offset: I64


class DeleteRecordsTopic(Struct):
    name: str
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, api=ApiKey.DELETE_RECORDS, versions=range(3), flexible=2):
    topics: list[DeleteRecordsTopic]
    timeout_ms: I32


class DeleteRecordsPartitionResult(Struct):
    partition_index: I32
    # Where the log begins at the replica that has most; -1 where it is not known.
    low_watermark: I64
    error_code: I16


class DeleteRecordsTopicResult(Struct):
    name: str
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, api=ApiKey.DELETE_RECORDS, versions=range(3), flexible=2):
    throttle_time_ms: I32 = 0
    topics: list[DeleteRecordsTopicResult]
