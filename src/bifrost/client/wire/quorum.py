"""Who leads the metadata quorum, and how far the others are: a question that librdkafka cannot ask.

Brokers pass it on to the leader, so any of them may be asked; a controller itself answers only while it leads.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bifrost.client.descriptions import Quorum, QuorumReplica
from bifrost.client.errors import BifrostError
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.connection import Address
from bifrost.client.wire.failures import TRANSPORT_FAILURES, TryAgain, from_code
from bifrost.client.wire.handshake import connect
from bifrost.client.wire.patience import Deadline
from bifrost.client.wire.settings import WireSettings
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    ReplicaState,
)

_TOPIC: Final = "__cluster_metadata"
_ELECTION: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER, ErrorCode.LEADER_NOT_AVAILABLE}
"""What is answered while nobody leads."""


class NoQuorumLeaderError(BifrostError):
    """Nobody leads the quorum, or not whoever was asked."""


def describe_quorum(cluster: Cluster, deadline: Deadline) -> Quorum:
    """As the leader tells it. Waits out an election; NoQuorumLeaderError if it takes longer than the deadline."""

    def attempt() -> Quorum:
        try:
            return _read(cluster.ask_any(_question(), DescribeQuorumResponse, deadline))
        except NoQuorumLeaderError as error:
            raise TryAgain(error) from None

    return cluster.persist(attempt, deadline, even_if_unreachable=False)


class ControllerWord(NamedTuple):
    """What came of asking one controller."""

    greets: bool
    """A process that hangs takes connections and does not."""
    quorum: Quorum | None
    """What it knows as the leader; None if it does not lead, or does not answer."""


def hear_controller(address: Address, timeout_s: float) -> ControllerWord:
    """Whether the controller that listens there lives, and what it has to say if it leads."""
    deadline = Deadline(timeout_s)
    try:
        connection = connect(address, WireSettings(), None, deadline)
    except TRANSPORT_FAILURES:
        return ControllerWord(False, None)
    try:
        return ControllerWord(True, _read(connection.ask(_question(), DescribeQuorumResponse, deadline)))
    except (NoQuorumLeaderError, *TRANSPORT_FAILURES):
        return ControllerWord(True, None)
    finally:
        connection.close()


def ask_controller(address: Address, timeout_s: float) -> Quorum | None:
    """What the controller that listens there knows as the leader; None if it does not lead, or does not answer."""
    return hear_controller(address, timeout_s).quorum


def _question() -> DescribeQuorumRequest:
    topic = DescribeQuorumTopic(topic_name=_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)])
    return DescribeQuorumRequest(topics=[topic])


def _read(answer: DescribeQuorumResponse) -> Quorum:
    if answer.error_code or not answer.topics:
        raise _failure(answer.error_code, answer.error_message)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise _failure(found.error_code, found.error_message)
    states = {each.replica_id: each for each in (*found.current_voters, *found.observers)}
    end = max((each.log_end_offset for each in states.values()), default=0)
    if found.leader_id in states:
        end = states[found.leader_id].log_end_offset

    def replica(state: ReplicaState) -> QuorumReplica:
        times = [None if each < 0 else each for each in (state.last_fetch_timestamp, state.last_caught_up_timestamp)]
        return QuorumReplica(state.replica_id, state.log_end_offset, max(0, end - state.log_end_offset), *times)

    return Quorum(
        leader=found.leader_id,
        epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(map(replica, found.current_voters)),
        observers=tuple(map(replica, found.observers)),
    )


def _failure(number: int, detail: str | None) -> BifrostError:
    code = ErrorCode(number)
    if code in _ELECTION:
        return NoQuorumLeaderError(
            "nobody leads the quorum of controllers", "Are enough of them running? A majority is needed."
        )
    return from_code(number, detail=detail)
