"""Which comparisons succeed, and what the others say, line by line."""

from __future__ import annotations

import time
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.testing import ANY, Record
from bifrost.testing.difference import difference, listing
from bifrost.testing.matching import match
from bifrost.testing.record import as_record, as_records, encode


def stored(partition: int, *written: object) -> dict[int, list[Record]]:
    """Records as they would be read back."""
    given = [as_record(each) for each in written]
    return {
        partition: [
            Record(encode(each.value), encode(each.key), (), partition, offset, 5) for offset, each in enumerate(given)
        ]
    }


def told(expected: list[object], there: dict[int, list[Record]], *, ordered: bool = True) -> str:
    text = difference("t", as_records(expected), there, ordered=ordered)
    assert text is not None
    return text


def same(text: str, wanted: str) -> None:
    assert text == dedent(wanted).strip("\n")


def test_each_kind_of_mistake_has_its_mark() -> None:
    expected = [("a", "1"), ("b", {"n": 2, "x": 1}), ("c", "3"), ("d", "4"), ("e", "5")]
    there = stored(0, ("a", "1"), ("e", "5"), ("b", {"x": 1, "n": 3}), ("q", "surprise"), ("c", "3"))
    same(
        told([*expected], there),
        """
        records of t are not as expected: 1 different, 1 missing, 1 extra, 1 out of order; 2 of 5 right
          partition 0
              offset 0  key 'a'  value '1'
            ! offset 1  key 'e'  value '5'  <- out of order: expected as #4, after offset 4
            ~ offset 2     key 'b'  value {"n":3,"x":1}
              expected #1  key 'b'  value {"n":2,"x":1}
                                               ^
            + offset 3  key 'q'  value 'surprise'  <- extra
              offset 4  key 'c'  value '3'
          - #3  key 'd'  value '4'  <- missing
        """,
    )


def test_the_fewest_records_are_called_out_of_order() -> None:
    same(
        told(["1", "2", "3", "4"], stored(0, "4", "1", "2", "3")),
        """
        records of t are not as expected: 1 out of order; 3 of 4 right
          partition 0
            ! offset 0  value '4'  <- out of order: expected as #3, after offset 3
              offset 1  value '1'
              offset 2  value '2'
              ... 1 more
        """,
    )
    assert "out of order: expected as #0, before offset 0" in told(["1", "2", "3"], stored(0, "2", "3", "1"))


def test_an_empty_topic_is_called_so() -> None:
    same(
        told(["1", ("k", None)], {}),
        """
        records of t are not as expected: 2 missing; 0 of 2 right
          the topic is empty
          - #0  value '1'  <- missing
          - #1  key 'k'  value null  <- missing
        """,
    )


def test_only_what_is_near_a_mistake_is_shown() -> None:
    numbers = [str(number) for number in range(100)]
    same(
        told([*numbers], {**stored(0, *numbers[:50], b"\xff", *numbers[50:]), 1: []}),
        """
        records of t are not as expected: 1 extra; 100 of 100 right
          partition 0
              ... 48 as expected
              offset 48  value '48'
              offset 49  value '49'
            + offset 50  value b'\\xff'  <- extra
              offset 51  value '50'
              offset 52  value '51'
              ... 48 more
        """,
    )


def test_a_long_value_is_cut_around_the_difference() -> None:
    lines = told(["x" * 5000 + "a" + "y" * 500], stored(0, "x" * 5000 + "b" + "y" * 500)).splitlines()
    one, two, caret = lines[2:]
    assert len(one) < 150
    assert (one[caret.index("^")], two[caret.index("^")]) == ("b", "a")


def test_thousands_of_mistakes_are_counted_and_some_are_shown() -> None:
    text = told([f"a{number}" for number in range(5000)], stored(0, *(f"b{number}" for number in range(5000))))
    assert len(text.splitlines()) < 150
    assert "5000 different" in text


def test_other_fields_are_shown_where_they_differ() -> None:
    there = stored(0, "v")
    same(
        told([Record("v", headers={"a": "1"}, timestamp_ms=6)], there),
        """
        records of t are not as expected: 1 different; 0 of 1 right
          partition 0
            ~ offset 0     timestamp_ms 5  value 'v'  headers []
              expected #0  timestamp_ms 6  value 'v'  headers [a='1']
                                        ^
        """,
    )
    assert "headers [a=null]" in told([Record("v", headers=[("a", None)])], there)


def test_a_record_in_the_wrong_partition_is_missing_there() -> None:
    text = told([Record("v", partition=1)], stored(0, "v"))
    assert "1 missing, 1 extra" in text


@pytest.mark.parametrize(
    "partitions",
    [
        {0: ["a", "b", "a"]},
        {0: ["a", "a"], 1: ["b"]},
        {0: ["a"], 1: ["a", "b"]},
        {0: ["b", "a"], 1: ["a"]},
        {3: ["b"], 1: ["a"], 2: ["a"]},
    ],
)
def test_order_counts_within_a_partition_only(partitions: dict[int, list[str]]) -> None:
    there = {partition: stored(partition, *values)[partition] for partition, values in partitions.items()}
    assert difference("t", as_records(["a", "b", "a"]), there) is None


def test_without_order_what_fits_anything_leaves_the_rest_to_others() -> None:
    expected = as_records([ANY, "a", Record(ANY, key="k")])
    assert difference("t", expected, stored(0, "a", ("k", "x"), "b"), ordered=False) is None
    assert difference("t", expected, stored(0, ("k", "c"), "b", ("k", "x")), ordered=False) is not None
    assert difference("t", as_records(["1", "2"]), stored(0, "2", "1"), ordered=False) is None
    assert difference("t", as_records(["1", "2"]), stored(0, "2", "1")) is not None


words = st.lists(st.sampled_from("abc"), max_size=7)


@given(words, st.lists(st.integers(0, 2), min_size=7, max_size=7))
def test_whatever_way_records_are_spread_they_are_found_again(values: list[str], where: list[int]) -> None:
    spread: dict[int, list[str]] = {}
    for value, partition in zip(values, where):
        spread.setdefault(partition, []).append(value)
    there = {partition: stored(partition, *some)[partition] for partition, some in spread.items()}
    assert difference("t", as_records(values), there) is None


@given(words, words)
def test_the_account_adds_up(values: list[str], others: list[str]) -> None:
    there = stored(0, *others)
    account = match(as_records(values), there, ordered=True)
    assert account.perfect == (values == others)
    if not account.perfect:
        assert len(account.found) + len(account.extra) == len(others)
        assert len(account.found) + len(account.missing) == len(values)
        in_order = [number for place, number in sorted(account.found.items()) if place not in account.displaced]
        assert in_order == sorted(in_order)


def test_many_equal_records_are_compared_quickly() -> None:
    there = {partition: stored(partition, *["same"] * 1000)[partition] for partition in range(3)}
    start = time.process_time()
    assert difference("t", as_records(["same"] * 3000), there) is None
    assert time.process_time() - start < 10, "the ways to tell equal records apart are not all tried"


def test_a_listing_says_where_records_are() -> None:
    assert listing(stored(2, ("k", "v"))[2]) == "  partition 2 offset 0  key 'k'  value 'v'"
    assert listing([]) == "  (none)"
    assert "... 10 more records" in listing(stored(0, *map(str, range(50)))[0])
