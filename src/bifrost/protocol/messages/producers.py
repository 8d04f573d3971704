"""Identities of idempotent and transactional producers, and where brokers get them."""

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I32, I64, Message, Struct, since


class InitProducerIdRequest(Message, api=ApiKey.INIT_PRODUCER_ID, versions=range(6), flexible=2):
    """v3 lets a producer keep its id and ask for a higher epoch (KIP-360). v6 is not stable in Kafka (KIP-939)."""

    # Null: idempotent only, any broker may answer.
    transactional_id: str | None = None
    transaction_timeout_ms: I32
    producer_id: Annotated[I64, since(3)] = -1
    producer_epoch: Annotated[I16, since(3)] = -1


class InitProducerIdResponse(Message, api=ApiKey.INIT_PRODUCER_ID, versions=range(6), flexible=2):
    """PRODUCER_FENCED may travel from v4 on, TRANSACTION_ABORTABLE from v5 on (KIP-588, KIP-890)."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    producer_id: I64 = -1
    producer_epoch: I16 = -1


class AllocateProducerIdsRequest(Message, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions=range(1), flexible=0):
    """A broker gets producer ids from the controller in blocks, and gives them out one by one (KIP-730)."""

    broker_id: I32
    broker_epoch: I64 = -1


class AllocateProducerIdsResponse(Message, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    producer_id_start: I64 = -1
    producer_id_len: I32 = 0


class DescribeProducersTopic(Struct):
    name: str
    partition_indexes: list[I32]


class DescribeProducersRequest(Message, api=ApiKey.DESCRIBE_PRODUCERS, versions=range(1), flexible=0):
    topics: list[DescribeProducersTopic]


class ProducerState(Struct):
    producer_id: I64
    # An epoch has 16 bits everywhere else.
    producer_epoch: I32
    last_sequence: I32 = -1
    last_timestamp: I64 = -1
    coordinator_epoch: I32
    current_txn_start_offset: I64 = -1


class DescribeProducersPartitionResponse(Struct):
    partition_index: I32
    error_code: I16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState]


class DescribeProducersTopicResponse(Struct):
    name: str
    partitions: list[DescribeProducersPartitionResponse]


class DescribeProducersResponse(Message, api=ApiKey.DESCRIBE_PRODUCERS, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    topics: list[DescribeProducersTopicResponse]
