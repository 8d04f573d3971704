"""Parquet: the columns that Spark's Kafka source has, so that a job reads a dump as it would read the topic.

pyarrow comes with the extra `arrow` and is imported when a Parquet file is named, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from bifrost.client.dumps.rows import DumpFileError, Row
from bifrost.client.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow

_GROUP_ROWS_MAX = 50_000
_GROUP_BYTES_MAX = 16 << 20
_READ_ROWS = 1_000


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UnsupportedError(
            "Parquet files need pyarrow, which is not installed", "pip install 'bifrost-stream[arrow]', or use .jsonl."
        ) from error
    return pyarrow


class ParquetWriter:
    """Collects rows into groups of bounded size."""

    def __init__(self, file: BinaryIO, topic: str) -> None:
        self._arrow = arrow()
        self._schema = _schema(self._arrow)
        self._writer = self._arrow.parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._topic = topic
        self._rows: list[Row] = []
        self._bytes = 0

    def write(self, rows: list[Row]) -> None:
        self._rows += rows
        self._bytes += sum(row.size_bytes for row in rows)
        if len(self._rows) >= _GROUP_ROWS_MAX or self._bytes >= _GROUP_BYTES_MAX:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        if not rows:
            return
        columns = {
            "key": [row.key for row in rows],
            "value": [row.value for row in rows],
            "topic": [self._topic] * len(rows),
            "partition": [row.partition for row in rows],
            "offset": [row.offset for row in rows],
            "timestamp": [row.timestamp_ms for row in rows],
            "timestampType": [row.timestamp_type for row in rows],
            "headers": [[{"key": name, "value": value} for name, value in row.headers] for row in rows],
        }
        arrays = [self._arrow.array(columns[field.name], field.type) for field in self._schema]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))


def _schema(arrow: Any) -> pyarrow.Schema:
    header = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
    return arrow.schema(
        [
            ("key", arrow.binary()),
            ("value", arrow.binary()),
            ("topic", arrow.string()),
            ("partition", arrow.int32()),
            ("offset", arrow.int64()),
            ("timestamp", arrow.timestamp("ms", tz="UTC")),
            ("timestampType", arrow.int32()),
            ("headers", arrow.list_(header)),
        ]
    )


def read_parquet(path: Path) -> Iterator[Row]:
    """The rows of a file; it needs a column `value`, and others are used if they have the names and types above."""
    arrow_ = arrow()
    try:
        with arrow_.parquet.ParquetFile(path) as file:
            wanted = [field.name for field in _schema(arrow_) if field.name in file.schema_arrow.names]
            if "value" not in wanted:
                names = ", ".join(file.schema_arrow.names)
                raise DumpFileError(f"{path} has no column value", f"Its columns are {names}.")
            target = arrow_.schema([_schema(arrow_).field(name) for name in wanted])
            for batch in file.iter_batches(_READ_ROWS, columns=wanted):
                yield from _rows(arrow_.Table.from_batches([batch]).cast(target), arrow_)
    except arrow_.ArrowInvalid as error:
        raise DumpFileError(f"{path} cannot be read as a dump: {error}", "Is it a Parquet file of records?") from error


def _rows(table: Any, arrow_: Any) -> Iterator[Row]:
    columns: dict[str, list[Any]] = {}
    for name in table.column_names:
        column = table[name].cast(arrow_.int64()) if name == "timestamp" else table[name]
        columns[name] = column.to_pylist()
    nothing = [None] * table.num_rows
    for key, value, partition, offset, timestamp_ms, kind, headers in zip(
        columns.get("key", nothing),
        columns["value"],
        columns.get("partition", nothing),
        columns.get("offset", nothing),
        columns.get("timestamp", nothing),
        columns.get("timestampType", nothing),
        columns.get("headers", nothing),
    ):
        pairs = [(each["key"], each["value"]) for each in headers or ()]
        yield Row(value, key, pairs, partition, offset, timestamp_ms, kind or 0)
