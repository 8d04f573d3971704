"""Rows whose values are JSON: one column for each field of the schema, and a way for those that are malformed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from bifrost.spark.dead_letters import DeadLetters
from bifrost.spark.json_values import JsonParser, Parsed, refuse
from bifrost.spark.range_reader import read_range
from bifrost.spark.ranges import OffsetRange
from bifrost.spark.read_options import COLUMNS, JsonValues, ReadOptions
from bifrost.spark.schema import METADATA, arrow_type, json_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a schema asks for."""

    schema: pa.Schema
    parser: JsonParser
    corrupt_column: str

    @classmethod
    def of(cls, schema: StructType, options: JsonValues) -> _Shape:
        names = [
            field for field in schema.fields if field.name not in METADATA and field.name != options.corrupt_column
        ]
        fields = StructType(names)
        parser = JsonParser(arrow_type(fields, "value", parsed=True), arrow_type(fields, "value"))
        return cls(json_arrow_schema(schema), parser, options.corrupt_column)

    def rows(self, batch: pa.RecordBatch, parsed: Parsed) -> pa.RecordBatch:
        import pyarrow as pa

        columns = dict(zip((field.name for field in parsed.rows.type), parsed.rows.flatten()))
        arrays = [columns[name] if name in columns else self._beside(name, batch, parsed) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _beside(self, name: str, batch: pa.RecordBatch, parsed: Parsed) -> Any:
        """A column that does not come from the values' fields."""
        import pyarrow as pa

        if name in METADATA:
            return batch.column(METADATA[name])
        texts: list[str | None] = [None] * batch.num_rows
        values = batch.column("value")
        for index in parsed.malformed:
            texts[index] = values[index].as_py().decode(errors="replace")
        return pa.array(texts, pa.string())


def raw_columns(schema: StructType, options: JsonValues) -> tuple[str, ...]:
    """What has to be decoded of the records for this."""
    wanted = {"value", "offset"} | {METADATA[name] for name in schema.fieldNames() if name in METADATA}
    if options.dead_letter_topic is not None:
        wanted |= {"key", "headers"}
    return tuple(name for name in COLUMNS if name in wanted)


def read_values(options: ReadOptions, wanted: OffsetRange, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of the range, with malformed values treated as `mode` says."""
    import pyarrow as pa

    how = options.json
    assert how is not None
    shape = _Shape.of(schema, how)
    with DeadLetters(options, wanted.partition) as dead_letters:
        for batch in read_range(options, wanted, raw_columns(schema, how)):
            parsed = shape.parser.parse(batch.column("value"))
            if not parsed.malformed:
                yield shape.rows(batch, parsed)
                continue
            if how.mode == "failfast":
                refuse(parsed, *wanted.partition, batch.column("offset"))
            dead_letters.add(batch, parsed.malformed)
            rows = shape.rows(batch, parsed)
            if how.mode == "dropmalformed":
                rows = rows.filter(pa.array([index not in parsed.malformed for index in range(rows.num_rows)]))
            yield rows
