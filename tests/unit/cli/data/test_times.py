"""Moments and durations as people type them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.cli.data.times import TimeError, parse_duration, parse_moment, parse_timeout, show, to_ms
from bifrost.cli.data.typed import kcat_offsets
from bifrost.client.errors import ConfigError

NOW_MS = 1_777_636_800_123


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("1h30m", 5_400_000), ("1.5h", 5_400_000),
        ("2d", 172_800_000), ("1w", 604_800_000), (" 1 h ", 3_600_000), ("1H", 3_600_000),
    ],
)  # fmt: skip
def test_durations(text: str, expected: int) -> None:
    assert parse_duration(text) == expected
    assert parse_moment(text, NOW_MS) == NOW_MS - expected, "as a moment, it is that long ago"


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "10 minutes", "1h30", "ten"])
def test_what_is_no_duration_is_told_with_examples(text: str) -> None:
    with pytest.raises(TimeError, match="1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        ("1777636800000", 1_777_636_800_000),
        ("1777636800", 1_777_636_800_000),
        ("2026-05-01T12:00:00Z", 1_777_636_800_000),
        ("2026-05-01T14:00:00.250+02:00", 1_777_636_800_250),
        ("2026-05-01T12:00:00.999Z", 1_777_636_800_999),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert parse_moment(text, NOW_MS) == expected


def test_moments_without_a_zone_are_local() -> None:
    assert parse_moment("2026-05-01", NOW_MS) == int(time.mktime((2026, 5, 1, 0, 0, 0, 0, 0, -1))) * 1000
    today = datetime.fromtimestamp(NOW_MS / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    assert parse_moment("today", NOW_MS) == to_ms(today)
    assert parse_moment("Yesterday", NOW_MS) == to_ms(today - timedelta(days=1))


@pytest.mark.parametrize("text", ["", "soon", "12345", "2026-13-01", "tomorrow-ish"])
def test_what_is_no_moment_is_told_with_examples(text: str) -> None:
    with pytest.raises(TimeError, match="yesterday"):
        parse_moment(text, NOW_MS)


@given(st.integers(0, 253_402_300_799_999))
def test_what_is_shown_can_be_typed(timestamp_ms: int) -> None:
    assert parse_moment(show(timestamp_ms), NOW_MS) == timestamp_ms


def test_a_timestamp_beyond_the_calendar_is_shown_as_a_number() -> None:
    assert show(2**62) == str(2**62)


@pytest.mark.parametrize(
    ("text", "bare_unit", "milliseconds"),
    [("5", "s", 5000), ("5s", "s", 5000), ("500ms", "s", 500), ("1m", "s", 60_000), ("0.5", "s", 500), ("5", "ms", 5)],
)
def test_a_timeout_may_be_a_bare_number(text: str, bare_unit: str, milliseconds: int) -> None:
    assert parse_timeout(text, bare_unit=bare_unit) == milliseconds


def test_a_timeout_is_something() -> None:
    with pytest.raises(TimeError, match="is not a duration"):
        parse_timeout("-5")


def test_moments_as_kcat_has_them() -> None:
    assert kcat_offsets(["s@1777636800123", "e@5"], None, None) == (None, "1777636800123", "0000000000005")
    assert kcat_offsets(["-5"], "10m", None) == ("-5", "10m", None)
    assert parse_moment("0000000000005", NOW_MS) == 5


@pytest.mark.parametrize(
    ("typed", "since", "told"),
    [
        (["s@soon"], None, "'s@soon' is no moment"),
        (["s@5"], "10m", "--offset s@5 and --since 10m contradict each other"),
        (["5", "6"], None, "--offset 6 and --offset 5 contradict each other"),
    ],
)
def test_moments_that_make_no_sense_to_kcat(typed: list[str], since: str | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        kcat_offsets(typed, since, None)
