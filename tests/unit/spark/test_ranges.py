"""Ranges are cut as Spark's Kafka connector cuts them; the figures are those of its own tests where it has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.spark.ranges import WORTH_A_TASK, OffsetRange, cut, gather, ranges_between
from bifrost.types import TopicPartition

TP = [TopicPartition("t", number) for number in range(4)]


def spans(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition.partition, each.start, each.end) for each in ranges]


def test_one_range_for_each_partition_with_records() -> None:
    assert spans(ranges_between({TP[0]: 5, TP[1]: 1, TP[2]: 9}, {TP[1]: 3, TP[0]: 5, TP[2]: 8})) == [(1, 1, 3)]


def test_without_a_wish_nothing_is_cut() -> None:
    whole = [OffsetRange(TP[0], 1, 5), OffsetRange(TP[1], 1, 1), OffsetRange(TP[2], 2, 9)]
    assert spans(cut(whole)) == [(0, 1, 5), (2, 2, 9)]


@pytest.mark.parametrize(
    ("ranges", "parts", "expected"),
    [
        ([(0, 1, 2)], 3, [(0, 1, 2)]),
        ([(0, 1, 5)], 3, [(0, 1, 2), (0, 2, 3), (0, 3, 5)]),
        ([(0, 0, 5), (1, 0, 10)], 3, [(0, 0, 5), (1, 0, 5), (1, 5, 10)]),
        ([(0, 1, 2), (1, 1, 101)], 4, [(0, 1, 2), (1, 1, 34), (1, 34, 67), (1, 67, 101)]),
        (
            [(0, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 100)],
            6,
            [(0, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 33), (3, 33, 66), (3, 66, 100)],
        ),
        ([(0, 0, 1), (1, 0, 50)], 2, [(0, 0, 1), (1, 0, 50)]),
        ([(0, 0, 3), (1, 0, 5)], 4, [(0, 0, 1), (0, 1, 3), (1, 0, 1), (1, 1, 3), (1, 3, 5)]),  # halves go up
    ],
)
def test_large_ranges_are_split_for_the_sake_of_more_tasks(
    ranges: list[tuple[int, int, int]], parts: int, expected: list[tuple[int, int, int]]
) -> None:
    made = [OffsetRange(TP[number], start, end) for number, start, end in ranges]
    assert spans(cut(made, min_partitions=parts)) == expected


def test_no_range_has_more_records_than_allowed() -> None:
    assert spans(cut([OffsetRange(TP[0], 0, 10)], max_records=4)) == [(0, 0, 3), (0, 3, 6), (0, 6, 10)]


def test_both_wishes_together() -> None:
    wide = [OffsetRange(TP[0], 0, 10), OffsetRange(TP[1], 0, 10)]
    assert len(cut(wide, max_records=5, min_partitions=4)) == 4
    assert len(cut(wide, max_records=5, min_partitions=8)) == 8


@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=4),
    parts=st.none() | st.integers(1, 50),
    most=st.none() | st.integers(1, 500),
)
def test_nothing_is_lost_or_read_twice(sizes: list[int], parts: int | None, most: int | None) -> None:
    whole = [OffsetRange(TP[number], 7, 7 + size) for number, size in enumerate(sizes)]
    pieces = cut(whole, min_partitions=parts, max_records=most)
    offsets = [(each.partition, offset) for each in pieces for offset in range(each.start, each.end)]
    assert offsets == [(each.partition, offset) for each in whole for offset in range(each.start, each.end)]
    if most is not None:
        assert all(0 < each.size <= most for each in pieces)


def test_small_neighbours_share_a_task() -> None:
    sizes = [10, 400, 600, 1, 5_000, 3, 2_000, 999, 1, 1]
    made = [OffsetRange(TopicPartition("t", number), 7, 7 + size) for number, size in enumerate(sizes)]
    assert [[each.size for each in share] for share in gather(made)] == [
        [10, 400],
        [600, 1],
        [5_000],
        [3],
        [2_000],
        [999, 1],
        [1],
    ]
    assert gather([]) == []


@given(st.lists(st.integers(1, 3 * WORTH_A_TASK), max_size=40))
def test_shares_have_everything_in_order_and_none_is_too_large(sizes: list[int]) -> None:
    made = [OffsetRange(TopicPartition("t", number), 0, size) for number, size in enumerate(sizes)]
    shares = gather(made)
    assert [each for share in shares for each in share] == made
    assert all(sum(each.size for each in share) <= WORTH_A_TASK for share in shares if len(share) > 1)
