"""One produced batch on its way to the log of its partition: where it lies, or why it is not there."""

from __future__ import annotations

from typing import Final, NamedTuple

from bifrost.broker.context import Broker
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.log.slices import AppendResult
from bifrost.protocol.inspection import Refusal, Rules, UnopenedError
from bifrost.protocol.produce import PartitionProduceResult, ProduceRequest
from bifrost.replication.partition import ACKS_ALL, Partition
from bifrost.types import INTERNAL_TOPICS, TopicPartition

NEWEST_VERSION: Final = 13
"""What the broker itself has made of a batch is not bound to what the producer's version knows, such as zstd."""


class Unopened(NamedTuple):
    """A batch, copied from the request, that takes long to look into, and what it is held to."""

    batch: bytearray
    rules: Rules


def append(
    broker: Broker,
    request: ProduceRequest,
    name: str | None,
    index: int,
    records: memoryview | None,
    version: int,
    now_ms: int,
    *,
    opened: bool = False,
) -> tuple[Partition, AppendResult] | PartitionProduceResult | Unopened:
    """Where the batch is, the answer that refuses it, or what has to be done first. `opened`: that has been done."""
    partition: Partition | None = None
    try:
        if request.acks not in (-1, 0, 1):
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} belongs to the brokers")
        if request.acks != ACKS_ALL and broker.loop.time() >= broker.lifecycle.leads_until:
            # It has not been heard of for a whole session: others may lead what it led, whatever it remembers. Whoever
            # waits for all replicas in sync is safe: those follow somebody else then, and nothing is acknowledged.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker has lost its cluster")
        partition = broker.replicas.get(TopicPartition(name, index))
        if records is None:
            raise ApiError(ErrorCode.INVALID_RECORD, "no records")
        return partition, partition.append(
            records,
            acks=request.acks,
            api_version=version,
            transactional_id=request.transactional_id,
            now_ms=now_ms,
            opened=opened,
        )
    except UnopenedError as unopened:
        assert records is not None, "only what is there can be looked into"
        batch = bytearray(records)
        told = broker.inspector.inspect_at_once(batch, unopened.rules)
        if told is None:
            return Unopened(batch, unopened.rules)
        return append_opened(broker, request, name, index, batch, told[0], now_ms)
    except ApiError as error:
        return _refused(index, error, partition)
    except StorageError as error:
        broker.on_storage_error(error)
        return PartitionProduceResult(index, ErrorCode.KAFKA_STORAGE_ERROR)


def append_opened(
    broker: Broker,
    request: ProduceRequest,
    name: str | None,
    index: int,
    batch: bytearray,
    told: bytearray | Refusal | None,
    now_ms: int,
) -> tuple[Partition, AppendResult] | PartitionProduceResult:
    """The same for a batch that somebody has looked into, with what was told of it."""
    if isinstance(told, Refusal):
        error = ApiError(told.code, told.detail, record_errors=told.record_errors)
        return _refused(index, error, broker.replicas.find(TopicPartition(name or "", index)))
    stored = memoryview(batch if told is None else told)
    outcome = append(broker, request, name, index, stored, NEWEST_VERSION, now_ms, opened=True)
    assert not isinstance(outcome, Unopened), "nobody looks twice"
    return outcome


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
    result.record_errors = error.record_errors
    if partition is not None and error.code not in _BEFORE_THE_LOG:
        result.log_start_offset = partition.log.log_start_offset
    return result
