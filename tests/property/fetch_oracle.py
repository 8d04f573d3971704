"""Fetch requests and responses to draw, and the same as kio has them."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from bifrost.protocol import fetch
from bifrost.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionFetchResult,
    TopicFetchResult,
)
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.wire import ZERO_UUID
from tests.property import codec_oracle as oracle


def topic_keys(version: int) -> st.SearchStrategy[tuple[str, bytes]]:
    if version >= fetch.TOPIC_IDS_SINCE:
        return st.tuples(st.just(""), oracle.TOPIC_IDS)
    return st.tuples(oracle.NAMES, st.just(ZERO_UUID))


@functools.cache
def requests(version: int) -> st.SearchStrategy[FetchRequest]:
    """Fields that a version lacks keep their defaults, as they come back."""

    def since(first: int, values: st.SearchStrategy[Any], default: object) -> st.SearchStrategy[Any]:
        return values if version >= first else st.just(default)

    partitions = st.builds(
        FetchPartition,
        index=oracle.INT32,
        current_leader_epoch=since(9, oracle.INT32, -1),
        fetch_offset=oracle.INT64,
        last_fetched_epoch=since(12, oracle.INT32, -1),
        log_start_offset=since(5, oracle.INT64, -1),
        partition_max_bytes=oracle.INT32,
        replica_directory_id=since(17, st.one_of(st.just(ZERO_UUID), oracle.TOPIC_IDS), ZERO_UUID),
        high_watermark=since(
            18, st.one_of(st.just(fetch.UNKNOWN_HIGH_WATERMARK), oracle.INT64), fetch.UNKNOWN_HIGH_WATERMARK
        ),
    )
    topics = st.tuples(topic_keys(version), st.lists(partitions, max_size=4)).map(
        lambda pair: FetchTopic(*pair[0], pair[1])
    )
    forgotten = st.tuples(topic_keys(version), st.lists(oracle.INT32, max_size=4)).map(
        lambda pair: ForgottenTopic(*pair[0], pair[1])
    )
    replicas = st.one_of(st.just((-1, -1)), st.tuples(oracle.INT32, since(15, oracle.INT64, -1)))
    return st.builds(
        lambda replica, **fields: FetchRequest(replica_id=replica[0], replica_epoch=replica[1], **fields),
        replicas,
        max_wait_ms=oracle.COUNT,
        min_bytes=oracle.INT32,
        max_bytes=oracle.INT32,
        isolation_level=st.integers(0, 1),
        session_id=since(7, oracle.INT32, 0),
        session_epoch=since(7, oracle.INT32, -1),
        topics=st.lists(topics, max_size=3),
        forgotten_topics=since(7, st.lists(forgotten, max_size=2), []),
        rack_id=since(11, oracle.NAMES, ""),
        cluster_id=since(12, st.one_of(st.none(), oracle.NAMES), None),
    )


@functools.cache
def responses(version: int) -> st.SearchStrategy[FetchResponse]:
    none: st.SearchStrategy[Any] = st.none()
    offsets = {
        "index": oracle.INT32,
        "error_code": oracle.ERROR_CODES,
        "high_watermark": oracle.INT64,
        "last_stable_offset": oracle.INT64,
        "log_start_offset": oracle.INT64 if version >= 5 else st.just(-1),
        "records": st.one_of(st.none(), oracle.RECORDS.map(memoryview)),
    }
    epoch_first = st.one_of(none, st.tuples(oracle.COUNT, oracle.INT64)) if version >= 12 else none
    offset_first = st.one_of(none, st.tuples(oracle.INT64, oracle.COUNT)) if version >= 12 else none
    results = st.builds(
        PartitionFetchResult,
        aborted_transactions=st.one_of(none, st.lists(st.tuples(oracle.INT64, oracle.INT64), max_size=3)),
        preferred_read_replica=oracle.INT32 if version >= 11 else st.just(-1),
        diverging_epoch=epoch_first,
        current_leader=st.one_of(none, oracle.PAIRS) if version >= 12 else none,
        snapshot_id=offset_first,
        **offsets,
    )
    plain = st.builds(PartitionFetchResult, **offsets)
    partitions = st.one_of(st.lists(results, max_size=3), st.lists(plain, min_size=1, max_size=1))
    topics = st.tuples(topic_keys(version), partitions).map(lambda pair: TopicFetchResult(*pair[0], pair[1]))
    endpoints = st.builds(NodeEndpoint, oracle.COUNT, oracle.NAMES, oracle.INT32, st.one_of(none, oracle.NAMES))
    return st.builds(
        FetchResponse,
        topics=st.lists(topics, max_size=3),
        throttle_time_ms=oracle.COUNT,
        error_code=oracle.ERROR_CODES if version >= 7 else st.just(0),
        session_id=oracle.INT32 if version >= 7 else st.just(0),
        node_endpoints=st.one_of(st.just(()), st.lists(endpoints, min_size=1, max_size=2))
        if version >= 16
        else st.just(()),
    )


def kio_topic(version: int, topic: FetchTopic | ForgottenTopic | TopicFetchResult) -> dict[str, Any]:
    return {"topic_id": oracle.as_uuid(topic.topic_id)} if version >= 13 else {"topic": topic.name}


def kio_request(version: int, request: FetchRequest) -> Any:
    schema = oracle.module("fetch", version, "request")
    fields: dict[str, Any] = {}
    if version >= 15:
        fields["replica_state"] = schema.ReplicaState(
            replica_id=request.replica_id, replica_epoch=request.replica_epoch
        )
    else:
        fields["replica_id"] = request.replica_id
    if version >= 7:
        fields |= {"session_id": request.session_id, "session_epoch": request.session_epoch}
        fields["forgotten_topics_data"] = tuple(
            schema.ForgottenTopic(partitions=tuple(topic.partitions), **kio_topic(version, topic))
            for topic in request.forgotten_topics
        )
    if version >= 11:
        fields["rack_id"] = request.rack_id
    if version >= 12:
        fields["cluster_id"] = request.cluster_id
    return schema.FetchRequest(
        max_wait=oracle.as_timedelta(request.max_wait_ms),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        topics=tuple(
            schema.FetchTopic(
                partitions=tuple(kio_partition(schema, version, partition) for partition in topic.partitions),
                **kio_topic(version, topic),
            )
            for topic in request.topics
        ),
        **fields,
    )


def kio_partition(schema: Any, version: int, partition: FetchPartition) -> Any:
    fields: dict[str, Any] = {}
    if version >= 5:
        fields["log_start_offset"] = partition.log_start_offset
    if version >= 9:
        fields["current_leader_epoch"] = partition.current_leader_epoch
    if version >= 12:
        fields["last_fetched_epoch"] = partition.last_fetched_epoch
    if version >= 17:
        fields["replica_directory_id"] = oracle.as_uuid(partition.replica_directory_id)
    if version >= 18:
        fields["high_watermark"] = partition.high_watermark
    return schema.FetchPartition(
        partition=partition.index,
        fetch_offset=partition.fetch_offset,
        partition_max_bytes=partition.partition_max_bytes,
        **fields,
    )


def kio_response(version: int, response: FetchResponse) -> Any:
    schema = oracle.module("fetch", version, "response")
    fields: dict[str, Any] = {}
    if version >= 7:
        fields |= {"error_code": schema.ErrorCode(response.error_code), "session_id": response.session_id}
    if version >= 16:
        fields["node_endpoints"] = tuple(
            schema.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in response.node_endpoints
        )
    return schema.FetchResponse(
        throttle_time=oracle.as_timedelta(response.throttle_time_ms),
        responses=tuple(
            schema.FetchableTopicResponse(
                partitions=tuple(kio_result(schema, version, result) for result in topic.partitions),
                **kio_topic(version, topic),
            )
            for topic in response.topics
        ),
        **fields,
    )


def kio_result(schema: Any, version: int, result: PartitionFetchResult) -> Any:
    fields: dict[str, Any] = {}
    if version >= 5:
        fields["log_start_offset"] = result.log_start_offset
    if version >= 11:
        fields["preferred_read_replica"] = result.preferred_read_replica
    if result.diverging_epoch is not None:
        epoch, end_offset = result.diverging_epoch
        fields["diverging_epoch"] = schema.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if result.current_leader is not None:
        leader_id, leader_epoch = result.current_leader
        fields["current_leader"] = schema.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    if result.snapshot_id is not None:
        end_offset, epoch = result.snapshot_id
        fields["snapshot_id"] = schema.SnapshotId(end_offset=end_offset, epoch=epoch)
    aborted = result.aborted_transactions
    assert result.records is None or isinstance(result.records, memoryview)
    return schema.PartitionData(
        partition_index=result.index,
        error_code=schema.ErrorCode(result.error_code),
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        aborted_transactions=None
        if aborted is None
        else tuple(schema.AbortedTransaction(producer_id=pid, first_offset=offset) for pid, offset in aborted),
        records=None if result.records is None else bytes(result.records),
        **fields,
    )
