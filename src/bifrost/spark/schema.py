"""Columns as Spark and as Arrow name them: those of a topic, those of JSON values, and those that a sink takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from bifrost.spark.failures import SchemaError
from bifrost.spark.read_options import COLUMNS, JsonValues

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}
METADATA: Final = {f"_{name}": name for name in COLUMNS if name != "value"}
"""Beside the fields of JSON values a schema may name these: `_offset` is the record's offset."""


def topic_schema(columns: tuple[str, ...]) -> StructType:
    """The columns of Spark's Kafka source."""
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """A schema that the program gave may leave columns out or reorder them, but not change them."""
    for field in schema.fields:
        expected = _TYPES.get(field.name)
        if expected is None:
            raise SchemaError(
                f"there is no column {field.name}",
                f"There are {', '.join(COLUMNS)}; fields of the values become columns with valueFormat=json.",
            )
        if field.dataType != expected:
            raise SchemaError(
                f"the column {field.name} is {expected.simpleString()}, not {field.dataType.simpleString()}",
                "Read it as it is and cast it.",
            )
    return tuple(schema.fieldNames())


def check_json_schema(schema: StructType, options: JsonValues) -> None:
    """Raises on the driver for what could only fail in tasks later."""
    fields = [field for field in schema.fields if field.name not in METADATA]
    for field in schema.fields:
        if field.name in METADATA and field.dataType != _TYPES[METADATA[field.name]]:
            expected = _TYPES[METADATA[field.name]].simpleString()
            raise SchemaError(f"{field.name} of a record is {expected}, not {field.dataType.simpleString()}")
        if field.name == options.corrupt_column and not isinstance(field.dataType, StringType):
            raise SchemaError(f"{field.name} holds the text of malformed values: it must be a string")
        if not field.nullable:
            raise SchemaError(f"{field.name} must be nullable: a value may lack it, or be malformed")
    if not any(field.name != options.corrupt_column for field in fields):
        raise SchemaError("the schema names no field of the values", "Name some, or read values as they are.")
    for field in fields:
        arrow_type(field.dataType, field.name)


def arrow_type(data_type: DataType, where: str, *, parsed: bool = False) -> Any:
    """Spark's type in Arrow; `parsed` gives the one that Arrow's JSON parser makes of it, which knows no dates."""
    import pyarrow as pa

    if isinstance(data_type, StructType):
        return pa.struct(
            [
                pa.field(field.name, arrow_type(field.dataType, f"{where}.{field.name}", parsed=parsed))
                for field in data_type.fields
            ]
        )
    if isinstance(data_type, ArrayType):
        return pa.list_(arrow_type(data_type.elementType, f"{where}[]", parsed=parsed))
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, DateType):
        return pa.string() if parsed else pa.date32()
    simple = {
        StringType: pa.string(),
        BooleanType: pa.bool_(),
        ByteType: pa.int8(),
        ShortType: pa.int16(),
        IntegerType: pa.int32(),
        LongType: pa.int64(),
        FloatType: pa.float32(),
        DoubleType: pa.float64(),
        TimestampType: pa.timestamp("us", tz="UTC"),
        TimestampNTZType: pa.timestamp("us"),
    }
    for kind, arrow in simple.items():
        if isinstance(data_type, kind):
            return arrow
    raise SchemaError(
        f"JSON cannot become {data_type.simpleString()} in {where}", "Read it as string and convert it in Spark."
    )


def sink_columns(schema: StructType, *, topic_given: bool) -> tuple[str, ...]:
    """Those of the rows' columns that are written; others are ignored, as Spark's Kafka sink does."""
    allowed: dict[str, tuple[DataType, ...]] = {
        "key": (StringType(), BinaryType()),
        "value": (StringType(), BinaryType()),
        "topic": (StringType(),),
        "partition": (IntegerType(),),
        "headers": (HEADERS_TYPE,),
    }
    found = {field.name: field.dataType for field in schema.fields if field.name in allowed}
    if "value" not in found:
        raise SchemaError(
            "the rows have no column value",
            f"They have {', '.join(schema.fieldNames()) or 'none'}: select what is to be written as value.",
        )
    if "topic" not in found and not topic_given:
        raise SchemaError(
            "nothing says which topic to write to", "Set the option topic, or give the rows a column topic."
        )
    for name, data_type in found.items():
        if not any(_same(data_type, each) for each in allowed[name]):
            types = " or ".join(each.simpleString() for each in allowed[name])
            raise SchemaError(f"the column {name} is {data_type.simpleString()}, it must be {types}", "Cast it.")
    return tuple(name for name in allowed if name in found and not (name == "topic" and topic_given))


def _same(given: DataType, wanted: DataType) -> bool:
    """Whether they differ in nothing but what may be null, or in how strings are compared."""
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _same(given.elementType, wanted.elementType)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.fieldNames() == wanted.fieldNames() and all(
            _same(each.dataType, other.dataType) for each, other in zip(given.fields, wanted.fields)
        )
    if isinstance(given, StringType) and isinstance(wanted, StringType):
        return True
    return given == wanted


def json_arrow_schema(schema: StructType) -> pa.Schema:
    """What tasks hand to Spark."""
    import pyarrow as pa

    topic_types = {name: arrow_type(data_type, name) for name, data_type in _TYPES.items() if name not in _BYTES}
    topic_types |= {
        "key": pa.binary(),
        "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    }
    return pa.schema(
        [
            pa.field(
                field.name,
                topic_types[METADATA[field.name]] if field.name in METADATA else arrow_type(field.dataType, field.name),
            )
            for field in schema.fields
        ]
    )


_BYTES: Final = frozenset({"key", "value", "headers"})
