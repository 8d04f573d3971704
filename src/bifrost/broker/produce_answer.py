"""The answer to Produce: complete once every partition in it is settled, here or by whoever leads it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple

from bifrost.broker.connection import WRITES, Buffers, Connection, Reply
from bifrost.broker.context import Broker
from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.protocol.batch import ProducerMark
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResult,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResult,
    encode_response,
)
from bifrost.replication.partition import Partition
from bifrost.types import NodeId, TopicPartition

LED_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
"""What this node says of partitions that another one leads, or soon may: those on a disk that failed, too."""
_HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_HINTS_SINCE = 10


class Write(NamedTuple):
    """Which batch for which partition waits for its answer."""

    tp: TopicPartition
    mark: ProducerMark | None


class Elsewhere(NamedTuple):
    """A part of a request that another node has to answer, and the place for its answer."""

    topic: TopicProduceData
    data: PartitionProduceData
    result: PartitionProduceResult
    write: Write


class PendingProduce:
    """The answer of one request."""

    __slots__ = (
        "_acks", "_broker", "_connection", "_header", "_open", "_parked", "_reply", "_request", "_results", "_sealed",
        "_writes", "deadline",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        header: RequestHeader,
        results: list[TopicProduceResult],
        request: ProduceRequest,
    ) -> None:
        self._acks = request.acks
        self._broker = broker
        self._connection = connection
        self._header = header
        self._request = request
        self._results = results
        self._open: dict[int, PartitionProduceResult] = {}
        self._writes: dict[int, Write] = {}
        self._parked = 0
        self._sealed = False
        self._reply = Reply(connection, followed_by=WRITES)
        self.deadline = broker.loop.time() + request.timeout_ms / 1000

    def park(self, partition: Partition, next_offset: int, slot: int) -> None:
        """Wait until this node's partition is as safe as was asked for."""
        self._broker.waiters.park_ack(partition.tp, next_offset, self, slot, acks=self._acks)

    def pass_on(self, leader: NodeId, parts: Sequence[Elsewhere]) -> None:
        """Wait for what another node has to answer. It is asked in the order in which this is called."""
        slots: dict[tuple[str | bytes, int], list[int]] = {}
        for part in parts:
            key = (part.topic.name or part.topic.topic_id, part.data.index)
            slots.setdefault(key, []).append(self.take_slot(part.result, part.write))
        order = self._broker.forwarding.order_of(self._connection)
        for part in parts:
            order.sent(*part.write, leader)
        answer = ask_elsewhere(self._broker, self._connection, self._header, self._request, leader, parts)
        self._broker.forwarding.spawn(self._connection, self._relay(answer, slots))

    def on_progress(self, partition: Partition, slot: int, next_offset: int) -> bool:
        if slot not in self._open:
            return True  # its time was over before this
        try:
            if not partition.is_acknowledged(next_offset, self._acks):
                return False
        except ApiError as error:
            self._fail(slot, error.code)
            # This node has lost the leadership with the write under way: those behind it may not overtake it elsewhere.
            self._broker.forwarding.hold_back(self._connection, self._header.client_id, *self._writes[slot])
        self.settle([slot])
        return True

    def on_deadline(self) -> None:
        """The data are in the log, but not yet safe: the client must not count on them."""
        for slot in self._open:
            self._fail(slot, ErrorCode.REQUEST_TIMED_OUT)
        self._open.clear()
        self._answer()

    def seal(self) -> Reply:
        """Every partition of the request has been seen: from now on the answer may leave."""
        self._sealed = True
        if not self._open:
            self._answer()
        return self._reply

    async def _relay(
        self, answer: Awaitable[ProduceResponse], places: dict[tuple[str | bytes, int], list[int]]
    ) -> None:
        """Pass on what the leader says, or that it does not answer; one partition may be named several times."""
        slots = [slot for named in places.values() for slot in named]
        try:
            response = await answer
        except PeerError as error:
            for slot in slots:
                self._fail(slot, unanswered(error), f"the leader did not answer: {error}")
        else:
            for topic in response.topics:
                for told in topic.partitions:
                    named = places.get((topic.name or topic.topic_id, told.index))
                    result = self._open.get(named.pop(0)) if named else None
                    if result is not None:
                        copy_result(told, result)
        self._count(slots)
        self.settle(slots)

    def _count(self, slots: Iterable[int]) -> None:
        """Other leaders have answered for these, or never will."""
        order, now = self._broker.forwarding.order_of(self._connection), self._broker.loop.time()
        for slot in slots:
            result = self._open.get(slot)
            code = ErrorCode.REQUEST_TIMED_OUT if result is None else ErrorCode(result.error_code)
            order.answered(*self._writes[slot], now, comes_again=code.retriable)

    def take_slot(self, result: PartitionProduceResult, write: Write) -> int:
        """A place in the answer that is not settled yet."""
        slot = self._parked
        self._parked += 1
        self._open[slot] = result
        self._writes[slot] = write
        return slot

    def settle(self, slots: Iterable[int]) -> None:
        """Nothing changes any more about these places."""
        was_open = bool(self._open)
        for slot in slots:
            self._open.pop(slot, None)
        if was_open and not self._open and self._sealed:
            self._answer()

    def _fail(self, slot: int, code: ErrorCode, message: str | None = None) -> None:
        if slot in self._open:
            result = self._open[slot]
            result.error_code, result.error_message = code, message
            result.base_offset = result.log_append_time_ms = result.log_start_offset = -1

    def _answer(self) -> None:
        self._broker.waiters.settled(self)
        self._reply.send(encode_answer(self._broker, self._connection, self._header, self._results))


def unanswered(error: PeerError) -> ErrorCode:
    """What a producer is told when its leader is silent: a code that every client repeats its write for.

    Either the write has not left this node, which is as if it had been refused; or nobody knows whether it was stored,
    which is what a leader says whose followers are late. NETWORK_EXCEPTION means the same to Java clients, but
    librdkafka knows it from no broker and would fail what it has sent for good (rd_kafka_err_action).
    """
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.unsent else ErrorCode.REQUEST_TIMED_OUT


def encode_answer(
    broker: Broker, connection: Connection, header: RequestHeader, results: Sequence[TopicProduceResult]
) -> Buffers:
    """The frame. Where another node leads, the client is told who and where (KIP-951)."""
    hints: dict[NodeId, NodeEndpoint] = {}
    if header.api_version >= _HINTS_SINCE:
        for topic in results:
            for result in topic.partitions:
                if result.error_code in _HINTED:
                    name = topic.name or broker.metadata.topic_name(topic.topic_id)
                    _add_hint(broker, connection, name, result, hints)
    return (
        encode_response(
            header.api_version,
            header.correlation_id,
            results,
            throttle_time_ms=header.throttle_ms or 0,
            node_endpoints=[hints[each] for each in sorted(hints)],
        ),
    )


def ask_elsewhere(
    broker: Broker,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    leader: NodeId,
    parts: Sequence[Elsewhere],
) -> Awaitable[ProduceResponse]:
    """Ask another leader for its part of a request. Nothing of the request's buffer is needed when this returns.

    A write that nobody waits for (acks=0) is still asked for an answer, so that its failure can be told.
    """
    topics: dict[str | bytes, TopicProduceData] = {}
    for part in parts:
        key = part.topic.name or part.topic.topic_id
        kept = topics.setdefault(key, TopicProduceData(part.topic.name, part.topic.topic_id, []))
        kept.partitions.append(part.data)
    asked = ProduceRequest(request.transactional_id, request.acks or 1, request.timeout_ms, [*topics.values()])
    return broker.forwarding.produce(connection, leader, asked, header.api_version)


def copy_result(told: PartitionProduceResult, result: PartitionProduceResult) -> None:
    """Fill in the place that was kept for it."""
    result.error_code, result.error_message = told.error_code, told.error_message
    result.base_offset, result.log_append_time_ms = told.base_offset, told.log_append_time_ms
    result.log_start_offset, result.record_errors = told.log_start_offset, told.record_errors


def _add_hint(
    broker: Broker,
    connection: Connection,
    name: str | None,
    result: PartitionProduceResult,
    hints: dict[NodeId, NodeEndpoint],
) -> None:
    leader = broker.forwarding.leader_of(name, result.index)
    endpoint = None if leader is None else broker.forwarding.endpoint(leader.broker_id, connection.listener)
    if leader is not None and endpoint is not None:
        result.current_leader = leader
        hints[leader.broker_id] = endpoint
