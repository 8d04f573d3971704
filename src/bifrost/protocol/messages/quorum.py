"""The life of the metadata quorum: votes, the start and end of a leader's epoch, who is how far, and snapshots.

A controller's log is replicated by Fetch; these are the messages around it (KIP-595). All of them could name several
topics, and always name one partition, `__cluster_metadata-0`.
"""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated
from uuid import UUID

from msgspec import field

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.voters import Endpoint
from bifrost.protocol.schema import I16, I32, I64, U16, ZERO_UUID, Message, Struct, before, since, tag


class NodeEndpoint(Struct):
    """Where a node that the answer names as leader listens for the listener that was asked."""

    node_id: I32
    host: str
    port: U16


class VotePartition(Struct):
    partition_index: I32
    # The epoch that the sender wants to lead; in a pre-vote the one that it is in.
    replica_epoch: I32
    replica_id: I32
    replica_directory_id: Annotated[UUID, since(1)] = ZERO_UUID
    # With `voter_id`, whom the sender means: a voter that lost its disk must not vote twice in an epoch.
    voter_directory_id: Annotated[UUID, since(1)] = ZERO_UUID
    # Where the sender's log ends: a vote goes to nobody whose log is behind.
    last_offset_epoch: I32
    last_offset: I64
    pre_vote: Annotated[bool, since(2)] = False


class VoteTopic(Struct):
    topic_name: str
    partitions: list[VotePartition]


class VoteRequest(Message, api=ApiKey.VOTE, versions=range(3), flexible=0):
    """Asks for a vote. v1 names voters by directory too (KIP-853), v2 may ask without a new epoch (KIP-996)."""

    cluster_id: str | None = None
    voter_id: Annotated[I32, since(1)] = -1
    topics: list[VoteTopic]


class VotePartitionResult(Struct):
    partition_index: I32
    error_code: I16 = 0
    leader_id: I32
    leader_epoch: I32
    vote_granted: bool


class VoteTopicResult(Struct):
    topic_name: str
    partitions: list[VotePartitionResult]


class VoteResponse(Message, api=ApiKey.VOTE, versions=range(3), flexible=0):
    """v1 says where the leader is (KIP-853)."""

    error_code: I16 = 0
    topics: list[VoteTopicResult] = []
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = []


class QuorumEpochPartitionResult(Struct):
    """The leader and the epoch that the answering node knows, whatever the request said."""

    partition_index: I32
    error_code: I16 = 0
    leader_id: I32
    leader_epoch: I32


class QuorumEpochTopicResult(Struct):
    topic_name: str
    partitions: list[QuorumEpochPartitionResult]


class BeginQuorumEpochPartition(Struct):
    partition_index: I32
    voter_directory_id: Annotated[UUID, since(1)] = ZERO_UUID
    leader_id: I32
    leader_epoch: I32


class BeginQuorumEpochTopic(Struct):
    topic_name: str
    partitions: list[BeginQuorumEpochPartition]


class BeginQuorumEpochRequest(Message, api=ApiKey.BEGIN_QUORUM_EPOCH, versions=range(2), flexible=1):
    """A new leader makes itself known. v1 says to which voter, and where the leader listens (KIP-853)."""

    cluster_id: str | None = None
    voter_id: Annotated[I32, since(1)] = -1
    topics: list[BeginQuorumEpochTopic]
    leader_endpoints: Annotated[list[Endpoint], since(1)] = []


class BeginQuorumEpochResponse(Message, api=ApiKey.BEGIN_QUORUM_EPOCH, versions=range(2), flexible=1):
    error_code: I16 = 0
    topics: list[QuorumEpochTopicResult] = []
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = []


class ReplicaInfo(Struct):
    candidate_id: I32
    candidate_directory_id: UUID


class EndQuorumEpochPartition(Struct):
    partition_index: I32
    leader_id: I32
    leader_epoch: I32
    # Who should stand for election, those furthest ahead first: the first at once, the others later and later.
    preferred_successors: Annotated[list[I32], before(1)] = []
    preferred_candidates: Annotated[list[ReplicaInfo], since(1)] = []


class EndQuorumEpochTopic(Struct):
    topic_name: str
    partitions: list[EndQuorumEpochPartition]


class EndQuorumEpochRequest(Message, api=ApiKey.END_QUORUM_EPOCH, versions=range(2), flexible=1):
    """A leader that stops tells the voters, who then need not wait for a timeout. v1 names voters as KIP-853 does."""

    cluster_id: str | None = None
    topics: list[EndQuorumEpochTopic]
    leader_endpoints: Annotated[list[Endpoint], since(1)] = []


class EndQuorumEpochResponse(Message, api=ApiKey.END_QUORUM_EPOCH, versions=range(2), flexible=1):
    error_code: I16 = 0
    topics: list[QuorumEpochTopicResult] = []
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = []


class DescribeQuorumPartition(Struct):
    partition_index: I32


class DescribeQuorumTopic(Struct):
    topic_name: str
    partitions: list[DescribeQuorumPartition]


class DescribeQuorumRequest(Message, api=ApiKey.DESCRIBE_QUORUM, versions=range(3), flexible=0):
    """Who leads the quorum and how far everyone is; only the leader knows. Versions differ in the answer alone."""

    topics: list[DescribeQuorumTopic]


class ReplicaState(Struct):
    replica_id: I32
    replica_directory_id: Annotated[UUID, since(2)] = ZERO_UUID
    log_end_offset: I64
    # By the leader's clock; -1 if it has not heard of the replica yet.
    last_fetch_timestamp: Annotated[I64, since(1)] = -1
    last_caught_up_timestamp: Annotated[I64, since(1)] = -1


class DescribeQuorumPartitionResult(Struct):
    partition_index: I32
    error_code: I16 = 0
    error_message: Annotated[str | None, since(2)] = None
    leader_id: I32
    leader_epoch: I32
    high_watermark: I64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class DescribeQuorumTopicResult(Struct):
    topic_name: str
    partitions: list[DescribeQuorumPartitionResult]


class QuorumNode(Struct):
    node_id: I32
    listeners: list[Endpoint]


class DescribeQuorumResponse(Message, api=ApiKey.DESCRIBE_QUORUM, versions=range(3), flexible=0):
    """v1 adds times (KIP-836), v2 directories, addresses and messages (KIP-853)."""

    error_code: I16 = 0
    error_message: Annotated[str | None, since(2)] = None
    topics: list[DescribeQuorumTopicResult] = []
    nodes: Annotated[list[QuorumNode], since(2)] = []


class SnapshotId(Struct):
    """A snapshot holds everything below this offset; the epoch is that of the last record in it."""

    end_offset: I64
    epoch: I32


class FetchSnapshotPartition(Struct):
    partition: I32
    current_leader_epoch: I32
    snapshot_id: SnapshotId
    position: I64
    replica_directory_id: Annotated[UUID, since(1), tag(0)] = ZERO_UUID


class FetchSnapshotTopic(Struct):
    name: str
    partitions: list[FetchSnapshotPartition]


class FetchSnapshotRequest(Message, api=ApiKey.FETCH_SNAPSHOT, versions=range(2), flexible=0):
    """A piece of a snapshot, for a replica that needs what the log no longer has (KIP-630).

    A Fetch answer named the snapshot. v1 says which directory asks (KIP-853).
    """

    cluster_id: Annotated[str | None, tag(0)] = None
    replica_id: I32 = -1
    max_bytes: I32 = 0x7FFFFFFF
    topics: list[FetchSnapshotTopic]


class LeaderIdAndEpoch(Struct):
    """The defaults are Kafka's, though they name a node: a field that does not travel is read as these."""

    leader_id: I32 = 0
    leader_epoch: I32 = 0


class FetchSnapshotPartitionResult(Struct):
    index: I32
    error_code: I16 = 0
    snapshot_id: SnapshotId
    current_leader: Annotated[LeaderIdAndEpoch, tag(0)] = field(default_factory=LeaderIdAndEpoch)
    # Of the whole snapshot, and where in it the bytes below start: they end anywhere, also within a batch.
    size: I64
    position: I64
    unaligned_records: bytes


class FetchSnapshotTopicResult(Struct):
    name: str
    partitions: list[FetchSnapshotPartitionResult]


class FetchSnapshotResponse(Message, api=ApiKey.FETCH_SNAPSHOT, versions=range(2), flexible=0):
    """v1 says where the leader is (KIP-853)."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    topics: list[FetchSnapshotTopicResult] = []
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = []
