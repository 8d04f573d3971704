"""Rows on their way to topics: encoded into batches, handed to a producer, accounted for until all are acknowledged.

The producer is the caller's: one that is kept from task to task writes at least once, one with a transaction of its own
could be handed in just the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from bifrost.client.errors import BifrostError, DeliveryError, InvalidRequestError, UnknownTopicError
from bifrost.columnar.encoder import Columns, Encoded, encode
from bifrost.columnar.errors import InvalidRow
from bifrost.columnar.partitioning import Partitioner
from bifrost.protocol.compression import Codec

if TYPE_CHECKING:
    import pyarrow as pa

    from bifrost.client.wire import BatchProducer, Pending, WireClient

_SHOWN_KEY_BYTES = 60


@dataclass(slots=True)
class Written(WriterCommitMessage):
    """What a task wrote: for each partition the first offset, the last, and how many rows, all acknowledged."""

    rows: int = 0
    places: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)

    def add(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        self.rows += records
        last = base_offset + records - 1
        known = self.places.get((topic, partition))
        if known is None:
            self.places[topic, partition] = (base_offset, last, records)
        else:
            self.places[topic, partition] = (min(known[0], base_offset), max(known[1], last), known[2] + records)


@dataclass(frozen=True, slots=True)
class _Load:
    """A batch, and which row of the task it begins with."""

    topic: str
    partition: int
    records: int
    first_row: int
    first_key: bytes | None


class Outbox:
    """The rows of one task."""

    def __init__(self, client: WireClient, producer: BatchProducer, *, codec: str, batch_bytes: int) -> None:
        self._client = client
        self._producer = producer
        self._codec = Codec[codec.upper()]
        self._batch_bytes = batch_bytes
        self._partitioners: dict[str, Partitioner] = {}
        self._sent: list[tuple[_Load, Pending]] = []

    def add(self, topic: str, rows: pa.Table | pa.RecordBatch, columns: Columns, row_numbers: Sequence[int]) -> None:
        """Encodes and queues; waits where the producer has no room. `row_numbers` are those of the task's rows."""
        if not rows.num_rows:
            return
        try:
            encoded = self._encode(topic, rows, columns)
        except InvalidRow as error:
            raise _refused(row_numbers[error.row], error) from error
        except (UnknownTopicError, InvalidRequestError) as error:
            raise _refused(row_numbers[0], error) from error
        keys = None if columns.key is None else rows.column(columns.key)
        for each in encoded:
            key = None if keys is None else keys[each.first_row].as_py()
            key = key.encode() if isinstance(key, str) else key
            load = _Load(topic, each.partition, each.records, row_numbers[each.first_row], key)
            try:
                pending = self._producer.append(topic, each.partition, each.batch, each.records)
            except BifrostError as error:
                self._explain_earlier()
                raise _failed(load, error) from error
            self._sent.append((load, pending))

    def _encode(self, topic: str, rows: pa.Table | pa.RecordBatch, columns: Columns) -> Iterator[Encoded]:
        encoded = encode(
            rows,
            self._partitioner(topic),
            now_ms=time.time_ns() // 1_000_000,
            columns=columns,
            codec=self._codec,
            batch_bytes=self._batch_bytes,
        )
        return chain([next(encoded)], encoded)  # rows are looked at when the first batch is asked for

    def finish(self) -> Written:
        """Waits for every acknowledgement; raises for the first batch that has none, and names its first row."""
        written = Written()
        for load, pending in self._sent:
            try:
                appended = pending.result()
            except BifrostError as error:
                raise _failed(load, error) from error
            written.add(load.topic, load.partition, appended.base_offset, load.records)
        return written

    def _explain_earlier(self) -> None:
        """A producer raises at the next chance what went wrong before: then that is the row to name."""
        for load, pending in self._sent:
            if pending.done:
                try:
                    pending.result()
                except BifrostError as error:
                    raise _failed(load, error) from error

    def _partitioner(self, topic: str) -> Partitioner:
        known = self._partitioners.get(topic)
        if known is None:
            known = self._partitioners[topic] = Partitioner(len(self._client.partitions(topic)))
        return known


def _refused(row: int, error: BifrostError) -> BifrostError:
    """Something is wrong with the row itself, or with what it names."""
    return InvalidRequestError(f"row {row} of the task: {error.problem}", error.hint, code=error.code)


def _failed(load: _Load, error: BifrostError) -> DeliveryError:
    key = "without a key" if load.first_key is None else f"with the key {load.first_key[:_SHOWN_KEY_BYTES]!r}"
    others = f" and {load.records - 1} more" if load.records > 1 else ""
    row = f"row {load.first_row} of the task, {key}{others}"
    return DeliveryError(
        f"{row}, not written to {load.topic}-{load.partition}: {error.problem}",
        error.hint,
        code=error.code,
    )
