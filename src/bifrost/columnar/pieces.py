"""Whatever holds columns, as tables of a good size: large enough to fill batches, and too small to fill the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from bifrost.client.errors import InvalidRequestError
from bifrost.columnar.errors import arrow

if TYPE_CHECKING:
    import pyarrow

PIECE_BYTES: Final = 32 << 20
PIECE_ROWS: Final = 1 << 20


def pieces(data: Any) -> Iterator[pyarrow.Table]:
    """Tables of about `PIECE_BYTES`; at least one, so that even a table without rows is looked at."""
    pa = arrow()
    gathered: list[pyarrow.Table] = []
    size = rows = 0
    empty: pyarrow.Table = None
    for table in _tables(data):
        empty = table.slice(0, 0) if empty is None else empty
        for part in _split(table):
            if gathered and (size + part.nbytes > PIECE_BYTES or rows + part.num_rows > PIECE_ROWS):
                yield pa.concat_tables(gathered)
                gathered, size, rows = [], 0, 0
            gathered.append(part)
            size += part.nbytes
            rows += part.num_rows
    if gathered or empty is not None:
        yield pa.concat_tables(gathered or [empty])


def _split(table: pyarrow.Table) -> Iterator[pyarrow.Table]:
    each = max(1, min(PIECE_ROWS, int(table.num_rows * PIECE_BYTES / max(table.nbytes, 1))))
    for first in range(0, table.num_rows, each):
        yield table.slice(first, each)


def _tables(data: Any) -> Iterator[pyarrow.Table]:
    pa = arrow()
    if isinstance(data, pa.Table):
        yield data
    elif isinstance(data, pa.RecordBatch):
        yield pa.Table.from_batches([data])
    elif hasattr(data, "__arrow_c_stream__"):  # Polars, DuckDB, pandas, an ArrowTopic, a RecordBatchReader
        reader = pa.RecordBatchReader.from_stream(data)
        nothing = True
        for batch in reader:
            nothing = False
            yield pa.Table.from_batches([batch])
        if nothing:
            yield reader.schema.empty_table()
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        for each in data:
            if not isinstance(each, pa.Table | pa.RecordBatch):
                raise _unknown(each)
            yield from _tables(each)
    else:
        raise _unknown(data)


def _unknown(data: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"{type(data).__name__} holds no Arrow columns",
        "Give a pyarrow Table, record batches, or a DataFrame of Polars or pandas.",
    )
