"""When a follower that catches up rests."""

from __future__ import annotations

import pytest

from bifrost.replication.core.courtesy import Courtesy

THIRD = 33


def test_while_nobody_writes_it_does_not_rest() -> None:
    courtesy = Courtesy()
    courtesy.on_sent(1_000)
    courtesy.on_stored(1_010, THIRD)
    assert courtesy.rest_ms(1_010) == 0
    assert not courtesy.gives_way(1_010)


@pytest.mark.parametrize(("percent", "rest_ms"), [(100, 0), (50, 10), (20, 40), (1, 100)])
def test_while_somebody_writes_it_takes_its_part_of_the_time_but_never_rests_for_long(
    percent: int, rest_ms: float
) -> None:
    courtesy = Courtesy()
    courtesy.on_write(1_000)
    courtesy.on_sent(1_000)
    courtesy.on_stored(1_010, percent)
    assert courtesy.rest_ms(1_010) == rest_ms
    assert courtesy.rest_ms(1_010 + rest_ms) == 0


def test_when_nobody_has_written_for_a_while_it_hurries_on() -> None:
    courtesy = Courtesy()
    courtesy.on_write(1_000)
    courtesy.on_sent(1_000)
    courtesy.on_stored(1_200, THIRD)
    assert courtesy.rest_ms(1_200) == 0


def test_what_brought_nothing_costs_no_rest() -> None:
    courtesy = Courtesy()
    courtesy.on_write(1_000)
    courtesy.on_stored(1_010, THIRD)
    assert courtesy.rest_ms(1_010) == 0


def test_whoever_is_outrun_does_not_rest_for_a_second() -> None:
    courtesy = Courtesy()
    for now_ms in (1_000, 1_500):
        courtesy.on_write(now_ms)
        courtesy.on_sent(now_ms)
        courtesy.on_stored(now_ms + 10, THIRD)
        courtesy.on_outrun(1_010)
        assert courtesy.rest_ms(now_ms + 10) == 0
    courtesy.on_write(2_010)
    assert courtesy.gives_way(2_010)
