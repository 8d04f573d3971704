"""The production node under many seeds: whatever happens to its machine and network, it keeps its promises.

`make sim SEEDS=1000` plays more of them than one waits for in a test run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.crowd.crowd import KINDS
from tests.sim.run import POLICIES, Task, Verdict, parse_groups, play, report

SEEDS = 10
GROUP_SEEDS = 4
KEPT = Path(__file__).with_name("seeds.txt")


def kept_seeds() -> list[Task]:
    """Of each line that is not a comment."""
    lines = [line.split() for line in KEPT.read_text().splitlines() if line and not line.startswith("#")]
    return [Task(int(seed), policy, groups=parse_groups(groups)) for policy, seed, groups, *_ in lines]


def failure(verdict: Verdict) -> str:
    """What is wrong with a run, and how to replay it."""
    return report(verdict) if verdict.problems else ""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_seed_passes(seed: int, policy: str) -> None:
    verdict = play(Task(seed, policy))
    assert failure(verdict) == ""
    assert verdict.acknowledged, "where nothing was promised, nothing can be broken"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(GROUP_SEEDS))
def test_every_seed_passes_with_nothing_but_groups(seed: int, policy: str) -> None:
    assert failure(play(Task(seed, policy, groups=KINDS))) == ""


@pytest.mark.parametrize("task", kept_seeds(), ids=lambda task: f"{task.seed}-{task.policy}")
def test_what_was_found_once_stays_mended(task: Task) -> None:
    assert failure(play(task)) == ""
