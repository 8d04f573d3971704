"""Offsets by time: the first, the next, and the first at or after a moment, of many partitions at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from bifrost.client.wire.cluster import Cluster, Leader
from bifrost.client.wire.failures import TRANSPORT_FAILURES, TryAgain, from_code
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
"""Instead of a timestamp: where the next record goes, or the last stable offset under read_committed."""
EARLIEST: Final = -2
"""Instead of a timestamp: the first offset that is still there."""
MAX_TIMESTAMP: Final = -3
"""Instead of a timestamp: the record with the largest one."""

Place = tuple[str, int]


class OffsetAndTimestamp(NamedTuple):
    """A place in a partition; the timestamp is -1 where none was asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets(
    cluster: Cluster, wanted: Mapping[Place, int], isolation: int, deadline: Deadline
) -> dict[Place, OffsetAndTimestamp | None]:
    """One request to each leader, and again for what moved meanwhile. None: no record at or after the timestamp."""
    found: dict[Place, OffsetAndTimestamp | None] = {}

    def attempt() -> None:
        by_leader: dict[int, dict[Place, Leader]] = defaultdict(dict)
        for place in wanted:
            if place not in found:
                leader = cluster.leader(*place, deadline)
                by_leader[leader.node_id][place] = leader
        trouble: TryAgain | None = None
        for node_id, places in by_leader.items():
            try:
                answer = cluster.ask_node(node_id, _request(places, wanted, isolation), ListOffsetsResponse, deadline)
            except TRANSPORT_FAILURES as error:
                for topic, _ in places:
                    cluster.suspect(topic)
                trouble = TryAgain(error)
                continue
            trouble = _collect(answer, cluster, found) or trouble
        if trouble is not None:
            raise trouble

    cluster.persist(attempt, deadline)
    return {place: found[place] for place in wanted}


def _request(places: Mapping[Place, Leader], wanted: Mapping[Place, int], isolation: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for place, leader in places.items():
        topic, partition = place
        topics[topic].append(
            ListOffsetsPartition(partition_index=partition, current_leader_epoch=leader.epoch, timestamp=wanted[place])
        )
    named = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    return ListOffsetsRequest(isolation_level=isolation, topics=named, timeout_ms=30_000)


def _collect(
    answer: ListOffsetsResponse, cluster: Cluster, found: dict[Place, OffsetAndTimestamp | None]
) -> TryAgain | None:
    """Takes what is there; what is not, and may be in a moment, is returned. Anything else is raised."""
    trouble: TryAgain | None = None
    for topic in answer.topics:
        for each in topic.partitions:
            code = ErrorCode(each.error_code)
            if code is ErrorCode.NONE:
                there = each.offset >= 0
                place = OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch) if there else None
                found[topic.name, each.partition_index] = place
                continue
            failure = from_code(each.error_code, topic=topic.name, partition=each.partition_index)
            if not code.retriable:
                raise failure
            cluster.suspect(topic.name)
            trouble = TryAgain(failure)
    return trouble
