"""Messages as `kafka-console-consumer` prints them, with the properties of its default formatter.

Names, order and spelling are those of Kafka's DefaultMessageFormatter, so that scripts that cut its lines keep working.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from bifrost.cli.data.formats import TIMESTAMP_TYPES, Format, Part, Received, part
from bifrost.cli.data.shapes import TEXT
from bifrost.cli.output import remark
from bifrost.client.errors import UnsupportedError, nearest

_DESERIALIZERS = {
    "StringDeserializer": TEXT,
    "ByteArrayDeserializer": TEXT,
    "BytesDeserializer": TEXT,
    "ByteBufferDeserializer": TEXT,
    "ShortDeserializer": "int",
    "IntegerDeserializer": "int",
    "LongDeserializer": "int",
    "FloatDeserializer": "float",
    "DoubleDeserializer": "float",
    "BooleanDeserializer": "bool",
    "UUIDDeserializer": "uuid",
}
_SHAPED = {"key.deserializer", "value.deserializer", "headers.deserializer"}


@dataclass(frozen=True, slots=True)
class Columns:
    """A property `print.key` is the field `print_key`."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_delivery: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"


def shape_of(deserializer: str) -> str:
    """The shape that one of Kafka's classes reads."""
    name = deserializer.rpartition(".")[2]
    if name not in _DESERIALIZERS:
        raise UnsupportedError(
            f"the deserializer {deserializer} cannot be run here", f"There are: {', '.join(_DESERIALIZERS)}."
        )
    return _DESERIALIZERS[name]


def console_format(properties: Mapping[str, str]) -> Format:
    """From `--formatter-property`, `--property` and the deserializer options."""
    known = {field.name.replace("_", "."): field.name for field in fields(Columns)}
    given: dict[str, bool | bytes] = {}
    for name, text in properties.items():
        if name in _SHAPED:
            continue
        if name not in known:
            hint = nearest(name, [*known, *_SHAPED]) or f"It has: {', '.join([*known, *sorted(_SHAPED)])}."
            remark(f"the formatter has no property {name}, which is ignored. {hint}")
            continue
        flag = name.startswith("print.")
        given[known[name]] = text.strip().lower() == "true" if flag else text.encode()
    columns = Columns(**given)  # type: ignore[arg-type]  # flags are bool, the rest bytes
    key, value, header = (
        part(shape_of(properties.get(f"{name}.deserializer", "StringDeserializer")), null=b"", terminal=False)
        for name in ("key", "value", "headers")
    )
    return lambda message: _line(message, columns, key, value, header)


def _line(message: Received, columns: Columns, key: Part, value: Part, header: Part) -> bytes:
    null = columns.null_literal
    found: list[bytes] = []
    if columns.print_timestamp:
        kind = TIMESTAMP_TYPES.get(message.timestamp_type)
        found.append(f"{kind}:{message.timestamp_ms}".encode() if kind else b"NO_TIMESTAMP")
    if columns.print_partition:
        found.append(b"Partition:%d" % message.partition)
    if columns.print_offset:
        found.append(b"Offset:%d" % message.offset)
    if columns.print_delivery:
        found.append(b"Delivery:NOT_PRESENT")
    if columns.print_epoch:
        found.append(b"Epoch:NOT_PRESENT" if message.leader_epoch is None else b"Epoch:%d" % message.leader_epoch)
    if columns.print_headers:
        pairs = [name.encode() + b":" + (null if each is None else header(each)) for name, each in message.headers]
        found.append(columns.headers_separator.join(pairs) if pairs else b"NO_HEADERS")
    if columns.print_key:
        found.append(null if message.key is None else key(message.key))
    if columns.print_value:
        found.append(null if message.value is None else value(message.value))
    return columns.key_separator.join(found) + columns.line_separator if found else b""
