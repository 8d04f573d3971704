"""Moments and durations as people type them: `10m`, `1h30m`, `yesterday`, `2026-05-01T12:00`, `1777636800000`.

Decides what each means; the time that it is comes from the caller. A moment without a time zone is local time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_DURATION_HINT = "such as 500ms, 30s, 10m, 1h30m, 2d or 1w"
_MOMENT_HINT = "such as 10m (ago), now, today, yesterday, 2026-05-01, 2026-05-01T12:00:00Z, or milliseconds since 1970"


class TimeError(ValueError):
    """A text that is neither a moment nor a duration; says what would be."""


def parse_duration(text: str) -> int:
    """Milliseconds. A number without a unit is refused: it is seconds to some and milliseconds to others."""
    compact = text.strip().lower().replace(" ", "")
    if not _DURATION.fullmatch(compact):
        raise TimeError(f"{text!r} is not a duration, {_DURATION_HINT}")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(compact)))


def parse_timeout(text: str, *, bare_unit: str = "s") -> int:
    """Milliseconds of `--timeout`, where a number alone is seconds unless the option says otherwise."""
    compact = text.strip()
    return parse_duration(f"{compact}{bare_unit}" if _NUMBER.fullmatch(compact) else compact)


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. A duration is that long ago."""
    word = text.strip().lower()
    if _DURATION.fullmatch(word.replace(" ", "")):
        return now_ms - parse_duration(word)
    if word == "now":
        return now_ms
    if word in {"today", "yesterday"}:
        midnight = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
        return to_ms(midnight if word == "today" else midnight - timedelta(days=1))
    if word.isdecimal() and len(word) in {10, 13}:  # seconds and milliseconds are told apart by length until 2286
        return int(word) * (1000 if len(word) == 10 else 1)
    try:
        return to_ms(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError, OSError):
        raise TimeError(f"{text!r} is not a moment, {_MOMENT_HINT}") from None


def to_ms(moment: datetime) -> int:
    """Exact, unlike `timestamp() * 1000`; a moment without a zone is local time."""
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def show(timestamp_ms: int) -> str:
    """ISO 8601 with milliseconds, in UTC; a timestamp that no calendar has stays a number."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
