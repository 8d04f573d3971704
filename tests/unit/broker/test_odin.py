"""What a node's settings mean for its place in the quorum."""

from __future__ import annotations

import pytest

from bifrost.broker.odin import quorum_settings
from bifrost.settings import parse_settings


@pytest.mark.parametrize(("timeout_ms", "wait_ms"), [(2000, 500), (1000, 500), (500, 250), (1, 0)])
def test_a_leader_with_nothing_to_tell_answers_before_its_followers_lose_patience(
    timeout_ms: int, wait_ms: int
) -> None:
    settings, _ = parse_settings({"controller.quorum.fetch.timeout.ms": str(timeout_ms)})
    told = quorum_settings(settings)
    assert (told.timing.fetch_timeout_ms, told.fetch_wait_ms) == (timeout_ms, wait_ms)
