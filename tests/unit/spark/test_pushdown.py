"""Filters that narrow what is read."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from bifrost.spark.pushdown import push
from bifrost.spark.ranges import OffsetRange
from bifrost.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
WHOLE = [OffsetRange(A0, 0, 100), OffsetRange(A1, 50, 100), OffsetRange(B0, 0, 10)]
NOON = datetime.datetime(2024, 5, 6, 12, tzinfo=datetime.UTC)
NOON_MS = 1_714_996_800_000


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([], [(A0, 0, 100), (A1, 50, 100), (B0, 0, 10)]),
        ([EqualTo(("topic",), "b")], [(B0, 0, 10)]),
        ([In(("topic",), ("a", "c"))], [(A0, 0, 100), (A1, 50, 100)]),
        ([EqualTo(("partition",), 1), IsNotNull(("partition",))], [(A1, 50, 100)]),
        ([In(("partition",), (1, 2)), EqualTo(("partition",), 2)], []),
        ([EqualTo(("offset",), 7)], [(A0, 7, 8), (B0, 7, 8)]),
        ([GreaterThan(("offset",), 60), LessThan(("offset",), 70)], [(A0, 61, 70), (A1, 61, 70)]),
        ([GreaterThanOrEqual(("offset",), 8), LessThanOrEqual(("offset",), 9)], [(A0, 8, 10), (B0, 8, 10)]),
        ([LessThan(("offset",), 50), LessThan(("offset",), 200)], [(A0, 0, 50), (B0, 0, 10)]),
    ],
)
def test_exact_filters_need_not_be_applied_again(
    filters: list[Filter], left: list[tuple[TopicPartition, int, int]]
) -> None:
    pushed = push(filters)
    assert pushed.left == []
    assert pushed.narrow(WHOLE, {}) == [OffsetRange(*each) for each in left]


def test_young_records_only() -> None:
    wanted: list[Filter] = [GreaterThanOrEqual(("timestamp",), NOON)]
    pushed = push(wanted)
    assert (pushed.timestamp_ms, pushed.left) == (NOON_MS, wanted), "Spark looks again: order is not promised"
    assert pushed.narrow(WHOLE, {A0: 30, A1: 20}) == [OffsetRange(A0, 30, 100), OffsetRange(A1, 50, 100)]


def test_a_time_between_two_milliseconds_rounds_down() -> None:
    later = NOON + datetime.timedelta(microseconds=1999)
    assert push([GreaterThan(("timestamp",), later), EqualTo(("timestamp",), NOON)]).timestamp_ms == NOON_MS + 1


@pytest.mark.parametrize(
    "unknown",
    [
        LessThan(("timestamp",), NOON),
        Not(EqualTo(("partition",), 1)),
        EqualTo(("value",), b"x"),
        EqualTo(("offset",), None),
        IsNotNull(("key",)),
        GreaterThan(("partition",), 1),
    ],
)
def test_all_else_is_left_to_spark(unknown: Filter) -> None:
    pushed = push([unknown])
    assert pushed.left == [unknown]
    assert pushed.narrow(WHOLE, {}) == WHOLE
