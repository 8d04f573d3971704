"""The simulator finds bugs: each planted one makes a seed fail that passes without it, for the reason one expects."""

from __future__ import annotations

import pytest

from tests.sim.planted import PLANTED
from tests.sim.scenario import simulate

FOUND_BY = {
    "no-data-sync": (2, 4),
    "no-directory-sync": (0, 5),
    "acknowledge-before-sync": (0, 2),
    "show-before-sync": (6, 7),
    "ignore-failed-sync": (3, 6),
    "forget-producers": (3, 6),
    "keep-torn-tails": (0, 1),
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
