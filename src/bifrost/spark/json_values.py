"""JSON values of a batch of records as columns, parsed by Arrow; and which of them are no such JSON.

All values of a batch are parsed at once. Each is wrapped in an object of its own: whatever a value holds, it then
cannot run into the next one without either an error or one object too many, so that equal counts prove that row i is
value i. Only a batch with a malformed value is looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from bifrost.spark.failures import MalformedValueError

if TYPE_CHECKING:
    import pyarrow as pa

_PARTS = (b'{"v":', b"}\n")


@dataclass(frozen=True, slots=True)
class Parsed:
    """One struct for each value, null where it is malformed; `malformed` has the reason for each of those."""

    rows: pa.StructArray
    malformed: dict[int, str]


class JsonParser:
    """Parses values into one type of struct."""

    def __init__(self, parsed_type: pa.StructType, wanted_type: pa.StructType) -> None:
        self._parsed_type = parsed_type
        self._wanted_type = wanted_type

    def parse(self, values: pa.BinaryArray) -> Parsed:
        """A null value is a null struct, and not malformed."""
        import pyarrow as pa

        try:
            # Arrow's parser lets text through that is not UTF-8, and Spark would show it as something else.
            values.cast(pa.string())
            return Parsed(self._parse_all(values), {})
        except pa.ArrowInvalid:
            return self._parse_sound_ones(values)

    def _parse_sound_ones(self, values: pa.BinaryArray) -> Parsed:
        import pyarrow as pa

        malformed = {}
        sound = []
        for index, value in enumerate(values.to_pylist()):
            reason = _unsound(value)
            if reason is None:
                sound.append(index)
            else:
                malformed[index] = reason
        pieces: list[tuple[list[int], pa.StructArray]] = []
        self._bisect(values, sound, pieces, malformed)
        places: list[int | None] = [None] * len(values)
        for place, index in enumerate(index for indexes, _ in pieces for index in indexes):
            places[index] = place
        rows = pa.concat_arrays([rows for _, rows in pieces]) if pieces else pa.nulls(0, self._wanted_type)
        return Parsed(rows.take(pa.array(places, pa.int64())), dict(sorted(malformed.items())))

    def _bisect(self, values: pa.BinaryArray, indexes: list[int], pieces: list[Any], malformed: dict[int, str]) -> None:
        """Halves until what does not fit the schema stands alone."""
        import pyarrow as pa

        if not indexes:
            return
        try:
            pieces.append((indexes, self._parse_all(values.take(pa.array(indexes, pa.int64())))))
        except pa.ArrowInvalid as error:
            if len(indexes) == 1:
                malformed[indexes[0]] = str(error).removeprefix("JSON parse error: ").replace("/v/", "/")
                return
            middle = len(indexes) // 2
            self._bisect(values, indexes[:middle], pieces, malformed)
            self._bisect(values, indexes[middle:], pieces, malformed)

    def _parse_all(self, values: pa.BinaryArray) -> pa.StructArray:
        """Raises ArrowInvalid if a single one is malformed."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.json as pj

        if not len(values):
            return pa.nulls(0, self._wanted_type)
        wrapped = pc.binary_join_element_wise(_PARTS[0], pc.fill_null(values, b"null"), _PARTS[1], b"")
        size = sum(map(len, _PARTS)) * len(values) + (
            pc.sum(pc.binary_length(pc.fill_null(values, b"null"))).as_py() or 0
        )
        table = pj.read_json(
            pa.BufferReader(wrapped.buffers()[2].slice(0, size)),
            read_options=pj.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([pa.field("v", self._parsed_type)]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("more than one JSON document")
        rows = table.column("v").combine_chunks()
        return rows.cast(self._wanted_type)


def _unsound(value: bytes | None) -> str | None:
    """Why this is no JSON object at all."""
    if value is None:
        return None
    try:
        document = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    return None if document is None or isinstance(document, dict) else "not a JSON object"


def refuse(parsed: Parsed, topic: str, partition: int, offsets: pa.Int64Array) -> None:
    """Raises for the first malformed value."""
    for index, reason in parsed.malformed.items():
        raise MalformedValueError(
            f"{topic}-{partition}: the value at offset {offsets[index].as_py()} is not what the schema says: {reason}",
            "mode=permissive makes its columns null, mode=dropmalformed leaves it out.",
        )
