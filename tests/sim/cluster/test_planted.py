"""The simulator finds bugs: each planted one makes a seed fail that passes without it, for the reason one expects."""

from __future__ import annotations

import time
from functools import cache

import pytest

from tests.sim.cluster.planted import PLANTED
from tests.sim.cluster.run import Task, play

FOUND_BY = {
    "vote-in-memory": (0, 1, 2),
    "acknowledge-memory": (0, 1, 2),
    "count-old-epochs": (0, 1, 2),
    "keep-diverging-records": (0, 6, 10),
    "call-torn-damaged": (40, 31),
    "apply-too-early": (0, 1, 2),
    "skip-a-record": (0, 1, 2),
    "lose-a-topic": (0, 1, 2),
    "answer-before-commit": (8, 11, 19),
    "any-broker-epoch": (18, 55, 59),
    "serve-while-fenced": (6, 1, 10),
    "fence-by-any-connection": (4, 9, 29),
    "lead-for-ever": (9, 10, 1),
    "fetch-before-sync": (0, 1),
    "count-unsynced": (1, 2, 4),
    "keep-diverging-copies": (14, 28, 52),
    "shrink-before-agreed": (2, 3, 8),
    "truncate-to-high-watermark": (1, 3, 4),
    "relay-before-committed": (2, 5, 8),
    "elect-anybody": (0, 2, 3),
    "tell-unknown-end": (33, 61, 140),
    "show-everything": (1, 2),
    "promise-when-deposed": (9, 8, 11),
    "agree-with-anybody": (17, 11, 23),
    "believe-late-words": (4, 15, 19),
    "take-old-isrs": (0, 8, 11),
}
"""The first is the one that finds it. A change of the code may move what seeds do: the others are to spare."""


@cache
def report(seed: int, faults: tuple[str, ...], layout: str, about: str) -> str:
    """Of the nodes as they are: one run serves for several bugs."""
    return play(Task(seed, faults, layout, about=about)).report


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_makes_its_seed_fail(name: str) -> None:
    bug = PLANTED[name]
    found: list[str] = []
    for seed in FOUND_BY[name]:
        assert report(seed, bug.faults, bug.layout, bug.about) == ""
        started = time.process_time()
        verdict = play(Task(seed, bug.faults, bug.layout, name, bug.about))
        took_s = time.process_time() - started
        if set(verdict.kinds) & set(bug.shown_by):
            print(f"{name} was found by seed {seed} in {took_s:.2f} s: {verdict.problems[0]}")
            return
        found += verdict.problems or ["nothing"]
    pytest.fail(f"{found} found; python -m tests.sim.cluster.run --seeds 50 --planted {name} tells which find it now")
