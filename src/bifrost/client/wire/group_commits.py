"""Committing offsets for a group from outside: no member, no generation, as tools and Spark do it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.connection import Address
from bifrost.client.wire.failures import TRANSPORT_FAILURES, TryAgain, from_code
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from bifrost.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

TOPIC_IDS_SINCE: Final = 10
"""From this version on topics go by their ids; names serve just as well."""


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[tuple[str, int], int], deadline: Deadline) -> None:
    """All or nothing is not promised: the first partition that is refused is raised, others may be committed."""
    cluster.persist(lambda: _attempt(cluster, group, offsets, deadline), deadline)


def _attempt(cluster: Cluster, group: str, offsets: Mapping[tuple[str, int], int], deadline: Deadline) -> None:
    connection = cluster.take_at(_coordinator(cluster, group, deadline), deadline)
    try:
        request = _request(group, offsets)
        version = connection.version(request.api, request.versions, below=TOPIC_IDS_SINCE)
        answer = connection.ask(request, OffsetCommitResponse, cluster.request_deadline(deadline), version=version)
    except TRANSPORT_FAILURES:
        cluster.lost(connection)
        raise
    cluster.give_back(connection)
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                _refuse(each.error_code, f"{topic.name}-{each.partition_index} of group {group}")


def _coordinator(cluster: Cluster, group: str, deadline: Deadline) -> Address:
    request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
    answer = cluster.ask_any(request, FindCoordinatorResponse, deadline)
    found = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code:
        _refuse(found.error_code, f"group {group}")
    return Address(found.host, found.port)


def _refuse(number: int, what: str) -> None:
    code = ErrorCode(number)
    failure = from_code(number, detail=f"{what}: the broker answered {code.name}")
    raise TryAgain(failure) if code.retriable else failure


def _request(group: str, offsets: Mapping[tuple[str, int], int]) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        topics[topic].append(OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset))
    named = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    return OffsetCommitRequest(group_id=group, topics=named)
