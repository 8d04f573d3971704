"""How far a batch of a stream goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bifrost.spark.admission import Patience, limit_rate
from bifrost.types import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_a_limit_is_shared_out_in_proportion() -> None:
    assert limit_rate(10, {A: 0, B: 0, C: 0}, {A: 100, B: 20, C: 1}) == {A: 8, B: 1, C: 1}


def test_nothing_beyond_the_end() -> None:
    assert limit_rate(1000, {A: 5, B: 0}, {A: 9, B: 3}) == {A: 9, B: 3}


def test_what_has_nothing_new_stays_where_it_is() -> None:
    assert limit_rate(10, {A: 5, B: 0}, {A: 5, B: 30}) == {A: 5, B: 10}


def test_nothing_new_at_all() -> None:
    assert limit_rate(10, {A: 5}, {A: 5}) == {A: 5}


def test_a_partition_that_went_back_is_left_to_be_noticed_later() -> None:
    assert limit_rate(10, {A: 5, B: 0}, {A: 3, B: 30}) == {A: 3, B: 10}


@given(
    limit=st.integers(1, 1000),
    waiting=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2000)), min_size=1, max_size=8),
)
def test_a_limited_stream_gets_everything_in_the_end(limit: int, waiting: list[tuple[int, int]]) -> None:
    start = {TopicPartition("t", number): first for number, (first, _) in enumerate(waiting)}
    latest = {TopicPartition("t", number): first + size for number, (first, size) in enumerate(waiting)}
    for _ in range(10_000):
        end = limit_rate(limit, start, latest)
        assert all(start[each] <= end[each] <= latest[each] for each in latest)
        if start == latest:
            break
        assert sum(end[each] - start[each] for each in latest) <= limit + len(latest)
        assert end != start
        start = end
    assert start == latest


def test_a_stream_waits_for_enough() -> None:
    patience = Patience(least=10, delay_ms=1000)
    assert not patience.waits({A: 0}, {A: 3}, 0), "the first batch does not wait"
    assert patience.waits({A: 3}, {A: 12}, 1)
    assert not patience.waits({A: 3}, {A: 13}, 2)


def test_a_stream_does_not_wait_for_ever() -> None:
    patience = Patience(least=10, delay_ms=1000)
    assert not patience.waits({A: 0}, {A: 20}, 0)
    assert patience.waits({A: 20}, {A: 21}, 999)
    assert not patience.waits({A: 20}, {A: 21}, 1000)
    assert patience.waits({A: 21}, {A: 22}, 1999), "the time counts from the last batch"


def test_an_idle_time_does_not_make_the_next_record_wait_again() -> None:
    patience = Patience(least=10, delay_ms=1000)
    assert not patience.waits({A: 0}, {A: 20}, 0)
    assert patience.waits({A: 20}, {A: 20}, 5000)
    assert not patience.waits({A: 20}, {A: 21}, 5001)
