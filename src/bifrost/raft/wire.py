"""What members of the quorum say to each other, in Kafka's messages (KIP-595, KIP-853, KIP-996). Pure.

Every message could speak of several topics and partitions; all of ours speak of one, and one that does not is refused
with the error that Kafka has for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.quorum import (
    BeginQuorumEpochPartition,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginQuorumEpochTopic,
    EndQuorumEpochPartition,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochTopic,
    QuorumEpochPartitionResult,
    QuorumEpochTopicResult,
    ReplicaInfo,
    VotePartition,
    VotePartitionResult,
    VoteRequest,
    VoteResponse,
    VoteTopic,
    VoteTopicResult,
)
from bifrost.protocol.schema import ZERO_UUID
from bifrost.raft.core.messages import Answer, BeginEpoch, EndEpoch, LogEnd, Vote
from bifrost.types import NodeId

TOPIC: Final = "__cluster_metadata"
NOBODY: Final = -1
_NEWBORN: Final = -1
"""The epoch of a log that never held anything: who asks for votes with one began with an empty disk."""

P_co = TypeVar("P_co", covariant=True)


class _Topic(Protocol[P_co]):
    @property
    def topic_name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


def leader_id(leader: NodeId | None) -> int:
    """Kafka's way to name a node that may be nobody."""
    return NOBODY if leader is None else leader


def somebody(node_id: int) -> NodeId | None:
    return None if node_id < 0 else NodeId(node_id)


def only_partition(topics: Sequence[_Topic[P_co]]) -> P_co:
    """What is said of the metadata's partition; ApiError if anything else is named, or nothing."""
    if len(topics) != 1 or topics[0].topic_name != TOPIC or len(topics[0].partitions) != 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a message of the quorum is about {TOPIC}-0 and nothing else")
    partition = topics[0].partitions[0]
    if getattr(partition, "partition_index", 0):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{TOPIC} has one partition")
    return partition


def vote_request(vote: Vote, voter: NodeId, cluster_id: str | None) -> VoteRequest:
    partition = VotePartition(
        partition_index=0,
        replica_epoch=vote.epoch,
        replica_id=vote.candidate,
        last_offset_epoch=_NEWBORN if vote.is_newborn else vote.log_end.epoch,
        last_offset=vote.log_end.offset,
        pre_vote=vote.is_pre_vote,
    )
    topics = [VoteTopic(topic_name=TOPIC, partitions=[partition])]
    return VoteRequest(cluster_id=cluster_id, voter_id=voter, topics=topics)


def read_vote(request: VoteRequest) -> Vote:
    asked = only_partition(request.topics)
    newborn = asked.last_offset_epoch == _NEWBORN
    end = LogEnd(0 if newborn else asked.last_offset_epoch, asked.last_offset)
    if min(asked.replica_epoch, *end) < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "epochs and offsets are not negative")
    return Vote(asked.replica_epoch, NodeId(asked.replica_id), end, asked.pre_vote, newborn)


def vote_response(answer: Answer) -> VoteResponse:
    result = VotePartitionResult(
        partition_index=0,
        error_code=answer.error,
        leader_id=leader_id(answer.leader),
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return VoteResponse(topics=[VoteTopicResult(topic_name=TOPIC, partitions=[result])])


def read_vote_answer(response: VoteResponse) -> Answer:
    """Raises ApiError if the other node did not look at the request."""
    _check(response.error_code)
    told = only_partition(response.topics)
    return Answer(told.leader_epoch, somebody(told.leader_id), ErrorCode(told.error_code), told.vote_granted)


def begin_request(begin: BeginEpoch, voter: NodeId, cluster_id: str | None) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochPartition(partition_index=0, leader_id=begin.leader, leader_epoch=begin.epoch)
    topics = [BeginQuorumEpochTopic(topic_name=TOPIC, partitions=[partition])]
    return BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=voter, topics=topics)


def read_begin(request: BeginQuorumEpochRequest) -> BeginEpoch:
    said = only_partition(request.topics)
    return BeginEpoch(said.leader_epoch, NodeId(said.leader_id))


def begin_response(answer: Answer) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(topics=_epoch_result(answer))


def end_request(end: EndEpoch, cluster_id: str | None) -> EndQuorumEpochRequest:
    candidates = [ReplicaInfo(candidate_id=voter, candidate_directory_id=ZERO_UUID) for voter in end.successors]
    partition = EndQuorumEpochPartition(
        partition_index=0, leader_id=end.leader, leader_epoch=end.epoch, preferred_candidates=candidates
    )
    topics = [EndQuorumEpochTopic(topic_name=TOPIC, partitions=[partition])]
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=topics)


def read_end(request: EndQuorumEpochRequest) -> EndEpoch:
    said = only_partition(request.topics)
    successors = said.preferred_successors or [one.candidate_id for one in said.preferred_candidates]
    return EndEpoch(said.leader_epoch, NodeId(said.leader_id), tuple(map(NodeId, successors)))


def end_response(answer: Answer) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(topics=_epoch_result(answer))


def read_epoch_answer(response: BeginQuorumEpochResponse | EndQuorumEpochResponse) -> Answer:
    """Raises ApiError if the other node did not look at the request."""
    _check(response.error_code)
    told = only_partition(response.topics)
    return Answer(told.leader_epoch, somebody(told.leader_id), ErrorCode(told.error_code))


def _epoch_result(answer: Answer) -> list[QuorumEpochTopicResult]:
    result = QuorumEpochPartitionResult(
        partition_index=0,
        error_code=answer.error,
        leader_id=leader_id(answer.leader),
        leader_epoch=answer.epoch,
    )
    return [QuorumEpochTopicResult(topic_name=TOPIC, partitions=[result])]


def _check(error_code: int) -> None:
    if error_code != ErrorCode.NONE:
        raise ApiError(ErrorCode(error_code), "the request was refused")
