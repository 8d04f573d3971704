"""Offsets that groups commit: store, look up, forget.

From v10 on, OffsetCommit and OffsetFetch know topics by id only (KIP-848); before that, by name only.
"""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated
from uuid import UUID

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I32, I64, ZERO_UUID, Message, Struct, before, nullable_since, since


class OffsetCommitRequestPartition(Struct):
    partition_index: I32
    committed_offset: I64
    committed_leader_epoch: Annotated[I32, since(6)] = -1
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Struct):
    name: Annotated[str, before(10)] = ""
    topic_id: Annotated[UUID, since(10)] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, api=ApiKey.OFFSET_COMMIT, versions=range(2, 11), flexible=8):
    """A negative generation without a member id commits from outside the group. v9 is open to KIP-848 members."""

    group_id: str
    generation_id_or_member_epoch: I32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(7)] = None
    # Given up: the broker's configuration decides (KIP-211).
    retention_time_ms: Annotated[I64, before(5)] = -1
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: I32
    error_code: I16 = 0


class OffsetCommitResponseTopic(Struct):
    name: Annotated[str, before(10)] = ""
    topic_id: Annotated[UUID, since(10)] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, api=ApiKey.OFFSET_COMMIT, versions=range(2, 11), flexible=8):
    throttle_time_ms: Annotated[I32, since(3)] = 0
    topics: list[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(Struct):
    name: str
    partition_indexes: list[I32]


class OffsetFetchRequestTopics(Struct):
    name: Annotated[str, before(10)] = ""
    topic_id: Annotated[UUID, since(10)] = ZERO_UUID
    partition_indexes: list[I32]


class OffsetFetchRequestGroup(Struct):
    group_id: str
    member_id: Annotated[str | None, since(9)] = None
    member_epoch: Annotated[I32, since(9)] = -1
    # Null asks for everything the group has committed.
    topics: list[OffsetFetchRequestTopics] | None = None


class OffsetFetchRequest(Message, api=ApiKey.OFFSET_FETCH, versions=range(1, 11), flexible=6):
    """v8 asks for many groups at once (KIP-709), in another field."""

    group_id: Annotated[str, before(8)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, before(8), nullable_since(2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = []
    # Offsets of an open transaction are an error then, not their old values (KIP-447).
    require_stable: Annotated[bool, since(7)] = False


class OffsetFetchResponsePartition(Struct):
    partition_index: I32
    committed_offset: I64
    committed_leader_epoch: Annotated[I32, since(5)] = -1
    metadata: str | None = ""
    error_code: I16 = 0


class OffsetFetchResponseTopic(Struct):
    name: str
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: I32
    committed_offset: I64
    committed_leader_epoch: I32 = -1
    metadata: str | None = ""
    error_code: I16 = 0


class OffsetFetchResponseTopics(Struct):
    name: Annotated[str, before(10)] = ""
    topic_id: Annotated[UUID, since(10)] = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: str
    topics: list[OffsetFetchResponseTopics] = []
    error_code: I16 = 0


class OffsetFetchResponse(Message, api=ApiKey.OFFSET_FETCH, versions=range(1, 11), flexible=6):
    throttle_time_ms: Annotated[I32, since(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], before(8)] = []
    error_code: Annotated[I16, since(2), before(8)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = []


class OffsetDeleteRequestPartition(Struct):
    partition_index: I32


class OffsetDeleteRequestTopic(Struct):
    name: str
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, api=ApiKey.OFFSET_DELETE, versions=range(1)):
    """KIP-496. The only API beside SaslHandshake that never became flexible."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: I32
    error_code: I16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: str
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, api=ApiKey.OFFSET_DELETE, versions=range(1)):
    # The error before the throttle time, unlike everywhere else.
    error_code: I16 = 0
    throttle_time_ms: I32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
