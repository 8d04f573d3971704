"""Fetch: batches out. Hot path 9/9.

A consumer's fetch finds the slices of the log that it may send, and either answers or parks until enough is there. From
version 11 on any replica in sync serves it, up to the high watermark that it knows of (KIP-392); what it cannot serve
is for the leader to answer. What followers fetch is the business of `replica_fetches`.

Must never: send what is above the high watermark, read so much in one go that the loop stalls, or tell a consumer that
an offset does not exist because a follower has not got it.
"""

from __future__ import annotations

from typing import cast

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.context import Broker
from bifrost.broker.fetch_answer import ANSWER_BYTES_MAX, FetchAnswer
from bifrost.broker.fetch_sessions import FetchPlan, TopicKey
from bifrost.broker.registry import raw_api
from bifrost.broker.remote_fetch import RemoteFetch, Results, Wanted
from bifrost.broker.replica_selection import RACK_AWARE_SELECTOR, replica_in_rack
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.log.slices import LogSlice
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
    TopicFetchResult,
    decode_request,
    encode_response,
)
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.wire import ZERO_UUID, Buffer
from bifrost.replication.partition import Partition
from bifrost.types import NodeId, TopicPartition

READ_COMMITTED = 1
ANY_REPLICA_SINCE = 11
LEADER_HINTS_SINCE = 16


_ELSEWHERE = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR}
)
"""What this node says of partitions, or parts of them, that another one may have."""
_HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Attempt:
    """One look at everything that a request asks for."""

    __slots__ = ("errors", "results", "size", "slices", "throttle_ms")

    def __init__(self) -> None:
        self.results: list[tuple[TopicKey, PartitionFetchResult]] = []
        self.slices: list[LogSlice | None] = []
        self.size = 0
        self.errors = False
        """Whether there is something to tell at once that is not data."""
        self.throttle_ms = 0

    def with_told(self, told: Results) -> Attempt:
        """The same, with what other nodes say of the partitions that they have."""
        whole = Attempt()
        for (topic, result), piece in zip(self.results, self.slices):
            other = told.get((topic, result.index))
            if other is not None:
                result, piece = other, None  # noqa: PLW2901  # this node may have caught up meanwhile
                whole.size += len(cast("Buffer", other.records or b""))
            elif piece is not None:
                whole.size += piece.size
            whole.results.append((topic, result))
            whole.slices.append(piece)
            whole.errors |= _is_news(result)
        return whole


class ParkedFetch:
    """A fetch that waits for `min_bytes`, or for its time to be over."""

    __slots__ = ("_fetch", "_partitions", "_timer", "reply")

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._partitions = fetch.readable_partitions()
        self.reply = Reply(fetch.connection)
        self.reply.cancel = self._forget
        broker = fetch.broker
        for tp in self._partitions:
            broker.waiters.park_fetch(tp, self)
        self._timer = broker.loop.call_later(fetch.request.max_wait_ms / 1000, self._finish)

    def on_progress(self, _partition: Partition) -> None:
        attempt = self._fetch.attempt()
        if self._fetch.is_enough(attempt):
            self._finish(attempt)

    def _finish(self, attempt: Attempt | None = None) -> None:
        self._forget()
        self._fetch.answer(attempt or self._fetch.attempt()).send(self.reply)

    def _forget(self) -> None:
        self._timer.cancel()
        for tp in self._partitions:
            self._fetch.broker.waiters.unpark_fetch(tp, self)


class Fetch:
    """One request and the plan to serve it."""

    __slots__ = ("_bytes_max", "broker", "connection", "header", "plan", "request")

    def __init__(
        self, broker: Broker, connection: Connection, header: RequestHeader, request: FetchRequest, plan: FetchPlan
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.header = header
        self.request = request
        self.plan = plan
        self._bytes_max = min(request.max_bytes, broker.settings.fetch_max_bytes, ANSWER_BYTES_MAX)
        if broker.quotas.limits_fetches:
            self._bytes_max = int(
                min(self._bytes_max, broker.quotas.fetch_bytes_max(connection.user, header.client_id))
            )

    def start(self) -> Buffers | Reply:
        if self.header.throttle_ms:
            return self._encode(self._withheld(self.header.throttle_ms))
        attempt = self.attempt()
        elsewhere = self._elsewhere(attempt) if attempt.errors else None
        if elsewhere:
            return self._ask_others(elsewhere)
        if self.is_enough(attempt):
            return self.answer(attempt).read()
        return ParkedFetch(self).reply

    def attempt(self) -> Attempt:
        """Find what can be sent now: partitions in order, each within its limit and what is left of the whole."""
        attempt = Attempt()
        left = self._bytes_max
        for topic, wanted in self.plan.partitions:
            result, piece = self._look(topic, wanted, left, first=attempt.size == 0)
            attempt.results.append((topic, result))
            attempt.slices.append(piece)
            if piece is not None:
                attempt.size += piece.size
                left -= piece.size
            elif _is_news(result):
                attempt.errors = True
        return attempt

    def _elsewhere(self, attempt: Attempt) -> dict[NodeId, list[Wanted]]:
        """What another node has, by its leader."""
        found: dict[NodeId, list[Wanted]] = {}
        forwarding = self.broker.forwarding
        if forwarding.is_for_others(self.header.client_id):
            for (topic, wanted), (_, result) in zip(self.plan.partitions, attempt.results):
                if result.error_code in _ELSEWHERE:
                    leader = forwarding.leader_of(self._name(topic), wanted.index)
                    if leader is not None:
                        found.setdefault(leader.broker_id, []).append(Wanted(topic, wanted))
        return found

    def _ask_others(self, elsewhere: dict[NodeId, list[Wanted]]) -> Reply:
        reply = Reply(self.connection)
        is_all = sum(map(len, elsewhere.values())) == len(self.plan.partitions)
        remote = RemoteFetch(
            self.broker.forwarding, self.connection, self.request, self.header.api_version, elsewhere, is_all=is_all
        )

        async def ask() -> None:
            told = await remote.run(lambda told: self.is_enough(self.attempt().with_told(told)))
            self.answer(self.attempt().with_told(told)).send(reply)

        reply.cancel = self.broker.forwarding.spawn(self.connection, ask()).cancel
        return reply

    def readable_partitions(self) -> list[TopicPartition]:
        found = ((self._name(topic), wanted.index) for topic, wanted in self.plan.partitions)
        return [TopicPartition(name, index) for name, index in found if name is not None]

    def is_enough(self, attempt: Attempt) -> bool:
        request = self.request
        return (
            request.max_wait_ms <= 0
            or not self.plan.partitions
            or attempt.errors
            or attempt.size >= min(request.min_bytes, self._bytes_max)
        )

    def _name(self, topic: TopicKey) -> str | None:
        return topic if isinstance(topic, str) else self.broker.metadata.topic_name(topic)

    def _look(
        self, topic: TopicKey, wanted: FetchPartition, left: int, *, first: bool
    ) -> tuple[PartitionFetchResult, LogSlice | None]:
        """One partition: what it has for this request. `first` may send one batch whatever its size (KIP-74)."""
        name = self._name(topic)
        if name is None:
            return _unknown(wanted, ErrorCode.UNKNOWN_TOPIC_ID), None
        try:
            partition = self.broker.replicas.get(TopicPartition(name, wanted.index))
        except ApiError as error:
            return _unknown(wanted, error.code), None
        try:
            partition.check_epoch(wanted.current_leader_epoch)
            if partition.leader_id != self.broker.node_id and not self._may_follow(partition):
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            committed = self.request.isolation_level == READ_COMMITTED
            result = PartitionFetchResult(
                wanted.index,
                high_watermark=partition.high_watermark,
                last_stable_offset=partition.last_stable_offset,
                log_start_offset=partition.log.log_start_offset,
                aborted_transactions=[] if committed else None,
            )
            if wanted.last_fetched_epoch >= 0:
                result.diverging_epoch = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
                if result.diverging_epoch is not None:
                    if not partition.is_leader:  # it may lack the end of that epoch, which is no loss to anybody
                        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
                    return result, None
            result.preferred_read_replica = self._nearer(partition, wanted.fetch_offset)
            if result.preferred_read_replica != -1:
                return result, None
            limit = min(wanted.partition_max_bytes, left)
            if limit <= 0 and not first:
                return result, None
            piece = partition.read(wanted.fetch_offset, limit, committed_only=committed, min_one_batch=first)
            return result, piece
        except ApiError as error:
            code = error.code
            if code is ErrorCode.OFFSET_OUT_OF_RANGE and not partition.is_leader:
                code = ErrorCode.OFFSET_NOT_AVAILABLE  # a consumer would start anew at what its leader still has
            return PartitionFetchResult(wanted.index, code), None
        except StorageError as error:
            self.broker.on_storage_error(error)
            return PartitionFetchResult(wanted.index, ErrorCode.KAFKA_STORAGE_ERROR), None

    def _may_follow(self, partition: Partition) -> bool:
        """Whether this node serves what another one leads: only while it is in sync, so that readers are not late."""
        state = self.broker.image.partition(*partition.tp)
        is_in_sync = state is not None and self.broker.node_id in state.isr
        return is_in_sync and self.header.api_version >= ANY_REPLICA_SINCE

    def _nearer(self, partition: Partition, offset: int) -> int:
        """The replica that this consumer should rather ask; -1 if none."""
        rack, leader, broker = self.request.rack_id, partition.leading, self.broker
        if not rack or leader is None or broker.settings.replica_selector_class != RACK_AWARE_SELECTOR:
            return -1
        found = replica_in_rack(leader, broker.node_id, rack, offset, broker.rack_of)
        return -1 if found is None else found

    def answer(self, attempt: Attempt) -> FetchAnswer:
        if self.broker.quotas.limits_fetches:
            attempt = self._within_limits(attempt)
        return FetchAnswer(
            self.connection,
            [result for _, result in attempt.results],
            attempt.slices,
            encode=lambda: self._encode(attempt),
            on_storage_error=self.broker.on_storage_error,
        )

    def _within_limits(self, attempt: Attempt) -> Attempt:
        """The same, or nothing and how long to wait, if the client has fetched more than it may."""
        wait_ms = self.broker.quotas.on_fetch(self.connection.user, self.header.client_id, attempt.size)
        if wait_ms == 0:
            return attempt
        self.connection.mute(wait_ms)
        return self._withheld(wait_ms)

    def _withheld(self, wait_ms: int) -> Attempt:
        """The client asks again for all of it, and begins a session only when it has got something (KIP-219)."""
        attempt = Attempt()
        attempt.throttle_ms = wait_ms
        if not self.plan.incremental:
            self.broker.sessions.forget(self.plan)
        return attempt

    def _encode(self, attempt: Attempt) -> Buffers:
        topics: list[TopicFetchResult] = []
        partitions: list[PartitionFetchResult] = []
        last: TopicKey | None = None
        plan = self.plan
        for topic, result in attempt.results:
            if not plan.tell(topic, result):
                continue
            if result.records:
                plan.rotate(topic, result.index)
            if topic != last:
                last, partitions = topic, []
                name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
                topics.append(TopicFetchResult(name, topic_id, partitions))
            partitions.append(result)
        response = FetchResponse(topics, session_id=plan.session_id, throttle_time_ms=attempt.throttle_ms)
        if attempt.errors and self.header.api_version >= LEADER_HINTS_SINCE:
            response.node_endpoints = self._hints(attempt)
        return cast("Buffers", encode_response(self.header.api_version, self.header.correlation_id, response))

    def _hints(self, attempt: Attempt) -> list[NodeEndpoint]:
        """Where another node leads, the client is told who and where (KIP-951)."""
        forwarding, hints = self.broker.forwarding, {}
        for topic, result in attempt.results:
            if result.error_code in _HINTED:
                leader = forwarding.leader_of(self._name(topic), result.index)
                endpoint = None if leader is None else forwarding.endpoint(leader.broker_id, self.connection.listener)
                if leader is not None and endpoint is not None:
                    result.current_leader = leader
                    hints[leader.broker_id] = endpoint
        return [hints[broker] for broker in sorted(hints)]


def _is_news(result: PartitionFetchResult) -> bool:
    """Whether there is something to tell of a partition besides data."""
    return (
        result.error_code != ErrorCode.NONE or result.diverging_epoch is not None or result.preferred_read_replica != -1
    )


def _unknown(wanted: FetchPartition, code: ErrorCode) -> PartitionFetchResult:
    """A partition that is not served here; as Kafka does, with an empty list where others have none."""
    return PartitionFetchResult(wanted.index, code, aborted_transactions=[])


@raw_api(ApiKey.FETCH, versions=range(4, 19))
def fetch(broker: Broker, connection: Connection, header: RequestHeader, body: memoryview, at: int) -> Buffers | Reply:
    """v7 sessions (KIP-227); v9 leader epochs (KIP-320); v12 truncation (KIP-595); v13 topic ids (KIP-516)."""
    version = header.api_version
    request = decode_request(body, at, version)
    if request.replica_id >= 0:
        return broker.replica_fetches.start(connection, header, request)
    try:
        plan = broker.sessions.plan(request, by_id=version >= TOPIC_IDS_SINCE, now=broker.loop.time())
    except ApiError as error:
        refused = FetchResponse([], error_code=error.code, throttle_time_ms=header.throttle_ms or 0)
        return cast("Buffers", encode_response(version, header.correlation_id, refused))
    return Fetch(broker, connection, header, request, plan).start()
