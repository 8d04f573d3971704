"""The quorum's core under many seeds: whatever happens to machines and networks, it keeps its promises.

`python -m tests.sim.quorum.run --seeds 10000`, or `make sim`, plays more of them than one waits for in a test run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.sim.quorum.nemesis import FAULTS
from tests.sim.quorum.run import Task, main, play, replay
from tests.sim.quorum.world import simulate

SEEDS = 300
AT_A_TIME = 50
KEPT = Path(__file__).with_name("seeds.txt")


def kept_seeds() -> list[int]:
    """Of each line that is not a comment."""
    return [int(line.split()[0]) for line in KEPT.read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_every_promise_holds_at_every_step(first: int) -> None:
    verdicts = [play(Task(seed)) for seed in range(first, first + AT_A_TIME)]
    assert [verdict.report for verdict in verdicts if verdict.problem] == []
    seen = sum((Counter(verdict.seen) for verdict in verdicts), Counter[str]())
    told = ("leaders", "crashes", "disks lost", "entries cut", "resignations", "snapshots", "snapshots sent")
    assert [what for what in told if not seen[what]] == [], "where nothing happens, nothing can be broken"


@pytest.mark.parametrize("fault", FAULTS)
def test_one_kind_of_fault_alone_is_borne_too(fault: str) -> None:
    verdicts = [play(Task(seed, (fault,))) for seed in range(5)]
    assert [verdict.report for verdict in verdicts if verdict.problem] == []


@pytest.mark.parametrize("seed", kept_seeds())
def test_what_was_found_once_stays_mended(seed: int) -> None:
    assert play(Task(seed)).report == ""


def test_a_seed_is_always_the_same_run() -> None:
    assert simulate(7) == simulate(7)
    assert simulate(7) != simulate(8)


def test_much_is_committed() -> None:
    assert sum(len(simulate(seed).committed) for seed in range(20)) > 500


def test_a_failure_names_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    task = Task(0, planted="commit-silently")
    verdict = play(task)
    assert replay(task) in verdict.report
    command, *arguments = replay(task).partition(" --")
    assert command == "python -m tests.sim.quorum.run"
    assert main("".join(arguments).split()) == 1
    assert verdict.problem in capsys.readouterr().out
