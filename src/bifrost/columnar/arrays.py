"""What an application hands over, as the arrays that the encoder wants: any kind of text or bytes, any kind of time.

Arrays are checked to the last offset before a kernel sees them: compiled code would believe them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bifrost.client.errors import InvalidRequestError
from bifrost.columnar.errors import InvalidRow
from bifrost.columnar.kernels.interface import BinaryColumn, HeaderColumn, Ints, ShortInts

if TYPE_CHECKING:
    import pyarrow

_HEADERS_HINT: Final = "Headers are list<struct<key: string, value: binary>>."
_NO_TIMESTAMP: Final = -1


def one_array(column: pyarrow.Array | pyarrow.ChunkedArray) -> pyarrow.Array:
    """A column of a table in one piece."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def binary_column(array: pyarrow.Array, name: str) -> BinaryColumn | None:
    """Bytes or text of any kind. A column of nulls is as good as none."""
    if pa.types.is_null(array.type):
        return None
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not (_is_bytes(array.type) or pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
            or array.type == pa.string_view()):  # fmt: skip
        raise InvalidRequestError(
            f"column {name} is of type {array.type}, and a topic holds bytes", "Cast it to binary or string first."
        )
    array.validate(full=True)
    if array.type != pa.binary():
        array = array.cast(pa.binary())
    validity, _, data = array.buffers()
    valid = np.empty(0, np.bool_) if validity is None or not array.null_count else _flags(array.is_valid())
    contents = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return BinaryColumn(array, _offsets(array), contents, valid)


def header_column(array: pyarrow.Array, name: str) -> HeaderColumn | None:
    """Lists of key and value; null is an empty list."""
    if pa.types.is_null(array.type):
        return None
    kind = array.type
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    elif not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise InvalidRequestError(f"column {name} is of type {kind}, and headers are lists", _HEADERS_HINT)
    item = array.type.value_type
    if not pa.types.is_struct(item) or {item.field(index).name for index in range(item.num_fields)} != {"key", "value"}:
        raise InvalidRequestError(f"column {name} is of type {kind}, and headers have a key and a value", _HEADERS_HINT)
    array = array.cast(pa.list_(item))
    array.validate(full=True)
    pairs = array.flatten()  # of the rows that are there: neither what a slice hides, nor what lies under a null
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    names = binary_column(pairs.field("key"), f"{name}.key")
    values = binary_column(pairs.field("value"), f"{name}.value")
    keyless = np.flatnonzero(_flags(pc.or_(pairs.is_null(), pairs.field("key").is_null())))
    if len(keyless):
        row = int(np.searchsorted(offsets, keyless[0], side="right")) - 1
        raise InvalidRow(row, f"a header in column {name} has no key", "Every header needs one; its value may be null.")
    if names is None:
        return None
    if values is None:
        values = binary_column(pa.nulls(len(pairs), pa.binary()), f"{name}.value")
        assert values is not None
    return HeaderColumn(offsets, names, values)


def timestamps_ms(array: pyarrow.Array, name: str, now_ms: int) -> Ints:
    """Milliseconds since 1970 from timestamps, dates or whole numbers (of milliseconds); null is now."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("ms", tz=kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date(kind):
        array = array.cast(pa.timestamp("ms")).cast(pa.int64())
    elif pa.types.is_integer(kind) or pa.types.is_null(kind):
        array = array.cast(pa.int64())
    else:
        raise InvalidRequestError(
            f"column {name} is of type {kind}, and no time", "Give it as timestamp, or as milliseconds since 1970."
        )
    times: Ints = _numbers(pc.fill_null(array, now_ms))
    if len(times) and int(times.min()) < _NO_TIMESTAMP:
        raise InvalidRequestError(f"column {name} has a time before 1970", "Kafka has no timestamps before 1970.")
    return times


def partition_numbers(array: pyarrow.Array, name: str, partition_count: int) -> ShortInts:
    """Partitions that exist; -1 where none is named."""
    if not (pa.types.is_integer(array.type) or pa.types.is_null(array.type)):
        raise InvalidRequestError(f"column {name} is of type {array.type}", "Partitions are whole numbers, or null.")
    numbers = _numbers(pc.fill_null(array.cast(pa.int64()), -1))
    named = _flags(array.is_valid())
    outside = np.flatnonzero(named & ((numbers < 0) | (numbers >= partition_count)))
    if len(outside):
        row = int(outside[0])
        raise InvalidRow(
            row,
            f"column {name} names partition {numbers[row]}, and the topic has {partition_count}",
            "Counting starts at 0; leave it null to let the key decide.",
        )
    chosen: ShortInts = numbers.astype(np.int32)
    return chosen


def _is_bytes(kind: pyarrow.DataType) -> bool:
    is_binary: bool = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or kind == pa.binary_view()
    return is_binary or bool(pa.types.is_fixed_size_binary(kind))


def _offsets(array: pyarrow.Array) -> ShortInts:
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    return offsets if offsets.flags.aligned else offsets.copy()


def _numbers(array: pyarrow.Array) -> Any:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False), np.int64)


def _flags(array: pyarrow.Array) -> Any:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False), np.bool_)
