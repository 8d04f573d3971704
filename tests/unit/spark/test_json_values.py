"""JSON values as columns, and what becomes of those that are none."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from bifrost.spark.failures import MalformedValueError
from bifrost.spark.json_values import JsonParser, Parsed, refuse
from bifrost.spark.schema import arrow_type

FIELDS = StructType([StructField("n", LongType()), StructField("s", StringType()), StructField("d", DateType())])
PARSER = JsonParser(arrow_type(FIELDS, "value", parsed=True), arrow_type(FIELDS, "value"))
NOTHING = {"n": None, "s": None, "d": None}


def parse(*values: bytes | None) -> Parsed:
    return PARSER.parse(pa.array(values, pa.binary()))


def test_fields_become_columns_and_others_are_ignored() -> None:
    parsed = parse(b'{"n":1,"s":"x","d":"2024-05-06","other":[{}]}', b"{}", b'{"s":"a\\nb"}', b' {"n" :\n 7} ')
    assert parsed.malformed == {}
    assert parsed.rows.to_pylist() == [
        {"n": 1, "s": "x", "d": datetime.date(2024, 5, 6)},
        NOTHING,
        NOTHING | {"s": "a\nb"},
        NOTHING | {"n": 7},
    ]


def test_no_value_is_no_row_but_not_malformed() -> None:
    parsed = parse(None, b"null", b'{"n":1}')
    assert (parsed.rows.to_pylist(), parsed.malformed) == ([None, None, NOTHING | {"n": 1}], {})


def test_nothing_at_all() -> None:
    assert parse().rows.to_pylist() == []


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"}",
        b"5",
        b"[1]",
        b'"x"',
        b'{"n":1.5}',
        b'{"n":"1"}',
        b'{"n":99999999999999999999}',
        b'{"s":5}',
        b'{"d":"yesterday"}',
        b'{"s":"\xff"}',
        b'{"n":1}{"n":2}',
        b'{"n":1}}{"v":{"n":2}',
        b'{}}\n{"v":{}',
        b'{"n":1},',
        b'{"s":"a\nb"}',
    ],
)
def test_a_malformed_value_spoils_no_other(bad: bytes) -> None:
    parsed = parse(b'{"n":1}', bad, None, b'{"n":3}')
    assert [row and row["n"] for row in parsed.rows.to_pylist()] == [1, None, None, 3]
    assert list(parsed.malformed) == [1]


def test_two_halves_of_a_document_are_not_one() -> None:
    """And a value of two documents does not make up for a value of none."""
    assert list(parse(b'{"n":', b"1}").malformed) == [0, 1]
    assert list(parse(b'{"n":1}{"n":2}', b"", b'{"n":3}').malformed) == [0, 1]
    assert list(parse(b'{"n":1}}\n{"v":{"n":2}', b"", b'{"n":3}').malformed) == [0, 1]


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.fixed_dictionaries({}, optional={"n": st.integers(-(2**63), 2**63 - 1), "s": st.text()}).map(
                lambda row: json.dumps(row).encode()
            ),
            st.binary(max_size=8).map(lambda noise: b"x" + noise),
            st.sampled_from([b'{"n":', b"}", b'{"n":true}', b"{}}", b'\n{"v":{}}']),
        ),
        max_size=12,
    )
)
def test_every_row_is_its_own_value(values: list[bytes | None]) -> None:
    parsed = parse(*values)
    assert parsed.rows.to_pylist() == [_alone(value) for value in values]
    assert list(parsed.malformed) == [
        index for index, value in enumerate(values) if value is not None and _alone(value) is None
    ]


def _alone(value: bytes | None) -> dict[str, object] | None:
    """What the value is to become, by a parser that sees no other value; None if it is malformed."""
    try:
        document = json.loads(value or b"null")
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("n") is True:
        return None
    return NOTHING | {name: document[name] for name in NOTHING.keys() & document.keys()}


def test_failing_fast_names_the_record() -> None:
    parsed = parse(b"{}", b"{")
    with pytest.raises(MalformedValueError, match=r"t-3: the value at offset 18 .* mode=permissive"):
        refuse(parsed, "t", 3, pa.array([17, 18], pa.int64()))
    refuse(parse(b"{}"), "t", 3, pa.array([17], pa.int64()))
