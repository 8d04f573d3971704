"""The simulation finds bugs: each planted one makes a seed fail that passes without it, for the reason one expects."""

from __future__ import annotations

import time

import pytest

from tests.sim.quorum.planted import PLANTED
from tests.sim.quorum.run import Task, play

FOUND_BY = {
    "vote-twice": (3, 24, 25),
    "forget-the-vote": (0, 1, 2),
    "elect-anybody": (1, 2, 3),
    "elect-by-length": (154, 172, 236),
    "win-with-less": (0, 1, 2),
    "lead-again": (2, 3, 6),
    "disturb": (0, 8, 14),
    "lead-alone": (51, 67, 215),
    "lead-in-secret": (33, 37, 40),
    "elect-as-newborn": (3, 12, 19),
    "elect-an-empty-log": (33, 96, 173),
    "stand-as-newborn": (33, 92, 117),
    "catch-up-in-memory": (582, 2911, 2915),
    "catch-up-with-the-past": (54, 213, 301),
    "wait-for-a-commit": (6, 16, 33),
    "continue-any-log": (3, 14, 25),
    "compare-offsets-only": (112, 299, 573),
    "cut-everything": (0, 16, 24),
    "cut-nothing": (2, 3, 9),
    "cut-one-too-many": (2, 3, 32),
    "count-old-epochs": (1, 2, 3),
    "count-own-memory": (3, 5, 8),
    "count-observers": (0, 1, 2),
    "count-a-minority": (0, 1, 2),
    "commit-beyond-the-log": (0, 1, 2),
    "take-commits-back": (1, 2, 3),
    "commit-silently": (0, 1, 2),
    "acknowledge-memory": (3, 5, 8),
}
"""The first is the one that finds it. A change of the code may move what seeds do: the others are to spare."""

LEADS_TO = {
    ("vote-twice", "two leaders"): (3, 25),
    ("forget-the-vote", "two leaders"): (206, 771),
    ("win-with-less", "history differs"): (0, 2),
    ("lead-again", "history differs"): (10, 16),
    ("elect-anybody", "history differs"): (1, 8),
    ("compare-offsets-only", "history differs"): (112, 299),
    ("continue-any-log", "incomplete leader"): (3, 32),
    ("count-own-memory", "incomplete leader"): (8, 12),
    ("acknowledge-memory", "incomplete leader"): (3, 57),
}
"""What becomes of a bug if nobody looks at where it begins: a second promise that some seed sees broken."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_makes_its_seed_fail(name: str) -> None:
    _find(name, None, FOUND_BY[name], PLANTED[name].shown_by)


@pytest.mark.parametrize(("name", "kind"), LEADS_TO)
def test_it_does_harm_even_if_nobody_looks_where_it_begins(name: str, kind: str) -> None:
    _find(name, kind, LEADS_TO[name, kind], (kind,))


def test_every_bug_has_its_seeds() -> None:
    assert set(FOUND_BY) == set(PLANTED)


def _find(name: str, only: str | None, seeds: tuple[int, ...], kinds: tuple[str, ...]) -> None:
    found: list[str] = []
    for seed in seeds:
        task = Task(seed, PLANTED[name].faults, only=only)
        assert play(task).report == ""
        started = time.perf_counter()
        verdict = play(task._replace(planted=name))
        took_s = time.perf_counter() - started
        if verdict.kind in kinds:
            print(f"{name} was found by seed {seed} in {took_s:.2f} s: {verdict.problem}")
            return
        found.append(verdict.problem or "nothing")
    more = f"python -m tests.sim.quorum.run --seeds 500 --planted {name}" + (f" --only '{only}'" if only else "")
    pytest.fail(f"{found} found; {more} tells which seeds find it now")
