"""Writing batches that others encoded: stamped, pipelined, acknowledged, each of them once.

`append` stamps and queues; a thread of the producer sends and hears of the acknowledgements. What is queued or under
way is bounded: `append` waits for room. The order within each partition is kept by `lanes`; the first failure of a
partition is final for it and is raised by `flush`.
"""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple, Self

from bifrost.client.changes import Changes
from bifrost.client.errors import ConfigError, InvalidRequestError, TimedOutError
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.failures import TryAgain, from_code
from bifrost.client.wire.lanes import Batch, Lane, Pending
from bifrost.client.wire.patience import Deadline
from bifrost.client.wire.sender import Sender
from bifrost.errors import ErrorCode
from bifrost.protocol.batch import BatchHeader, CorruptBatchError, read_header, stamp_producer
from bifrost.protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse

IN_FLIGHT_MAX = 5
"""So many batches of a partition a broker remembers to recognise repetitions (KIP-98)."""


class Identity(NamedTuple):
    """Who a batch says that it is from."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


NOBODY = Identity(-1, -1)


class BatchProducer:
    """Thread-safe. Made by `WireClient.producer`; belongs to the process that made it."""

    def __init__(
        self, cluster: Cluster, *, acks: int = -1, idempotent: bool = True, max_in_flight: int = IN_FLIGHT_MAX
    ) -> None:
        if acks not in (-1, 1):
            raise ConfigError(f"acks is {acks!r}", "Use -1 (all replicas in sync) or 1 (the leader alone).")
        if idempotent and acks != -1:
            raise ConfigError("an idempotent producer needs acks=-1", "Leave acks out, or set idempotent=False.")
        if not 1 <= max_in_flight <= IN_FLIGHT_MAX:
            raise ConfigError(f"max_in_flight is {max_in_flight}", f"Use 1 to {IN_FLIGHT_MAX}.")
        self._cluster = cluster
        self._settings = cluster.settings
        self._idempotent = idempotent
        self._max_in_flight = max_in_flight
        self._changed = Changes()
        self._identifying = threading.Lock()
        self._identity: Identity | None = None if idempotent else NOBODY
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._sender = Sender(cluster, self._changed, acks=acks, max_in_flight=max_in_flight)
        self._closed = False
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(flush=kind is None)

    def append(self, topic: str, partition: int, batch: bytearray, records: int) -> Pending:
        """Queues one complete record batch; it belongs to the producer from now on. Waits while there is no room.

        Raises at once what has failed for this partition before.
        """
        self._check_process()
        header = _checked(batch, records)
        identity = self._identify()
        with self._changed.lock:
            lane = self._lane(topic, partition)
            self._changed.wait_for(lambda: self._has_room(len(batch)) or lane.failure is not None or self._closed)
            if self._closed:
                raise InvalidRequestError("the producer is closed", "Make a new one.")
            if failure := lane.failure or self._sender.broken:
                raise failure
            sequence = lane.next_sequence(records) if self._idempotent else -1
            stamp_producer(
                batch, header, producer_id=identity.producer_id, producer_epoch=identity.epoch, base_sequence=sequence
            )
            pending = Pending(self._changed)
            deadline_s = time.monotonic() + self._settings.delivery_timeout_ms / 1000
            lane.add(Batch(topic, partition, batch, sequence, deadline_s, pending))
            self._sender.queued(lane, len(batch))
        return pending

    def flush(self, timeout: float | None = None) -> None:
        """Waits until everything is acknowledged, or raises the first failure, which names its partition."""
        self._check_process()
        sender = self._sender
        with self._changed.lock:
            settled = self._changed.wait_for(lambda: sender.first_failure or not sender.buffered_bytes, timeout)
        if sender.first_failure is not None:
            raise sender.first_failure
        if not settled:
            raise TimedOutError(
                f"{sender.buffered_bytes} bytes were not acknowledged within {timeout:.3g} s",
                "Wait longer: they are still being sent.",
            )

    def close(self, *, flush: bool = True) -> None:
        """Ends the producer, after a `flush` unless that is not wanted; then what is under way is given up."""
        if self._process != os.getpid():
            return
        try:
            if flush and not self._closed:
                self.flush()
        finally:
            with self._changed.lock:
                self._closed = True
            self._sender.stop(InvalidRequestError("the producer was closed before this batch was acknowledged"))

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise InvalidRequestError(
                "this producer was made before the process forked", "Make one in the process that writes."
            )

    def _identify(self) -> Identity:
        """The producer id, asked for before the first batch."""
        with self._identifying:
            if self._identity is None:
                deadline = self._cluster.call_deadline()
                self._identity = self._cluster.persist(lambda: self._ask_identity(deadline), deadline)
            return self._identity

    def _ask_identity(self, deadline: Deadline) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = self._cluster.ask_any(request, InitProducerIdResponse, deadline)
        if not answer.error_code:
            return Identity(answer.producer_id, answer.producer_epoch)
        failure = from_code(answer.error_code, bootstrap=str(self._cluster))
        if ErrorCode(answer.error_code).retriable:
            raise TryAgain(failure)
        raise failure

    def _lane(self, topic: str, partition: int) -> Lane:
        lane = self._lanes.get((topic, partition))
        if lane is None:
            # Without sequence numbers only one at a time keeps the order when something has to be repeated.
            under_way_max = self._max_in_flight if self._idempotent else 1
            lane = Lane(topic, partition, under_way_max=under_way_max, backoff=self._cluster.backoff())
            self._lanes[topic, partition] = lane
        return lane

    def _has_room(self, size: int) -> bool:
        buffered = self._sender.buffered_bytes
        return not buffered or buffered + size <= self._settings.buffer_bytes


def _checked(batch: bytearray, records: int) -> BatchHeader:
    """The header of what claims to be one batch. What is inside is for the broker to judge."""
    try:
        header = read_header(batch)
    except CorruptBatchError as error:
        raise InvalidRequestError(f"this is no record batch: {error}", "Encode one of format v2.") from error
    if header.size_bytes != len(batch) or header.record_count != records or records < 1:
        raise InvalidRequestError(
            f"{len(batch)} bytes with {records} records are said to be one batch, whose header tells of "
            f"{header.size_bytes} bytes and {header.record_count} records",
            "Append one complete batch at a time.",
        )
    return header
