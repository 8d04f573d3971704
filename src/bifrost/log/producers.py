"""What each idempotent producer last wrote to a partition. Kafka: ProducerStateManager, ProducerAppendInfo.

This file decides whether a batch is new, a repetition, out of order or from a fenced producer (KIP-98, KIP-360). It
remembers the last five batches of every producer id, the most that a client keeps in flight to one broker. Pure: no
files, no clock.

Fields of transactions are kept, so that a stored log loses none, but nothing here decides about a transaction beyond
"it is open since this offset".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.batch import CONTROL_BIT, SEQUENCE_MASK, TRANSACTIONAL_BIT, BatchHeader, ProducerMark

BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
_AWAITED_MAX: Final = 10_000
_IN_A_ROW_MAX: Final = 1 << 20
"""More than any client has on its way, and far from where sequences begin anew: no gap must look like the past."""


class AppendedBatch(NamedTuple):
    """A batch that is in the log."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "in_a_row",
        "last_timestamp",
        "producer_epoch",
    )

    def __init__(
        self,
        producer_epoch: int,
        *,
        last_timestamp: int = -1,
        coordinator_epoch: int = -1,
        current_txn_first_offset: int = NO_OFFSET,
        batches: Iterable[AppendedBatch] = (),
    ) -> None:
        self.producer_epoch = producer_epoch
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = list(batches)
        self.in_a_row = 0
        """How many sequences up to the last one were seen to come without a gap. A snapshot does not tell."""


class ForgottenBatchError(ApiError):
    """A repetition of a batch that is stored below `end_offset`, and nobody knows where any more."""

    def __init__(self, detail: str, end_offset: int) -> None:
        super().__init__(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, detail)
        self.end_offset = end_offset


class Awaited(NamedTuple):
    """A batch that was refused for now."""

    mark: ProducerMark
    reason: ErrorCode


class ProducerStates:
    """The producers of a partition, up to the log's end."""

    __slots__ = ("awaited", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.awaited: dict[int, Awaited] = {}
        """Batches that have to come again before others of their producer. Not stored: who restarts forgets them."""

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """The batch that this one repeats, None if it is new and in order, otherwise `ApiError`. Changes nothing.

        A producer that is not known may start anywhere: its state expired or was deleted with the log's start, and
        refusing it would stop it for good. Only what it sent before may have to come first.
        """
        entry = self.entries.get(header.producer_id)
        first = header.base_sequence
        if entry is None:
            self._refuse_if_behind(header)
            return None
        if header.producer_epoch == entry.producer_epoch:
            batches = entry.batches
            expected = (batches[-1].last_sequence + 1) & SEQUENCE_MASK if batches else 0
            if first != expected:
                last = (first + header.last_offset_delta) & SEQUENCE_MASK
                for batch in batches:
                    if batch.last_sequence == last and batch.first_sequence == first:
                        return batch
                self._refuse_if_behind(header)
                _refuse_if_forgotten(entry, header)
                raise _out_of_order(header, f"sequence {first}, expected {expected}")
        elif header.producer_epoch < entry.producer_epoch:
            detail = f"producer {header.producer_id} has epoch {header.producer_epoch}, known is {entry.producer_epoch}"
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, detail)
        elif first != 0 and entry.producer_epoch != NO_EPOCH:
            self._refuse_if_behind(header)
            raise _out_of_order(header, f"epoch {header.producer_epoch} starts with sequence {first}")
        if entry.current_txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_BIT:
            detail = f"producer {header.producer_id} has a transaction open since {entry.current_txn_first_offset}"
            raise ApiError(ErrorCode.INVALID_TXN_STATE, detail)
        return None

    def has_all_before(self, mark: ProducerMark) -> bool:
        """Whether the batch is the very next one of a producer that is known."""
        entry = self.entries.get(mark.producer_id)
        if entry is None or entry.producer_epoch != mark.epoch or not entry.batches:
            return False
        return mark.sequence == (entry.batches[-1].last_sequence + 1) & SEQUENCE_MASK

    def expect_again(self, mark: ProducerMark, reason: ErrorCode) -> None:
        """The batch was refused for now: there was no room for it, or too few replicas. What its producer has on the
        way behind it may find better times, and must wait all the same.

        In Kafka a disk without room is offline, so that all are refused alike; for too few replicas nothing keeps a
        later batch of an unknown producer from being taken first.
        """
        known = self.awaited.get(mark.producer_id)
        if known is None or not mark.follows(known.mark):
            if known is None and len(self.awaited) >= _AWAITED_MAX:
                del self.awaited[next(iter(self.awaited))]
            self.awaited[mark.producer_id] = Awaited(mark, reason)

    def _refuse_if_behind(self, header: BatchHeader) -> None:
        """What comes behind a batch that was refused is refused alike. To call it out of order would make librdkafka
        begin a new epoch, and then write again whatever it has under way to other partitions."""
        awaited = self.awaited.get(header.producer_id)
        if awaited is not None and header.mark.follows(awaited.mark):
            detail = f"producer {header.producer_id}: {header.base_sequence} behind {awaited.mark.sequence}"
            raise ApiError(awaited.reason, detail)

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """The batch is in the log at `base_offset`; also for batches of a leader or of the past, without a check."""
        entry = self.entries.get(header.producer_id)
        if self.awaited:
            self.awaited.pop(header.producer_id, None)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
        timestamp = entry.last_timestamp = header.max_timestamp
        attributes = header.attributes
        if attributes & CONTROL_BIT:  # a commit or abort marker: it ends the transaction and has no sequence
            entry.current_txn_first_offset = NO_OFFSET
            return
        delta = header.last_offset_delta
        first = header.base_sequence
        batches = entry.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        follows = batches and first == (batches[-1].last_sequence + 1) & SEQUENCE_MASK
        entry.in_a_row = min((entry.in_a_row if follows else 0) + delta + 1, _IN_A_ROW_MAX)
        last_sequence = (first + delta) & SEQUENCE_MASK
        batches.append(AppendedBatch(first, last_sequence, base_offset + delta, delta, timestamp))
        if attributes & TRANSACTIONAL_BIT and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = base_offset

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that have been silent for that long. An open transaction keeps its producer.

        Nor does it wait any longer for batches that found no room: their producers have given up, or come soon.
        """
        self.awaited.clear()
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]


def first_sequence(last_sequence: int, offset_delta: int) -> int:
    """Where a batch began that ended with `last_sequence`."""
    return (last_sequence - offset_delta) & SEQUENCE_MASK


def _refuse_if_forgotten(entry: ProducerEntry, header: BatchHeader) -> None:
    """A client has five batches on their way to one broker, and when the leader changes as many to the next, again
    and again, before it hears of the first ones. Those are repeated then, and are older than what is remembered.

    Called out of order, as by Kafka's brokers, they are repeated by the Java client until it gives up. All clients
    understand when they are told instead that the batch is there (Kafka: Sender.completeBatch).
    """
    if not entry.batches:
        return
    oldest = entry.batches[0]
    remembered = (entry.batches[-1].last_sequence - oldest.first_sequence + 1) & SEQUENCE_MASK
    before = (oldest.first_sequence - header.base_sequence) & SEQUENCE_MASK
    if header.last_offset_delta < before <= entry.in_a_row - remembered:
        detail = f"producer {header.producer_id}: {header.base_sequence} was stored long ago"
        raise ForgottenBatchError(detail, oldest.base_offset)


def _out_of_order(header: BatchHeader, reason: str) -> ApiError:
    return ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"producer {header.producer_id}: {reason}")
