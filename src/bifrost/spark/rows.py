"""Which columns a query gets, and the rows of a task in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from bifrost.spark.failures import SchemaError
from bifrost.spark.range_reader import Share, read_range
from bifrost.spark.read_options import ReadOptions
from bifrost.spark.schema import check_json_schema, columns_of, topic_schema

if TYPE_CHECKING:
    import pyarrow as pa


def default_schema(options: ReadOptions) -> StructType:
    """What a program gets that gives no schema."""
    if options.json is not None:
        raise SchemaError(
            "valueFormat=json needs a schema",
            'Give the fields of the values: .schema("id BIGINT, name STRING, _offset BIGINT").',
        )
    return topic_schema(options.columns)


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Raises, on the driver, for a schema that cannot be had."""
    if options.json is None:
        columns_of(schema)
    else:
        check_json_schema(schema, options.json)


def read_rows(options: ReadOptions, partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """In a task."""
    from bifrost.spark.value_reader import read_values
    from bifrost.spark.worker import settle

    if not isinstance(partition, Share):
        return
    columns = () if options.json else columns_of(schema)
    for wanted in partition.ranges:
        yield from read_values(options, wanted, schema) if options.json else read_range(options, wanted, columns)
    settle()
