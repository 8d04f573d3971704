"""What a table may hold, and what is said when it holds something else."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from bifrost.client.errors import InvalidRequestError
from bifrost.columnar.encoder import Columns, encode
from bifrost.columnar.errors import InvalidRow
from bifrost.columnar.partitioning import Partitioner
from bifrost.protocol.records import Record, decode_batch

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def written(columns: dict[str, Any], **roles: str | None) -> list[Record]:
    names: dict[str, Any] = {"key": None, "value": None} | roles
    made = encode(pa.table(columns), Partitioner(2, first=0), now_ms=7, columns=Columns(**names))
    return [record for each in made for record in decode_batch(each.batch)]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([b"one", None, b""]),
        pa.array(["one", None, ""]),
        pa.array(["one", None, ""], pa.large_string()),
        pa.array([b"one", None, b""], pa.large_binary()),
        pa.array(["one", None, ""], pa.string_view()),
        pa.array([b"one", None, b""], pa.binary_view()),
        pa.array(["one", None, ""]).dictionary_encode(),
        pa.chunked_array([["one"], [None, ""]]),
    ],
    ids=lambda array: str(array.type),
)
def test_any_kind_of_text_and_bytes_is_a_value(array: Any) -> None:
    assert [record.value for record in written({"value": array}, value="value")] == [b"one", None, b""]


def test_bytes_of_fixed_size_are_a_value() -> None:
    assert [record.value for record in written({"v": pa.array([b"ab", None], pa.binary(2))}, value="v")] == [
        b"ab",
        None,
    ]


def test_a_column_of_nulls_is_null() -> None:
    assert [record.value for record in written({"v": pa.nulls(2), "k": ["a", "a"]}, value="v", key="k")] == [None, None]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([NOON], pa.timestamp("s")),
        pa.array([NOON], pa.timestamp("us", tz="UTC")),
        pa.array([NOON], pa.timestamp("ns", tz="Europe/Oslo")),
        pa.array([NOON_MS]),
    ],
    ids=lambda array: str(array.type),
)
def test_any_kind_of_time_is_a_timestamp(array: pa.Array) -> None:
    assert [record.timestamp for record in written({"at": array}, timestamp="at")] == [NOON_MS]


def test_a_date_is_a_timestamp_and_null_is_now() -> None:
    found = written({"at": pa.array([date(1970, 1, 2), None])}, timestamp="at")
    assert [record.timestamp for record in found] == [86_400_000, 7]


@pytest.mark.parametrize("pairs", [[("a", b"1"), ("b", None)], []])
def test_headers_may_be_a_map(pairs: list[tuple[str, bytes | None]]) -> None:
    kind = pa.map_(pa.string(), pa.binary())
    found = written({"h": pa.array([pairs, None], kind)}, headers="h")
    assert [record.headers for record in found] == [tuple(pairs), ()]


def test_what_lies_under_a_null_list_is_not_written() -> None:
    pairs = pa.array([{"key": "hidden", "value": b"1"}, {"key": "seen", "value": b"2"}])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs, mask=pa.array([True, False]))
    found = written({"h": lists}, headers="h")
    assert [record.headers for record in found] == [(), (("seen", b"2"),)]


@pytest.mark.parametrize(
    ("columns", "roles", "words"),
    [
        ({"value": [1, 2]}, {"value": "value"}, "of type int64, and a topic holds bytes"),
        ({"value": [{"a": 1}]}, {"value": "value"}, "Cast it to binary or string"),
        ({"value": ["a"]}, {"value": "valeu"}, "no column valeu for value"),
        ({"h": ["a"]}, {"headers": "h"}, "headers are lists"),
        ({"h": [["a"]]}, {"headers": "h"}, "headers have a key and a value"),
        ({"h": [[{"key": None, "value": b"1"}]]}, {"headers": "h"}, "has no key"),
        ({"h": [[None, {"key": "a", "value": b"1"}]]}, {"headers": "h"}, "has no key"),
        ({"p": [2]}, {"partition": "p"}, "names partition 2, and the topic has 2"),
        ({"p": [-1]}, {"partition": "p"}, "names partition -1"),
        ({"p": ["a"]}, {"partition": "p"}, "Partitions are whole numbers"),
        ({"at": [-2]}, {"timestamp": "at"}, "before 1970"),
        ({"at": ["noon"]}, {"timestamp": "at"}, "and no time"),
    ],
)
def test_what_cannot_be_written_is_said_in_words(columns: dict[str, Any], roles: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        written(columns, **roles)


def test_arrays_with_offsets_beyond_their_bytes_never_reach_a_kernel() -> None:
    offsets = pa.array([0, 1_000_000, 5], pa.int32()).buffers()[1]
    lying = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"short")])
    with pytest.raises(pa.ArrowInvalid):
        written({"value": lying}, value="value")


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (pa.array([0, None, 1, 9, 9], pa.int32()), "partition"),
        (pa.array([None, [], [{"key": "a", "value": None}] * 2, [{"key": None, "value": b""}]] * 2), "headers"),
    ],
)
def test_the_first_row_that_cannot_be_written_is_told(column: pa.Array, named: str) -> None:
    table = pa.table({"x": column, "value": pa.array([b"v"] * len(column))})
    with pytest.raises(InvalidRow) as caught:
        list(encode(table, Partitioner(2), now_ms=0, columns=Columns(key=None, **{named: "x"})))
    assert caught.value.row == 3
