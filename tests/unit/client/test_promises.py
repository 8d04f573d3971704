"""Promises become settings, and contradictions become sentences."""

from __future__ import annotations

from typing import Any

import pytest

from bifrost.client.errors import ConfigError, UnsupportedError
from bifrost.client.promises import promise_options


@pytest.mark.parametrize(
    ("acks", "delivery", "expected"),
    [
        ("all", None, ("all", True, None)),
        (-1, "at_least_once", ("all", True, None)),
        (1, None, ("1", False, None)),
        (0, None, ("0", False, 0)),
        ("0", "at_most_once", ("0", False, 0)),
        ("all", "at_most_once", ("all", False, 0)),
    ],
)
def test_promises(acks: Any, delivery: Any, expected: tuple[object, ...]) -> None:
    made = promise_options(acks, delivery, "none", 10)
    assert (made["acks"], made["enable.idempotence"], made.get("retries")) == expected


@pytest.mark.parametrize(("timeout_s", "timeout_ms"), [(None, 0), (0.5, 500), (0.0001, 1), (300, 300_000)])
def test_timeouts(timeout_s: float | None, timeout_ms: int) -> None:
    """librdkafka takes 0 as forever."""
    assert promise_options("all", None, "none", timeout_s)["message.timeout.ms"] == timeout_ms


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"acks": 2}, 'acks=2 is unknown. There are "all", 1 and 0.'),
        ({"compression": "zst"}, "compression='zst' is unknown. Did you mean zstd?"),
        ({"delivery": "at_least_one"}, "delivery='at_least_one' is unknown. Did you mean at_least_once?"),
        ({"acks": 0, "delivery": "at_least_once"}, "acks=0 cannot deliver at least once"),
        ({"timeout_s": 0}, "timeout_s=0 leaves no time."),
    ],
)
def test_contradictions(changes: dict[str, Any], expected: str) -> None:
    given: dict[str, Any] = {"acks": "all", "delivery": None, "compression": "none", "timeout_s": 1, **changes}
    with pytest.raises(ConfigError) as raised:
        promise_options(**given)
    assert str(raised.value).startswith(expected)


def test_exactly_once_is_not_there_yet() -> None:
    with pytest.raises(UnsupportedError, match=r"needs transactions, which are not there yet. With \"at_least_once\""):
        promise_options("all", "exactly_once", "none", 1)
