"""What was used lately, and how long whoever used too much waits: Kafka's arithmetic, on a clock that tests own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.broker.quotas.core.meters import SampledRate, TokenBucket, Window

WINDOW = Window(11, 1_000)
"""Kafka's defaults: ten samples that are complete and one under way."""
LIMIT = 100.0


def test_what_stays_within_the_limit_of_all_whole_samples_costs_no_wait() -> None:
    assert SampledRate().charge(1_000, LIMIT, WINDOW, 0) == 0


def test_who_uses_more_waits_until_the_rate_is_down_to_the_limit() -> None:
    """X = (O - T) / T * W (Kafka: QuotaUtils.throttleTime): 1500 over ten seconds is 150 a second, so five more."""
    assert SampledRate().charge(1_500, LIMIT, WINDOW, 0) == 5_000


def test_the_time_that_has_really_passed_counts_once_it_is_longer_than_the_samples() -> None:
    rate = SampledRate()
    for second in range(11):
        rate.count(100, WINDOW, second * 1_000)
    assert rate.charge(55, LIMIT, WINDOW, 10_500) == 1_050, "1155 in 10.5 seconds, and 1155 are allowed in 11.55"


def test_what_was_used_is_forgotten_sample_by_sample() -> None:
    rate = SampledRate()
    for second in range(11):
        rate.count(100, WINDOW, second * 1_000)
    assert rate.total == 1_100
    rate.count(0, WINDOW, 11_000)
    assert rate.total == 1_000, "the first sample is over"
    assert rate.wait_ms(LIMIT, WINDOW, 60_000) == 0
    assert rate.total == 0


def test_a_sample_that_is_not_over_keeps_what_it_has() -> None:
    rate = SampledRate()
    rate.count(50, WINDOW, 0)
    rate.count(50, WINDOW, 999)
    assert rate.wait_ms(LIMIT, WINDOW, 10_998) == 0
    assert rate.total == 100, "its last event is within the windows"
    rate.wait_ms(LIMIT, WINDOW, 11_999)
    assert rate.total == 0


def test_a_limit_that_is_lowered_counts_against_what_was_used_before() -> None:
    rate = SampledRate()
    assert rate.charge(1_000, LIMIT, WINDOW, 0) == 0
    assert rate.wait_ms(LIMIT / 2, WINDOW, 0) == 10_000


def test_what_is_refused_does_not_count() -> None:
    rate = SampledRate()
    assert rate.charge_or_wait(900, LIMIT, WINDOW, 0) == 0
    assert rate.charge_or_wait(300, LIMIT, WINDOW, 100) > 0
    assert rate.total == 900
    assert rate.charge_or_wait(100, LIMIT, WINDOW, 100) == 0


def test_who_used_nothing_gets_what_is_larger_than_all_samples_together() -> None:
    """Else a batch that is larger than that would never be sent to anybody."""
    rate = SampledRate()
    assert rate.charge_or_wait(5_000, LIMIT, WINDOW, 0) == 0
    assert rate.charge_or_wait(1, LIMIT, WINDOW, 1) > 30_000, "what comes next pays for it"


@given(
    shares=st.lists(st.integers(1, 100), min_size=30, max_size=100),
    limit=st.sampled_from([50.0, 4_096.0, 1e7]),
    window=st.sampled_from([Window(11, 1_000), Window(2, 1_000), Window(5, 3_000)]),
)
def test_a_client_that_waits_as_it_is_told_gets_its_limit_and_not_more(
    shares: list[int], limit: float, window: Window
) -> None:
    """Greedy: it asks again the moment it may, for what the limit gives in up to a sample.

    Besides its limit it gets once what the samples hold, because at first nothing is known of it.
    """
    rate, now_ms, used = SampledRate(), 0.0, 0.0
    for share in shares:
        size = limit * window.sample_ms / 1_000 * share / 100
        used += size
        now_ms += rate.charge(size, limit, window, now_ms)
    assert used <= limit * (now_ms + (window.samples + 1) * window.sample_ms) / 1_000


def test_a_bucket_lets_a_burst_pass_and_then_nothing_until_it_is_paid_for() -> None:
    """KIP-599: the bucket holds what comes in all samples, 11 seconds' worth."""
    bucket = TokenBucket()
    assert bucket.charge_unless_in_debt(1_100, LIMIT, WINDOW, 0) == 0
    assert bucket.charge_unless_in_debt(300, LIMIT, WINDOW, 0) == 0, "the bucket is empty, and nobody is in debt"
    assert bucket.charge_unless_in_debt(1, LIMIT, WINDOW, 0) == 3_000
    assert bucket.charge_unless_in_debt(1, LIMIT, WINDOW, 2_000) == 1_000
    assert bucket.charge_unless_in_debt(1, LIMIT, WINDOW, 3_000) == 0


def test_a_bucket_that_refuses_nothing_tells_how_long_to_wait() -> None:
    bucket = TokenBucket()
    assert bucket.charge(1_100, LIMIT, WINDOW, 0) == 0
    assert bucket.charge(200, LIMIT, WINDOW, 0) == 2_000
    assert bucket.charge(200, LIMIT, WINDOW, 0) == 4_000


@pytest.mark.parametrize("idle_ms", [0, 11_000, 10**9])
def test_a_bucket_never_holds_more_than_the_samples_give(idle_ms: int) -> None:
    bucket = TokenBucket()
    bucket.charge(0, LIMIT, WINDOW, 0)
    assert bucket.charge(1_100, LIMIT, WINDOW, idle_ms) == 0
    assert bucket.charge(1, LIMIT, WINDOW, idle_ms) == 10
