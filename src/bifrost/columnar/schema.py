"""The columns of a topic: names and types of Spark's Kafka source, so that code written for one reads the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from bifrost.client.errors import InvalidRequestError, nearest
from bifrost.columnar.errors import arrow

if TYPE_CHECKING:
    import pyarrow

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""What is read unless the caller says otherwise."""

HEADERS: Final = "headers"
ALL_COLUMNS: Final = (*COLUMNS, HEADERS)


def checked(columns: Iterable[str] | None, *, headers: bool = False) -> tuple[str, ...]:
    """The names in the order that the caller gave them; each exists, and none comes twice."""
    if isinstance(columns, str):
        columns = (columns,)
    names = COLUMNS if columns is None else tuple(columns)
    if headers and HEADERS not in names:
        names = (*names, HEADERS)
    for name in names:
        if name not in ALL_COLUMNS:
            hint = nearest(name, ALL_COLUMNS) or f"The columns are {', '.join(ALL_COLUMNS)}."
            raise InvalidRequestError(f"a topic has no column {name}", hint)
    if len(set(names)) < len(names):
        raise InvalidRequestError(f"a column is named twice: {', '.join(names)}", "Name each once.")
    if not names:
        raise InvalidRequestError("no column is asked for", f"The columns are {', '.join(ALL_COLUMNS)}.")
    return names


def schema(columns: Iterable[str] | None = None) -> pyarrow.Schema:
    """The Arrow schema of these columns."""
    pa = arrow()
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(header),
    }
    return pa.schema([pa.field(name, types[name]) for name in checked(columns)])
