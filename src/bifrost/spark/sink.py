"""`df.write` and `df.writeStream` with `format("bifrost")`: rows as Arrow in, record batches out, at least once.

A task returns to Spark when the last of its rows is acknowledged, and not before; a task that Spark runs again writes
its rows again. What a task wrote goes back to the driver as `Written`: nothing more happens there. A sink that writes
exactly once would open a transaction where `producing` is, and end it in `commit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from bifrost.spark.failures import SchemaError
from bifrost.spark.schema import sink_columns
from bifrost.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from bifrost.spark.outbox import Outbox

_GATHERED_BYTES: Final = 8 << 20
_GATHERED_ROWS: Final = 1 << 17


class BifrostWriter(DataSourceArrowWriter):
    """Of a batch; made on the driver and pickled to its tasks."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = sink_columns(schema, topic_given=options.topic is not None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return write_rows(self._options, self._columns, iterator)


class BifrostStreamWriter(DataSourceStreamArrowWriter):
    """Of one batch of a stream."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = sink_columns(schema, topic_given=options.topic is not None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return write_rows(self._options, self._columns, iterator)


def write_rows(
    options: WriteOptions, columns: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    """All rows of a task; returns when all of them are acknowledged."""
    from bifrost.client.wire import shared_client
    from bifrost.spark.outbox import Outbox
    from bifrost.spark.producers import producing
    from bifrost.spark.worker import settle

    client = shared_client(options.bootstrap, options.settings)
    with producing(options) as producer:
        outbox = Outbox(client, producer, codec=options.codec, batch_bytes=options.batch_bytes)
        row_number = 0
        for rows in _gathered(batches):
            _add(outbox, options.topic, rows.select(columns), row_number)
            row_number += rows.num_rows
        written = outbox.finish()
    settle()
    return written


def _add(outbox: Outbox, topic: str | None, rows: pa.Table, first_row: int) -> None:
    """Rows of one topic at a time, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from bifrost.columnar.encoder import Columns

    names = rows.schema.names
    columns = Columns(
        key="key" if "key" in names else None,
        value="value",
        headers="headers" if "headers" in names else None,
        partition="partition" if "partition" in names else None,
    )
    if topic is not None:
        outbox.add(topic, rows, columns, range(first_row, first_row + rows.num_rows))
        return
    topics = rows.column("topic").combine_chunks()
    if topics.null_count:
        missing = topics.is_null().index(pa.scalar(True)).as_py()
        raise SchemaError(
            f"row {first_row + missing} of the task has no topic", "Fill the column, or set the option topic."
        )
    for name in pc.unique(topics).to_pylist():
        chosen = pc.indices_nonzero(pc.equal(topics, name))
        outbox.add(name, rows.take(chosen), columns, (chosen.to_numpy() + first_row).tolist())


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Several of Spark's batches as one: the larger what is encoded at once, the larger the batches of a partition."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if size >= _GATHERED_BYTES or rows >= _GATHERED_ROWS:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)
