"""Offsets of a partition's log: by timestamp, and by leader epoch."""

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I8, I16, I32, I64, Message, Struct, since


class ListOffsetsPartition(Struct):
    partition_index: I32
    current_leader_epoch: Annotated[I32, since(4)] = -1
    # Negative values ask for a place: -1 the end, -2 the start, -3 the largest timestamp (v7, KIP-734), -4 the local
    # start (v8, KIP-405), -5 the end of what is tiered (v9, KIP-1005), -6 the start of what is not (v11, KIP-1023).
    timestamp: I64


class ListOffsetsTopic(Struct):
    name: str
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api=ApiKey.LIST_OFFSETS, versions=range(1, 12), flexible=6):
    replica_id: I32 = -1
    isolation_level: Annotated[I8, since(2)] = 0
    topics: list[ListOffsetsTopic]
    # How long tiered storage may take (KIP-1075).
    timeout_ms: Annotated[I32, since(10)] = 0


class ListOffsetsPartitionResponse(Struct):
    partition_index: I32
    error_code: I16 = 0
    timestamp: I64 = -1
    offset: I64 = -1
    leader_epoch: Annotated[I32, since(4)] = -1


class ListOffsetsTopicResponse(Struct):
    name: str
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, api=ApiKey.LIST_OFFSETS, versions=range(1, 12), flexible=6):
    """OFFSET_NOT_AVAILABLE may travel from v5 on (KIP-207)."""

    throttle_time_ms: Annotated[I32, since(2)] = 0
    topics: list[ListOffsetsTopicResponse]


class OffsetForLeaderPartition(Struct):
    partition: I32
    # The epoch that the asker believes to be current, against the one that it asks about.
    current_leader_epoch: I32 = -1
    leader_epoch: I32


class OffsetForLeaderTopic(Struct):
    topic: str
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=range(2, 5), flexible=4):
    """Where an epoch ended: how followers and consumers find out that they must truncate (KIP-101, KIP-320)."""

    # -2 is a debugging consumer, which is also what clients that cannot say are taken for.
    replica_id: Annotated[I32, since(3)] = -2
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: I16 = 0
    partition: I32
    leader_epoch: I32 = -1
    end_offset: I64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: str
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=range(2, 5), flexible=4):
    throttle_time_ms: I32 = 0
    topics: list[OffsetForLeaderTopicResult]
