"""The account of one topic: what was sent there, what came of it, and which partitions there are.

Only numbers; it knows neither librdkafka nor time. `sent` is written by whoever sends, everything else by the one
thread that hears of deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bifrost.client.report import PartitionReport

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from bifrost.client.outbox import Outbox


class Row:
    """What was heard of one partition."""

    __slots__ = ("acknowledged", "failed", "first_offset", "last_offset")

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.first_offset = -1
        self.last_offset = -1


class Ledger:
    """One topic of one producer."""

    __slots__ = (
        "baseline",
        "choose",
        "outbox",
        "partition_count",
        "refresh_at",
        "rows",
        "sent",
        "topic",
        "uncertain",
    )

    def __init__(self, topic: str, partition_count: int, outbox: Outbox) -> None:
        self.topic = topic
        self.partition_count = partition_count
        self.outbox = outbox
        self.choose: Callable[[Any, Any, int], int] | None = None
        """Chooses partitions, if that is not left to librdkafka."""
        self.refresh_at = 0.0
        """When the number of partitions is to be asked again."""
        self.baseline: Mapping[int, int] | None = None
        """Where partitions ended before the first message; needed only if acknowledgements carry no offsets."""
        self.rows: dict[int, Row] = {}
        self.sent = 0
        self.uncertain = False
        """An interrupt struck while a message was handed over: it may be counted wrongly until all are settled."""

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """What librdkafka calls for messages that nobody holds a Delivery of."""
        if not self.outbox.busy:
            self.outbox.take_turn()
        partition: int = message.partition()  # type: ignore[assignment]  # messages that were sent have one
        if error is None:
            self.acknowledge(partition, message.offset())
        else:
            self.fail(partition)
            self.outbox.note_failure(error, self.topic, partition)

    def acknowledge(self, partition: int, offset: int | None) -> None:
        """Without an offset: nobody was asked to confirm it (acks=0)."""
        row = self.rows.get(partition)
        if row is None:
            row = self.rows[partition] = Row()
        row.acknowledged += 1
        if offset is not None:
            if row.first_offset < 0:
                row.first_offset = offset
            row.last_offset = offset  # they come in order

    def fail(self, partition: int) -> None:
        self.rows.setdefault(partition, Row()).failed += 1

    @property
    def settled(self) -> int:
        return sum(row.acknowledged + row.failed for row in list(self.rows.values()))

    def reconcile(self) -> None:
        """Called when librdkafka holds no message any more: what is settled is then exactly what it was given."""
        if self.uncertain:
            self.sent = self.settled
            self.uncertain = False

    def report(self, ends: Mapping[int, int]) -> list[PartitionReport]:
        """A line for each partition, and one for messages that have none yet."""
        lines = [self._line(partition, row, ends) for partition, row in sorted(self.rows.items()) if partition >= 0]
        unplaced = self.rows.get(-1)
        failed = unplaced.failed if unplaced else 0
        pending = self.sent - self.settled
        if failed or pending:
            lines.append(PartitionReport(self.topic, None, failed + pending, 0, failed, None, None, None))
        return lines

    def _line(self, partition: int, row: Row, ends: Mapping[int, int]) -> PartitionReport:
        first = row.first_offset if self.baseline is None else self.baseline.get(partition, 0)
        end = ends.get(partition)
        return PartitionReport(
            topic=self.topic,
            partition=partition,
            sent=row.acknowledged + row.failed,
            acknowledged=row.acknowledged,
            failed=row.failed,
            stored=None if end is None or first < 0 else max(end - first, 0),
            first_offset=row.first_offset if row.first_offset >= 0 else None,
            last_offset=row.last_offset if row.last_offset >= 0 else None,
        )
