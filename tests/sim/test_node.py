"""The production node under many seeds: whatever happens to its machine and network, it keeps its promises.

`make sim SEEDS=1000` plays more of them than one waits for in a test run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.run import POLICIES, Verdict, play, report

SEEDS = 12
SEEDS_PER_TEST = 2
KEPT = Path(__file__).with_name("seeds.txt")


def kept_seeds() -> list[tuple[str, int]]:
    """(policy, seed) of each line that is not a comment."""
    lines = [line.split() for line in KEPT.read_text().splitlines() if line and not line.startswith("#")]
    return [(policy, int(seed)) for policy, seed, *_ in lines]


def failures(verdicts: list[Verdict]) -> str:
    """What is wrong with these runs, and how to replay them."""
    return "\n".join(report(verdict) for verdict in verdicts if verdict.problems)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_every_seed_passes(first: int, policy: str) -> None:
    verdicts = [play((seed, policy, None)) for seed in range(first, first + SEEDS_PER_TEST)]
    assert failures(verdicts) == ""
    assert all(verdict.acknowledged for verdict in verdicts), "where nothing was promised, nothing can be broken"


@pytest.mark.parametrize(("policy", "seed"), kept_seeds())
def test_what_was_found_once_stays_mended(policy: str, seed: int) -> None:
    assert failures([play((seed, policy, None))]) == ""
