"""Creating, growing and deleting topics."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated
from uuid import UUID

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I8, I16, I32, ZERO_UUID, Message, Struct, before, nullable_since, since, tag


class CreatableReplicaAssignment(Struct):
    partition_index: I32
    broker_ids: list[I32]


class CreatableTopicConfig(Struct):
    name: str
    value: str | None


class CreatableTopic(Struct):
    name: str
    # -1 beside assignments; from v4 on also without them, and then the broker's default holds (KIP-464).
    num_partitions: I32 = -1
    replication_factor: I16 = -1
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Message, api=ApiKey.CREATE_TOPICS, versions=range(2, 8), flexible=5):
    topics: list[CreatableTopic]
    timeout_ms: I32 = 60000
    validate_only: bool = False


class CreatableTopicConfigs(Struct):
    name: str
    value: str | None
    read_only: bool = False
    config_source: I8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Struct):
    name: str
    topic_id: Annotated[UUID, since(7)] = ZERO_UUID
    error_code: I16 = 0
    error_message: str | None = None
    # Set when the client may create the topic but not read its configuration, which is then null (KIP-525).
    topic_config_error_code: Annotated[I16, since(5), tag(0)] = 0
    num_partitions: Annotated[I32, since(5)] = -1
    replication_factor: Annotated[I16, since(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5)] = []


class CreateTopicsResponse(Message, api=ApiKey.CREATE_TOPICS, versions=range(2, 8), flexible=5):
    """v5 returns what was created (KIP-525), v7 its id (KIP-516)."""

    throttle_time_ms: I32 = 0
    topics: list[CreatableTopicResult]


class DeleteTopicState(Struct):
    name: str | None = None
    topic_id: UUID = ZERO_UUID


class DeleteTopicsRequest(Message, api=ApiKey.DELETE_TOPICS, versions=range(1, 7), flexible=4):
    """v6 names a topic or gives its id (KIP-516), in another field."""

    topics: Annotated[list[DeleteTopicState], since(6)] = []
    topic_names: Annotated[list[str], before(6)] = []
    timeout_ms: I32


class DeletableTopicResult(Struct):
    name: Annotated[str | None, nullable_since(6)]
    topic_id: Annotated[UUID, since(6)] = ZERO_UUID
    error_code: I16 = 0
    error_message: Annotated[str | None, since(5)] = None


class DeleteTopicsResponse(Message, api=ApiKey.DELETE_TOPICS, versions=range(1, 7), flexible=4):
    throttle_time_ms: I32 = 0
    responses: list[DeletableTopicResult]


class CreatePartitionsAssignment(Struct):
    broker_ids: list[I32]


class CreatePartitionsTopic(Struct):
    name: str
    # The new total, not the number to add (KIP-195).
    count: I32
    assignments: list[CreatePartitionsAssignment] | None = None


class CreatePartitionsRequest(Message, api=ApiKey.CREATE_PARTITIONS, versions=range(4), flexible=2):
    topics: list[CreatePartitionsTopic]
    timeout_ms: I32
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct):
    name: str
    error_code: I16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message, api=ApiKey.CREATE_PARTITIONS, versions=range(4), flexible=2):
    throttle_time_ms: I32 = 0
    results: list[CreatePartitionsTopicResult]
