"""The simulator finds bugs: each planted one makes a seed fail that passes without it, for the reason one expects."""

from __future__ import annotations

import pytest

from tests.sim.planted import PLANTED
from tests.sim.scenario import simulate

FOUND_BY = [
    ("no-data-sync", "ack", 26, "lost write"),
    ("no-directory-sync", "ack", 26, "lost write"),
    ("acknowledge-before-sync", "ack", 24, "lost write"),
    ("show-before-sync", "ack", 24, "vanished read"),
    ("ignore-failed-sync", "ack", 3, "lost write"),
    ("forget-producers", "ack", 26, "duplicate"),
    ("trust-torn-batches", "os", 6, "corrupt batch"),
]


@pytest.mark.parametrize(("bug", "policy", "seed", "expected"), FOUND_BY, ids=[bug for bug, *_ in FOUND_BY])
def test_a_planted_bug_makes_its_seed_fail(bug: str, policy: str, seed: int, expected: str) -> None:
    assert simulate(seed, policy).anomalies == []
    with PLANTED[bug]():
        kinds = {anomaly.kind for anomaly in simulate(seed, policy).anomalies}
    assert expected in kinds, f'make sim SEEDS=50 ARGS="--planted {bug}" tells which seeds find it now'


def test_every_planted_bug_has_a_seed() -> None:
    assert {bug for bug, *_ in FOUND_BY} == set(PLANTED)
