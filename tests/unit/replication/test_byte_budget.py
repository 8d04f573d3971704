"""How much may be fetched now."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bifrost.replication.core.byte_budget import ByteBudget


def test_without_a_rate_nobody_waits() -> None:
    budget = ByteBudget()
    budget.spend(1 << 40, 0)
    assert budget.wait_ms(0) == 0


def test_whoever_spent_more_than_there_was_waits_until_it_is_earned() -> None:
    budget = ByteBudget(1_000, now_ms=0)
    assert budget.wait_ms(0) == 0
    budget.spend(2_500, 0)
    assert budget.wait_ms(0) == 2_500
    assert budget.wait_ms(2_499) == 1
    assert budget.wait_ms(2_500) == 0


def test_what_was_not_spent_is_kept_for_a_second() -> None:
    budget = ByteBudget(1_000, now_ms=0)
    budget.spend(1_000, 500_000)
    assert budget.wait_ms(500_000) == 0
    budget.spend(1, 500_000)
    assert budget.wait_ms(500_000) == 1


def test_another_rate_forgives_debts() -> None:
    budget = ByteBudget(10, now_ms=0)
    budget.spend(10_000, 0)
    budget.set_rate(1_000, 1_000)
    assert budget.wait_ms(1_000) == 0
    budget.spend(100, 1_000)
    budget.set_rate(None, 1_001)
    assert budget.wait_ms(1_001) == 0


def test_a_rate_of_nothing_stops_after_the_first_and_is_asked_again_now_and_then() -> None:
    budget = ByteBudget(0, now_ms=0)
    budget.spend(1, 0)
    assert budget.wait_ms(10_000_000) == 60_000


@given(
    st.integers(1, 10**9),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 10**7)), min_size=1, max_size=50),
)
def test_no_more_than_the_rate_is_ever_fetched(rate: int, asked: list[tuple[int, int]]) -> None:
    budget = ByteBudget(rate, now_ms=0)
    now_ms, fetched, last = 0, 0, 0
    for pause_ms, size in asked:
        now_ms += max(pause_ms, budget.wait_ms(now_ms + pause_ms) and pause_ms + budget.wait_ms(now_ms + pause_ms))
        if budget.wait_ms(now_ms) > 0:
            continue  # a wait is told a minute at a time
        # All before the last answer was earned: in the time that passed, and the second that may be saved up.
        assert fetched <= rate * (now_ms / 1000 + 1) + 1
        budget.spend(size, now_ms)
        fetched, last = fetched + size, size
    assert last <= fetched
