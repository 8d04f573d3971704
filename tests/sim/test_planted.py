"""The simulator finds bugs: each planted one makes a seed fail that passes without it, for the reason one expects."""

from __future__ import annotations

import pytest

from tests.sim.planted import PLANTED
from tests.sim.scenario import simulate

FOUND_BY = {
    "no-data-sync": (0, 4, 9, 6),
    "no-directory-sync": (5, 0, 8, 9),
    "acknowledge-before-sync": (8, 0, 9, 6),
    "show-before-sync": (8, 7, 4, 6),
    "ignore-failed-sync": (10, 2, 7, 5),
    "forget-producers": (3, 2, 0, 9),
    "keep-torn-tails": (0, 1, 2, 3),
}
"""The first is the one that finds it. A change of the code may move what seeds do: the others are to spare."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_makes_its_seed_fail(name: str) -> None:
    bug = PLANTED[name]
    kinds: set[str] = set()
    for seed in FOUND_BY[name]:
        assert simulate(seed, bug.policy, faults=bug.faults).anomalies == []
        with bug.plant():
            kinds = {anomaly.kind for anomaly in simulate(seed, bug.policy, faults=bug.faults).anomalies}
        if kinds & set(bug.shown_by):
            return
    pytest.fail(f'{kinds or "nothing"} found; make sim SEEDS=20 ARGS="--planted {name}" tells which seeds find it now')
