"""What a client asks first: who are you, what do you speak, which brokers and partitions are there."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated
from uuid import UUID

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages import AUTHORIZED_OPERATIONS_OMITTED
from bifrost.protocol.schema import I8, I16, I32, I64, ZERO_UUID, Message, Struct, before, nullable_since, since, tag


class ApiVersionsRequest(Message, api=ApiKey.API_VERSIONS, versions=range(5), flexible=3):
    """v3 introduces the client's software (KIP-511)."""

    client_software_name: Annotated[str, since(3)] = ""
    client_software_version: Annotated[str, since(3)] = ""


class ApiVersion(Struct):
    api_key: I16
    min_version: I16
    max_version: I16


class SupportedFeatureKey(Struct):
    name: str
    min_version: I16
    max_version: I16


class FinalizedFeatureKey(Struct):
    name: str
    max_version_level: I16
    min_version_level: I16


class ApiVersionsResponse(Message, api=ApiKey.API_VERSIONS, versions=range(5), flexible=3):
    """A request of a version that we do not know is answered in v0: every client can read that (KIP-511)."""

    error_code: I16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[I32, since(1)] = 0
    # Before v4, clients stumble over a feature whose lowest version is 0 (KAFKA-17011).
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tag(0)] = []
    # Negative: the finalized features are not known, whatever their list says (KIP-584).
    finalized_features_epoch: Annotated[I64, since(3), tag(1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tag(2)] = []
    zk_migration_ready: Annotated[bool, since(3), tag(3)] = False


class DescribeClusterRequest(Message, api=ApiKey.DESCRIBE_CLUSTER, versions=range(3), flexible=0):
    """KIP-700. v1 may ask for controllers (KIP-919), v2 for fenced brokers too (KIP-1073)."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[I8, since(1)] = 1
    include_fenced_brokers: Annotated[bool, since(2)] = False


class DescribeClusterBroker(Struct):
    broker_id: I32
    host: str
    port: I32
    rack: str | None = None
    is_fenced: Annotated[bool, since(2)] = False


class DescribeClusterResponse(Message, api=ApiKey.DESCRIBE_CLUSTER, versions=range(3), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[I8, since(1)] = 1
    cluster_id: str = ""
    controller_id: I32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: I32 = AUTHORIZED_OPERATIONS_OMITTED


class MetadataRequestTopic(Struct):
    # v10 and v11 carry the id, but only v12 asks by it (KIP-516).
    topic_id: Annotated[UUID, since(10)] = ZERO_UUID
    name: Annotated[str | None, nullable_since(10)]


class MetadataRequest(Message, api=ApiKey.METADATA, versions=range(14), flexible=9):
    """No topics means all of them in v0 and none from v1 on, where null means all."""

    topics: Annotated[list[MetadataRequestTopic] | None, nullable_since(1)]
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    # Moved to DescribeCluster (KIP-700).
    include_cluster_authorized_operations: Annotated[bool, since(8), before(11)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


class MetadataResponseBroker(Struct):
    node_id: I32
    host: str
    port: I32
    rack: Annotated[str | None, since(1)] = None


class MetadataResponsePartition(Struct):
    error_code: I16 = 0
    partition_index: I32
    leader_id: I32
    leader_epoch: Annotated[I32, since(7)] = -1
    replica_nodes: list[I32]
    isr_nodes: list[I32]
    offline_replicas: Annotated[list[I32], since(5)] = []


class MetadataResponseTopic(Struct):
    error_code: I16 = 0
    # Null answers an id that nobody knows.
    name: Annotated[str | None, nullable_since(12)]
    topic_id: Annotated[UUID, since(10)] = ZERO_UUID
    is_internal: Annotated[bool, since(1)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[I32, since(8)] = AUTHORIZED_OPERATIONS_OMITTED


class MetadataResponse(Message, api=ApiKey.METADATA, versions=range(14), flexible=9):
    """The broker writes it through `protocol.metadata`, which is made for size; this is for who reads it."""

    throttle_time_ms: Annotated[I32, since(3)] = 0
    brokers: list[MetadataResponseBroker]
    cluster_id: Annotated[str | None, since(2)] = None
    controller_id: Annotated[I32, since(1)] = -1
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[I32, since(8), before(11)] = AUTHORIZED_OPERATIONS_OMITTED
    # Tells a client to start again from its bootstrap addresses (KIP-1102).
    error_code: Annotated[I16, since(13)] = 0


class TopicRequest(Struct):
    name: str


class Cursor(Struct):
    topic_name: str
    partition_index: I32


class DescribeTopicPartitionsRequest(Message, api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=range(1), flexible=0):
    """KIP-966. Answers come in pages; `cursor` is where the next one starts."""

    topics: list[TopicRequest]
    response_partition_limit: I32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: I16 = 0
    partition_index: I32
    leader_id: I32
    leader_epoch: I32 = -1
    replica_nodes: list[I32]
    isr_nodes: list[I32]
    eligible_leader_replicas: list[I32] | None = None
    last_known_elr: list[I32] | None = None
    offline_replicas: list[I32] = []


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: I16 = 0
    name: str | None
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: I32 = AUTHORIZED_OPERATIONS_OMITTED


class DescribeTopicPartitionsResponse(Message, api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
