"""Classic groups under everything that can happen to them, and the proof that the simulation would notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim.groups.classic_planted import PLANTED, Planted
from tests.sim.groups.classic_world import simulate

SEEDS = 40
PLANTED_SEEDS = 60
KINDS = {
    "answered twice",
    "clocks left",
    "fenced commit",
    "forgotten",
    "never answered",
    "no leader",
    "not all owned",
    "not healed",
    "parts disagree",
    "stale commit",
    "two owners",
}


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_every_promise_holds_at_every_step(first: int) -> None:
    """A seed that fails is replayed with `simulate(seed)`."""
    found = {seed: simulate(seed) for seed in range(first, first + 20)}
    assert {seed: list(map(str, anomalies)) for seed, anomalies in found.items() if anomalies} == {}


def test_a_seed_is_always_the_same_day() -> None:
    bug = next(bug for bug, kind in PLANTED.items() if kind == "stale commit")
    with bug():
        first, second = simulate(3), simulate(3)
    assert first == second != []


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found_by_the_rule_that_it_breaks(bug: Callable[[], Planted]) -> None:
    """Some also trip over what the core asserts of itself: then another seed has to show them from outside."""
    with bug():
        assert any(_shows(seed, PLANTED[bug]) for seed in range(PLANTED_SEEDS))


def test_every_rule_has_a_bug_that_breaks_it() -> None:
    assert set(PLANTED.values()) == KINDS


def _shows(seed: int, kind: str) -> bool:
    try:
        return bool(simulate(seed, kind))
    except (AssertionError, KeyError):
        return False
