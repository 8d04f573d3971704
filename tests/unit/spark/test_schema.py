"""Columns: which ones there are, and which the sink takes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from bifrost.columnar import schema as columnar_schema
from bifrost.spark.failures import SchemaError
from bifrost.spark.read_options import COLUMNS
from bifrost.spark.schema import HEADERS_TYPE, arrow_type, columns_of, sink_columns, topic_schema


def fields(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])  # type: ignore[arg-type]


def test_spark_and_arrow_agree_on_every_column() -> None:
    """Spark compares the schema of what a task returns with its own, to the last bit."""
    from pyspark.sql.pandas.types import to_arrow_schema

    expected = to_arrow_schema(topic_schema(COLUMNS), timezone="UTC")
    assert expected.equals(columnar_schema.schema(COLUMNS))


def test_a_schema_may_choose_and_reorder() -> None:
    assert columns_of(fields(offset=LongType(), value=BinaryType())) == ("offset", "value")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (fields(valeu=BinaryType()), "there is no column valeu"),
        (fields(value=StringType()), "value is binary, not string"),
    ],
)
def test_a_schema_may_not_invent(schema: StructType, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        columns_of(schema)


def test_dates_are_parsed_as_text_and_cast() -> None:
    from pyspark.sql.types import DateType

    nested = fields(days=ArrayType(DateType()))
    assert arrow_type(nested, "v") == pa.struct([pa.field("days", pa.list_(pa.date32()))])
    assert arrow_type(nested, "v", parsed=True) == pa.struct([pa.field("days", pa.list_(pa.string()))])


def test_the_sink_takes_what_sparks_kafka_sink_takes() -> None:
    strict = ArrayType(
        StructType([StructField("key", StringType(), False), StructField("value", BinaryType(), False)]), False
    )
    rows = fields(value=StringType(), other=LongType(), topic=StringType(), headers=strict, partition=IntegerType())
    assert sink_columns(rows, topic_given=False) == ("value", "topic", "partition", "headers")
    assert sink_columns(rows, topic_given=True) == ("value", "partition", "headers"), "the option goes first"
    assert sink_columns(fields(value=BinaryType(), headers=HEADERS_TYPE), topic_given=True) == ("value", "headers")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (fields(v=StringType()), "no column value"),
        (fields(value=LongType()), "value is bigint, it must be string or binary"),
        (fields(value=StringType(), partition=LongType()), "partition is bigint, it must be int"),
        (fields(value=StringType(), headers=ArrayType(StringType())), "the column headers is array<string>"),
    ],
)
def test_the_sink_refuses_the_rest(schema: StructType, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        sink_columns(schema, topic_given=True)
    with pytest.raises(SchemaError, match="nothing says which topic"):
        sink_columns(fields(value=StringType()), topic_given=False)
