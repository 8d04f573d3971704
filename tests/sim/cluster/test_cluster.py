"""Clusters of production nodes under many seeds: whatever happens to machines and networks, they keep their promises.

`python -m tests.sim.cluster.run --seeds 1000`, or `make sim`, plays more than one waits for in a test run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.sim.cluster.layout import KINDS
from tests.sim.cluster.planted import PLANTED
from tests.sim.cluster.run import Task, main, play, replay

SEEDS = 12
COPIES = 200
"""They are what a cluster is for, and there are many ways in which they may part."""
IN_ONE_TEST = 10
KEPT = Path(__file__).with_name("seeds.txt")


def kept_seeds() -> list[Task]:
    """Each line but comments: what the run is about, its seed, and its faults and layout if they were named."""
    tasks = []
    for line in KEPT.read_text().splitlines():
        if line and not line.startswith("#"):
            about, seed, *named = line.partition("  ")[0].split()
            faults = tuple(named[0].split(",")) if named else None
            tasks.append(Task(int(seed), faults, named[1] if len(named) > 1 else None, about=about))
    return tasks


@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_every_promise_holds_at_every_step(seed: int) -> None:
    verdict = play(Task(seed))
    assert verdict.report == ""
    assert verdict.acknowledged, "where nothing was promised, nothing can be broken"
    assert {"leaders", "images", "heartbeat", "appends"} <= verdict.seen.keys()


@pytest.mark.parametrize("first", range(0, COPIES, IN_ONE_TEST))
def test_copies_agree_whatever_happens(first: int) -> None:
    verdicts = [play(Task(seed, about="copies")) for seed in range(first, first + IN_ONE_TEST)]
    assert [verdict.report for verdict in verdicts if verdict.report] == []
    seen = sum((Counter(verdict.seen) for verdict in verdicts), Counter[str]())
    assert {"partition leaders", "commits", "acknowledged", "change of ISRs"} <= seen.keys()


def test_some_of_them_have_logs_that_part() -> None:
    """One in eight, which is too few for every batch of them. A change of the code may move what seeds do."""
    assert any(play(Task(seed, about="copies")).seen.get("cuts") for seed in (6, 38, 4, 16, 33))


@pytest.mark.parametrize("layout", KINDS)
def test_clusters_of_every_shape_bear_partitions_and_pauses(layout: str) -> None:
    assert play(Task(1, ("part_in_halves", "pause", "lose_power"), layout)).report == ""


@pytest.mark.parametrize("task", kept_seeds(), ids=lambda task: f"{task.about}-{task.seed}")
def test_what_was_found_once_stays_mended(task: Task) -> None:
    assert play(task).report == ""


def test_a_failure_names_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    bug = PLANTED["apply-too-early"]
    task = Task(0, bug.faults, bug.layout, planted="apply-too-early")
    verdict = play(task)
    assert replay(task) in verdict.report
    command, *arguments = replay(task).partition(" --")
    assert command == "python -m tests.sim.cluster.run"
    assert main("".join(arguments).split()) == 1
    assert verdict.problems[0] in capsys.readouterr().out
