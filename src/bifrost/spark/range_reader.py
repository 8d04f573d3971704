"""What a task does: reads one range of one partition and hands Spark its rows as Arrow batches.

A range that is no longer there is a loss, and by `failOnDataLoss` either the end of the query or a line in the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from bifrost.client.errors import BifrostError, OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from bifrost.spark.failures import DataLossError, StalledError
from bifrost.spark.losses import bear
from bifrost.spark.ranges import OffsetRange, cut, gather
from bifrost.spark.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from bifrost.columnar.decoder import Decoder

_WAIT_MS = 500


@dataclass(frozen=True)
class Share(InputPartition):
    """What one task reads, one range after the other. Pickled for every task."""

    ranges: tuple[OffsetRange, ...]


def plan_tasks(ranges: list[OffsetRange], options: ReadOptions) -> list[InputPartition]:
    """A task for every partition, as with Spark's Kafka connector, unless there are wishes or little to be read."""
    if options.min_partitions is None and options.max_records_per_partition is None:
        return [Share(share) for share in gather(ranges)]
    pieces = cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    return [Share((piece,)) for piece in pieces]


def read_range(options: ReadOptions, wanted: OffsetRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of the range, as they come."""
    from bifrost.columnar.decoder import Decoder

    decoder = Decoder(*wanted.partition, columns)
    start = wanted.start
    while start < wanted.end:
        try:
            for batch in _read_from(options, wanted, start, decoder):
                yield _without_empty_headers(batch) if "headers" in columns else batch
            return
        except OffsetOutOfRangeError as error:
            start = _resume(options, wanted, error)
        except (UnknownTopicError, UnknownPartitionError) as error:
            _lose(options, f"{wanted.partition} is gone, and with it offsets {start} to {wanted.end}", error)
            return


def _read_from(options: ReadOptions, wanted: OffsetRange, start: int, decoder: Decoder) -> Iterator[pa.RecordBatch]:
    from bifrost.client.wire import shared_client

    client = shared_client(options.bootstrap, options.settings)
    stalled_at = time.monotonic() + options.stall_ms / 1_000
    with client.fetch(
        *wanted.partition,
        start,
        wanted.end,
        isolation=options.isolation,
        max_bytes=options.fetch_bytes,
        max_wait_ms=min(_WAIT_MS, options.stall_ms),
    ) as stream:
        for fetched in stream:
            if len(fetched.data):
                stalled_at = time.monotonic() + options.stall_ms / 1_000
                yield from decoder.decode(fetched.data, start, wanted.end, fetched.aborted)
            elif time.monotonic() >= stalled_at:
                raise StalledError(
                    f"{wanted.partition} has nothing at offset {stream.position} for {options.stall_ms} ms, "
                    f"although it was said to reach {wanted.end}",
                    "Was the topic made anew? If the broker is only slow, raise kafkaConsumer.pollTimeoutMs.",
                )


def _without_empty_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark's Kafka source says null where a record has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    headers = batch.column("headers")
    there = pc.greater(pc.list_value_length(headers), 0)
    place = batch.schema.get_field_index("headers")
    return batch.set_column(place, batch.schema.field(place), pc.if_else(there, headers, pa.scalar(None, headers.type)))


def _resume(options: ReadOptions, wanted: OffsetRange, error: OffsetOutOfRangeError) -> int:
    """Where the range goes on, if the query bears the loss."""
    start = error.offset
    there = start < error.latest and error.earliest < wanted.end
    lost_end = error.earliest if there and error.earliest > start else wanted.end
    _lose(
        options,
        f"{wanted.partition} no longer has the offsets {start} to {lost_end}: "
        f"it begins at {error.earliest} and ends at {error.latest}",
        error,
    )
    return lost_end


def _lose(options: ReadOptions, what: str, cause: BifrostError) -> None:
    try:
        bear([what], fail=options.fail_on_data_loss)
    except DataLossError as error:
        raise error from cause
