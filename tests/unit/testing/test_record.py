"""What a test may write for a record, and what it is equal to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest import mock

import msgspec
import pytest

from bifrost.testing import ANY, Record
from bifrost.testing.record import agrees, as_record, as_records, disagreements, encode, header_pairs


def found(value: bytes | None = b"v", key: bytes | None = None, **others: Any) -> Record:
    return Record(
        **{"headers": (), "partition": 0, "offset": 7, "timestamp_ms": 5, **others, "value": value, "key": key}
    )


class Point(msgspec.Struct):
    x: int


@dataclass
class Order:
    n: int


@pytest.mark.parametrize(
    ("written", "value", "key"),
    [
        ("hé", "hé".encode(), b"any"),
        (b"\xff", b"\xff", None),
        (None, None, b"k"),
        (("k", "v"), b"v", b"k"),
        ((None, "v"), b"v", None),
        (("k", None), None, b"k"),
        ({"b": 1, "a": [True, None]}, b'{"a": [true, null],\n "b": 1}', None),
        ([1, 2], b"[1,2]", None),
        (Point(3), b'{"x":3}', None),
        (Order(4), b'{"n":4}', None),
        (12, b"12", None),
        (mock.ANY, b"\xff not json", None),
        (mock.ANY, None, None),
        ({"id": mock.ANY, "n": pytest.approx(0.3)}, b'{"id": 17, "n": 0.30000000001}', None),
        (Record("v", headers={"b": "2", "a": None}), b"v", None),
        (Record(ANY, partition=0, offset=7, timestamp_ms=5), b"whatever", None),
        (Record("v", headers=[("a", None), ("b", b"2")]), b"v", None),
    ],
)
def test_what_is_written_is_found(written: object, value: bytes | None, key: bytes | None) -> None:
    headers = (("a", None), ("b", b"2"))
    assert agrees(as_record(written), found(value, key, headers=headers))


@pytest.mark.parametrize(
    ("written", "there", "fields"),
    [
        ("v", found(b"w"), ["value"]),
        ("", found(None), ["value"]),
        (None, found(b""), ["value"]),
        (("k", "v"), found(b"v", None), ["key"]),
        ((None, "v"), found(b"v", b""), ["key"]),
        ({"n": 1}, found(b'{"n": 2}'), ["value"]),
        ({"n": 1}, found(b"no json"), ["value"]),
        ({"n": 1}, found(b"\xff"), ["value"]),
        ({"n": 1}, found(None), ["value"]),
        (Point(3), found(b'{"x":4}'), ["value"]),
        (Record("v", partition=1, offset=8, timestamp_ms=6), found(), ["partition", "offset", "timestamp_ms"]),
        (Record("v", headers=[]), found(headers=(("a", b"1"),)), ["headers"]),
        (Record("v", headers={"a": "1"}), found(headers=(("a", b"2"),)), ["headers"]),
        (Record("v", headers=[("a", "1"), ("b", "2")]), found(headers=(("b", b"2"), ("a", b"1"))), ["headers"]),
    ],
)
def test_what_differs_is_named(written: object, there: Record, fields: list[str]) -> None:
    assert disagreements(as_record(written), there) == fields


@pytest.mark.parametrize("one", ["abc", b"abc", {"n": 1}, ("k", "v"), Record("v")])
def test_one_record_is_not_taken_for_a_list(one: Any) -> None:
    with pytest.raises(TypeError, match="give a list of records"):
        as_records(one)


def test_a_tuple_is_a_key_and_a_value() -> None:
    with pytest.raises(TypeError, match="this one has 3 parts"):
        as_records([("a", "b", "c")])


def test_what_goes_over_the_wire() -> None:
    assert [encode(part) for part in (None, ANY, "é", bytearray(b"x"), {"n": 1})] == [
        None, None, "é".encode(), b"x", b'{"n":1}',
    ]  # fmt: skip
    assert header_pairs({"a": "1", "b": None}) == [("a", b"1"), ("b", None)]
    assert header_pairs(ANY) == header_pairs(None) == []


def test_a_record_shows_what_it_says() -> None:
    assert repr(Record("v", partition=1)) == "Record(value='v', partition=1)"
    assert found(b'{"n": 1}').json() == {"n": 1}
    assert found("é".encode()).text == "é"
    with pytest.raises(ValueError, match="tombstone"):
        _ = found(None).text
