"""Where the replicas of partitions are, which of them are in sync, and which one leads."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated
from uuid import UUID

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I8, I16, I32, I64, Message, Struct, before, since


class BrokerState(Struct):
    broker_id: I32
    # -1: the leader does not know it, and it is not compared.
    broker_epoch: I64 = -1


class AlterPartitionPartition(Struct):
    partition_index: I32
    leader_epoch: I32
    new_isr: Annotated[list[I32], before(3)] = []
    new_isr_with_epochs: Annotated[list[BrokerState], since(3)] = []
    # 1 while the leader recovers from an election that was unclean (KIP-704).
    leader_recovery_state: I8 = 0
    # The change counts only if nobody changed the partition since.
    partition_epoch: I32


class AlterPartitionTopic(Struct):
    topic_id: UUID
    partitions: list[AlterPartitionPartition]


class AlterPartitionRequest(Message, api=ApiKey.ALTER_PARTITION, versions=range(2, 4), flexible=0):
    """A leader asks the controller for another set of in-sync replicas (KIP-497).

    v2 names topics by id (KIP-841), v3 replicas with their epochs, so that none enters that has restarted (KIP-903).
    """

    broker_id: I32
    broker_epoch: I64 = -1
    topics: list[AlterPartitionTopic]


class AlterPartitionPartitionResult(Struct):
    partition_index: I32
    error_code: I16 = 0
    leader_id: I32
    leader_epoch: I32
    isr: list[I32] = []
    leader_recovery_state: I8 = 0
    partition_epoch: I32


class AlterPartitionTopicResult(Struct):
    topic_id: UUID
    partitions: list[AlterPartitionPartitionResult]


class AlterPartitionResponse(Message, api=ApiKey.ALTER_PARTITION, versions=range(2, 4), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    topics: list[AlterPartitionTopicResult] = []


class TopicPartitions(Struct):
    topic: str
    partitions: list[I32]


class ElectLeadersRequest(Message, api=ApiKey.ELECT_LEADERS, versions=range(3), flexible=2):
    """Brings leadership to the preferred replicas (KIP-183), or to whoever lives if v1 asks for it (KIP-460)."""

    # 0: the first of the replicas, if it is in sync; 1: one out of sync if no other lives, at the price of data.
    election_type: Annotated[I8, since(1)] = 0
    # Null: every partition.
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: I32 = 60_000


class PartitionResult(Struct):
    partition_id: I32
    error_code: I16 = 0
    error_message: str | None = None


class ReplicaElectionResult(Struct):
    topic: str
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Message, api=ApiKey.ELECT_LEADERS, versions=range(3), flexible=2):
    """v0 has no place for an error of the whole request."""

    throttle_time_ms: I32 = 0
    error_code: Annotated[I16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []


class ReassignablePartition(Struct):
    partition_index: I32
    # Null: stop a move that is under way.
    replicas: list[I32] | None = None


class ReassignableTopic(Struct):
    name: str
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(
    Message, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=range(2), flexible=0
):
    """Moves replicas to other brokers (KIP-455). v1 may insist on the number of replicas that there is (KIP-860)."""

    timeout_ms: I32 = 60_000
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: I32
    error_code: I16 = 0
    error_message: str | None = None


class ReassignableTopicResponse(Struct):
    name: str
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(
    Message, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=range(2), flexible=0
):
    throttle_time_ms: I32 = 0
    # As it was asked.
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    error_code: I16 = 0
    error_message: str | None = None
    responses: list[ReassignableTopicResponse] = []


class ListPartitionReassignmentsTopics(Struct):
    name: str
    partition_indexes: list[I32]


class ListPartitionReassignmentsRequest(
    Message, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1), flexible=0
):
    """Which moves are under way (KIP-455)."""

    timeout_ms: I32 = 60_000
    # Null: all of them.
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: I32
    replicas: list[I32]
    adding_replicas: list[I32]
    removing_replicas: list[I32]


class OngoingTopicReassignment(Struct):
    name: str
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(
    Message, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1), flexible=0
):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None
    topics: list[OngoingTopicReassignment] = []


class AssignedPartition(Struct):
    partition_index: I32


class AssignedTopic(Struct):
    topic_id: UUID
    partitions: list[AssignedPartition]


class AssignedDirectory(Struct):
    id: UUID
    topics: list[AssignedTopic]


class AssignReplicasToDirsRequest(Message, api=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions=range(1), flexible=0):
    """A broker says which of its directories hold which replicas: if one fails, their leaders move (KIP-858)."""

    broker_id: I32
    broker_epoch: I64 = -1
    directories: list[AssignedDirectory]


class AssignedPartitionResult(Struct):
    partition_index: I32
    error_code: I16 = 0


class AssignedTopicResult(Struct):
    topic_id: UUID
    partitions: list[AssignedPartitionResult]


class AssignedDirectoryResult(Struct):
    id: UUID
    topics: list[AssignedTopicResult]


class AssignReplicasToDirsResponse(Message, api=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    directories: list[AssignedDirectoryResult] = []
