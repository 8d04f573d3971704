"""Produce: batches in. Hot path 2/9.

Everything that must happen in order happens before this file returns: each batch is checked, stamped and written from
the buffer that it arrived in. What may take time, the sync to disk, is waited for by a parked answer.

Must never: keep a view of the request's buffer, which the next request reuses.
"""

from __future__ import annotations

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.context import Broker
from bifrost.broker.registry import raw_api
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.log.partition_log import AppendResult
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.produce import (
    PartitionProduceResult,
    ProduceRequest,
    TopicProduceData,
    TopicProduceResult,
    decode_request,
    encode_response,
)
from bifrost.replication.partition import Partition
from bifrost.types import INTERNAL_TOPICS, TopicPartition


class PendingProduce:
    """The answer of one request, complete once every partition in it is settled."""

    __slots__ = ("_broker", "_header", "_open", "_parked", "_reply", "_results", "_sealed", "deadline")

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        header: RequestHeader,
        results: list[TopicProduceResult],
        timeout_ms: int,
    ) -> None:
        self._broker = broker
        self._header = header
        self._results = results
        self._open: dict[int, PartitionProduceResult] = {}
        self._parked = 0
        self._sealed = False
        self._reply = Reply(connection, pipelined=True)
        self.deadline = broker.loop.time() + timeout_ms / 1000

    def park(self, partition: Partition, next_offset: int, result: PartitionProduceResult) -> None:
        slot = self._parked
        self._parked += 1
        self._open[slot] = result
        self._broker.waiters.park_ack(partition.tp, next_offset, self, slot)

    def on_progress(self, partition: Partition, slot: int, next_offset: int) -> bool:
        if slot not in self._open:
            return True  # its time was over before this
        try:
            if not partition.is_acknowledged(next_offset):
                return False
        except ApiError as error:
            self._fail(slot, error.code)
        del self._open[slot]
        if not self._open and self._sealed:
            self._answer()
        return True

    def on_deadline(self) -> None:
        """The data are in the log, but not yet safe: the client must not count on them."""
        for slot in list(self._open):
            self._fail(slot, ErrorCode.REQUEST_TIMED_OUT)
        self._open.clear()
        self._answer()

    def seal(self) -> Reply:
        """Every partition of the request has been seen: from now on the answer may leave."""
        self._sealed = True
        if not self._open:
            self._answer()
        return self._reply

    def _fail(self, slot: int, code: ErrorCode) -> None:
        result = self._open[slot]
        result.error_code = code
        result.base_offset = result.log_append_time_ms = result.log_start_offset = -1

    def _answer(self) -> None:
        self._broker.waiters.settled(self)
        self._reply.send((encode_response(self._header.api_version, self._header.correlation_id, self._results),))


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
    pending: PendingProduce | None = None
    failed = False
    now_ms = broker.clock.now_ms()
    for topic in request.topics:
        name = _topic_name(broker, topic)
        partition_results: list[PartitionProduceResult] = []
        results.append(TopicProduceResult(topic.name, topic.topic_id, partition_results))
        for data in topic.partitions:
            outcome = _append(broker, request, name, data.index, data.records, version, now_ms)
            if isinstance(outcome, PartitionProduceResult):
                failed = True
                partition_results.append(outcome)
                continue
            partition, appended = outcome
            result = PartitionProduceResult(
                data.index, 0, appended.base_offset, appended.append_time_ms, partition.log.log_start_offset
            )
            partition_results.append(result)
            if request.acks != 0 and not partition.is_acknowledged(appended.last_offset + 1):
                if pending is None:
                    pending = PendingProduce(broker, connection, header, results, request.timeout_ms)
                pending.park(partition, appended.last_offset + 1, result)
    if request.acks == 0:
        if failed:
            connection.fail(ApiError(ErrorCode.NETWORK_EXCEPTION, "an unacknowledged write failed"))
        return None
    if pending is not None:
        return pending.seal()
    return (encode_response(version, header.correlation_id, results),)


def _topic_name(broker: Broker, topic: TopicProduceData) -> str | None:
    """From version 13 on a topic is named by its id alone."""
    if topic.name:
        return topic.name
    return broker.metadata.topic_name(topic.topic_id)


def _append(
    broker: Broker,
    request: ProduceRequest,
    name: str | None,
    index: int,
    records: memoryview | None,
    version: int,
    now_ms: int,
) -> tuple[Partition, AppendResult] | PartitionProduceResult:
    """Where the batch is, or the answer that refuses it."""
    partition: Partition | None = None
    try:
        if request.acks not in (-1, 0, 1):
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} belongs to the brokers")
        partition = broker.replicas.get(TopicPartition(name, index))
        if records is None:
            raise ApiError(ErrorCode.INVALID_RECORD, "no records")
        return partition, partition.append(
            records,
            acks=request.acks,
            api_version=version,
            transactional_id=request.transactional_id,
            now_ms=now_ms,
        )
    except ApiError as error:
        return _refused(index, error, partition)
    except StorageError as error:
        broker.on_storage_error(error)
        return PartitionProduceResult(index, ErrorCode.KAFKA_STORAGE_ERROR)


_BEFORE_THE_LOG = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""Refusals that say nothing about the log; after the others a producer learns where it starts (KIP-467)."""


def _refused(index: int, error: ApiError, partition: Partition | None) -> PartitionProduceResult:
    result = PartitionProduceResult(index, error.code, error_message=error.detail or None)
    if error.record_index is not None:
        result.record_errors = [(error.record_index, error.detail)]
    if partition is not None and error.code not in _BEFORE_THE_LOG:
        result.log_start_offset = partition.log.log_start_offset
    return result
