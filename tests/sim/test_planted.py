"""The simulator finds bugs: each planted one makes a seed fail that passes without it, for the reason one expects."""

from __future__ import annotations

from functools import cache

import pytest

from tests.sim.anomaly import Anomaly
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
    "answer-before-safe": (4, 2, 0, 3),
    "load-in-part": (4, 0, 1, 2),
    "any-generation": (4, 0, 1, 2),
    "any-epoch": (4, 2, 0),
    "generations-in-memory": (0, 1, 2, 3),
    "sync-before-the-leader": (1, 0, 6, 12),
    "give-what-is-taken": (4, 2, 6, 9),
    "overlook-a-partition": (4, 0, 1, 2),
    "forget-followers": (4, 0, 1, 3),
    "immortal-members": (1, 0, 2, 3),
    "clean-too-much": (0, 1, 3, 4),
    "keep-old-segments": (5, 10, 2),
}
"""The first is the one that finds it. A change of the code may move what seeds do: the others are to spare."""


@cache
def anomalies(
    seed: int, policy: str, faults: tuple[str, ...], groups: tuple[str, ...], is_compacted: bool
) -> list[Anomaly]:
    """Of the node as it is: one run serves for several bugs."""
    return simulate(seed, policy, faults=faults, groups=groups, is_compacted=is_compacted).anomalies


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_makes_its_seed_fail(name: str) -> None:
    bug = PLANTED[name]
    kinds: set[str] = set()
    for seed in FOUND_BY[name]:
        assert anomalies(seed, bug.policy, bug.faults, bug.groups, bug.is_compacted) == []
        with bug.plant():
            outcome = simulate(seed, bug.policy, faults=bug.faults, groups=bug.groups, is_compacted=bug.is_compacted)
        kinds = {anomaly.kind for anomaly in outcome.anomalies}
        if kinds & set(bug.shown_by):
            return
    pytest.fail(f'{kinds or "nothing"} found; make sim SEEDS=20 ARGS="--planted {name}" tells which seeds find it now')
