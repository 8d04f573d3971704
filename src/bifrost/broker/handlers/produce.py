"""Produce: batches in. Hot path 2/9.

Everything that must happen in order happens before this file returns: each batch is checked, stamped and written from
the buffer that it arrived in. What may take time, the sync to disk, other replicas or another leader, is waited for by
a parked answer (`produce_answer`). A batch that has to be looked into is appended later (`unopened_writes`), and
nothing of what follows it on its connection before.

Must never: keep a view of the request's buffer, which the next request reuses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

from bifrost.broker.appending import Unopened, append
from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.context import Broker
from bifrost.broker.produce_answer import (
    LED_ELSEWHERE,
    Elsewhere,
    PendingProduce,
    Write,
    ask_elsewhere,
    encode_answer,
)
from bifrost.broker.registry import raw_api
from bifrost.broker.unopened_writes import UnopenedWrite, append_when_opened
from bifrost.broker.write_order import WriteOrder
from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.batch import ProducerMark, read_producer
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.produce import (
    PartitionProduceResult,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResult,
    decode_request,
    encode_response,
)
from bifrost.types import NodeId, TopicPartition


@raw_api(ApiKey.PRODUCE, versions=range(3, 14), announced_min=0)
def produce(
    broker: Broker, connection: Connection, header: RequestHeader, body: memoryview, at: int
) -> Buffers | Reply | None:
    """v7 zstd (KIP-110); v8 record errors (KIP-467); v9 flexible; v10 leader hints (KIP-951); v13 topic ids (KIP-516).

    Versions 0-2 are announced, because librdkafka before 2.11.1 looks for them, but not answered (KAFKA-18659).
    """
    version = header.api_version
    request = decode_request(body, at, version)
    results: list[TopicProduceResult] = []
    elsewhere: dict[NodeId, list[Elsewhere]] = {}
    unopened: list[UnopenedWrite] = []
    pending: PendingProduce | None = None
    failed = False
    order = broker.forwarding.orders.get(connection)
    now_ms = broker.clock.now_ms()
    for topic in request.topics:
        name = topic.name or broker.metadata.topic_name(topic.topic_id)  # from version 13 on it is the id alone
        partition_results: list[PartitionProduceResult] = []
        results.append(TopicProduceResult(topic.name, topic.topic_id, partition_results))
        for data in topic.partitions:
            mark = None if data.records is None else read_producer(data.records)
            if order is not None and not _is_next(broker, order, name, data.index, mark):
                partition_results.append(PartitionProduceResult(data.index, ErrorCode.NOT_LEADER_OR_FOLLOWER))
                failed = True
                continue
            outcome = append(broker, request, name, data.index, data.records, version, now_ms)
            if isinstance(outcome, Unopened):
                partition_results.append(result := PartitionProduceResult(data.index))
                unopened.append(UnopenedWrite(outcome, result, Write(TopicPartition(name or "", data.index), mark)))
                continue
            if isinstance(outcome, PartitionProduceResult):
                partition_results.append(outcome)
                leader = _other_leader(broker, header, name, outcome)
                write = Write(TopicPartition(name or "", data.index), mark)
                if leader is not None:
                    elsewhere.setdefault(leader, []).append(Elsewhere(topic, data, outcome, write))
                    continue
                failed = True
                if outcome.error_code in LED_ELSEWHERE:
                    broker.forwarding.hold_back(connection, header.client_id, *write)
                continue
            partition, appended = outcome
            result = PartitionProduceResult(
                data.index, 0, appended.base_offset, appended.append_time_ms, partition.log.log_start_offset
            )
            partition_results.append(result)
            if request.acks != 0 and not partition.is_acknowledged(appended.last_offset + 1, request.acks):
                if pending is None:
                    pending = PendingProduce(broker, connection, header, results, request)
                slot = pending.take_slot(result, Write(partition.tp, mark))
                pending.park(partition, appended.last_offset + 1, slot)
    if unopened:
        if pending is None and request.acks != 0:
            pending = PendingProduce(broker, connection, header, results, request)
        append_when_opened(broker, connection, header, request, unopened, pending)
    if request.acks == 0:
        _finish_silently(broker, connection, header, request, elsewhere, failed=failed)
        return None
    for leader, parts in elsewhere.items():
        if pending is None:
            pending = PendingProduce(broker, connection, header, results, request)
        pending.pass_on(leader, parts)
    if pending is not None:
        return pending.seal()
    if failed:
        return encode_answer(broker, connection, header, results)
    return (encode_response(version, header.correlation_id, results, throttle_time_ms=header.throttle_ms or 0),)


def _is_next(broker: Broker, order: WriteOrder, name: str | None, index: int, mark: ProducerMark | None) -> bool:
    """Whether nothing that failed, or that another leader still has, has to come before this batch."""
    tp = TopicPartition(name or "", index)
    leader = broker.forwarding.leader_of(name, index)
    goes_to = broker.node_id if leader is None else leader.broker_id
    if leader is None and mark is not None:
        partition = broker.replicas.find(tp)
        if partition is not None and partition.is_leader and partition.log.producers.has_all_before(mark):
            order.stored_before(tp, mark)
    return order.admits(tp, mark, goes_to, broker.loop.time())


def _other_leader(
    broker: Broker, header: RequestHeader, name: str | None, refused: PartitionProduceResult
) -> NodeId | None:
    """Who should be asked instead of this node."""
    if refused.error_code not in LED_ELSEWHERE or not broker.forwarding.is_for_others(header.client_id):
        return None
    leader = broker.forwarding.leader_of(name, refused.index)
    return None if leader is None else leader.broker_id


def _finish_silently(
    broker: Broker,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    elsewhere: Mapping[NodeId, Sequence[Elsewhere]],
    *,
    failed: bool,
) -> None:
    """There is no answer, but a connection that ends tells a client that something went wrong."""
    refused = ApiError(ErrorCode.NETWORK_EXCEPTION, "an unacknowledged write failed")

    async def watch(answer: Awaitable[ProduceResponse]) -> None:
        try:
            told = [result.error_code for topic in (await answer).topics for result in topic.partitions]
        except PeerError:
            told = [ErrorCode.NETWORK_EXCEPTION]
        if any(told):
            connection.fail(refused)

    for leader, parts in elsewhere.items():
        asked = ask_elsewhere(broker, connection, header, request, leader, parts)
        broker.forwarding.spawn(connection, watch(asked))
    if failed:
        connection.fail(refused)
