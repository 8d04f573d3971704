"""Plays many seeds: `make sim SEEDS=1000 FIRST=0`. A failing one prints how to replay it."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from contextlib import nullcontext
from itertools import product
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.sim.crowd.crowd import KINDS
from tests.sim.planted import PLANTED
from tests.sim.scenario import simulate

POLICIES = ("ack", "os")
DRAWN, NO_GROUPS = "drawn", "none"
_EVIDENCE_MAX = 5
_LINE_EVERY = 100


class Task(NamedTuple):
    """One run to play."""

    seed: int
    policy: str
    planted: str | None = None
    """The name of a bug, which also says what kind of run shows it."""
    groups: tuple[str, ...] | None = None
    """Kinds of groups, for a run that has nothing else; or none of them. If not given, the seed decides."""
    is_compacted: bool = False
    """Whether it is about topics that are compacted, and nothing else."""


class Verdict(NamedTuple):
    """What the parent process wants to know of a run."""

    task: Task
    problems: list[str]
    virtual_s: float
    acknowledged: int


def play(task: Task) -> Verdict:
    """One run, in a worker process."""
    bug = PLANTED[task.planted] if task.planted is not None else None
    faults, groups = (bug.faults, bug.groups) if bug is not None else (None, task.groups)
    is_compacted = bug.is_compacted if bug is not None else task.is_compacted
    with bug.plant() if bug is not None else nullcontext():
        try:
            outcome = simulate(task.seed, task.policy, faults=faults, groups=groups, is_compacted=is_compacted)
        except Exception:  # noqa: BLE001  # the simulator itself failed: that is a result, too
            return Verdict(task, [traceback.format_exc()], 0.0, 0)
    return Verdict(task, list(map(str, outcome.anomalies)), outcome.virtual_s, outcome.acknowledged)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    groups = parse_groups(options.groups)
    if options.trace:
        return _trace(Task(options.first, options.policy or POLICIES[0], None, groups, options.compacted))
    policies = [options.policy] if options.policy else POLICIES
    if options.planted:
        policies = [PLANTED[options.planted].policy]
    seeds = range(options.first, options.first + options.seeds)
    tasks = [
        Task(seed, policy, options.planted, groups, options.compacted) for seed, policy in product(seeds, policies)
    ]
    started = time.monotonic()
    verdicts = _play_all(tasks, options.jobs, Console(stderr=True, soft_wrap=True))
    took_s = time.monotonic() - started
    failed = [verdict for verdict in verdicts if verdict.problems]
    virtual_s = sum(verdict.virtual_s for verdict in verdicts)
    records = sum(verdict.acknowledged for verdict in verdicts)
    print(
        f"{len(tasks)} runs of seeds {seeds[0]} to {seeds[-1]} with flush.policy {' and '.join(policies)}: "
        f"{len(failed) or 'none'} failed, {records} records acknowledged in {virtual_s / 3600:.1f} virtual hours, "
        f"{len(tasks) / took_s:.1f} runs/s"
    )
    if failed:
        words = f"{options.planted} was found by" if options.planted else "failed"
        print(f"{words}: {', '.join(f'{task.policy} {task.seed}' for task, *_ in failed)}")
    return 1 if failed else 0


def parse_groups(words: str) -> tuple[str, ...] | None:
    """The kinds of groups of a run, as they are written on the command line and in `seeds.txt`."""
    if words == DRAWN:
        return None
    kinds = () if words == NO_GROUPS else tuple(words.split("+"))
    assert set(kinds) <= set(KINDS), f"there are groups of the kinds {KINDS}"
    return kinds


def report(verdict: Verdict) -> str:
    """A failed run: some of what is wrong, and how to see it again."""
    task = verdict.task
    groups = f" --groups {'+'.join(task.groups) or NO_GROUPS}" if task.groups is not None else ""
    groups += " --compacted" if task.is_compacted else ""
    return "\n".join(
        [
            f"seed {task.seed} with flush.policy={task.policy}{groups} failed:",
            *(f"  {problem}" for problem in verdict.problems[:_EVIDENCE_MAX]),
            *(f"  and {more} more" for more in [len(verdict.problems) - _EVIDENCE_MAX] if more > 0),
            f'replay: make sim FIRST={task.seed} SEEDS=1 ARGS="--policy {task.policy}{groups} --trace"',
        ]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--policy", choices=POLICIES, help="flush.policy; both if not given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--planted", choices=sorted(PLANTED), help="plant this bug and see which seeds find it")
    groups = f"nothing but groups of these kinds, such as {'+'.join(KINDS)}; or {NO_GROUPS}, or as {DRAWN} by the seed"
    parser.add_argument("--groups", default=DRAWN, help=groups)
    parser.add_argument("--compacted", action="store_true", help="nothing but topics that are compacted")
    parser.add_argument("--trace", action="store_true", help="play the first seed alone and tell everything")
    return parser


def _play_all(tasks: list[Task], jobs: int, console: Console) -> list[Verdict]:
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    verdicts: list[Verdict] = []
    failed = 0
    workers = multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=500)
    with workers as pool, Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=len(tasks), failed=0)
        for verdict in pool.imap_unordered(play, tasks):
            verdicts.append(verdict)
            if verdict.problems:
                failed += 1
                if verdict.task.planted is None:
                    console.print(report(verdict), markup=False, highlight=False)
            progress.update(bar, advance=1, failed=failed)
            if not console.is_terminal and len(verdicts) % _LINE_EVERY == 0:  # nobody sees a bar in a file
                console.print(f"{len(verdicts)} of {len(tasks)} runs, {failed} failed", highlight=False)
    return sorted(verdicts)


def _trace(task: Task) -> int:
    logging.basicConfig(
        level=logging.DEBUG, stream=sys.stdout, format="         log %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    outcome = simulate(
        task.seed, task.policy, groups=task.groups, is_compacted=task.is_compacted, tell=sys.stdout.write
    )
    print(f"seed {task.seed} {task.policy} digest {outcome.digest} after {outcome.virtual_s:.3f} virtual seconds")
    for problem in outcome.anomalies:
        print(problem)
    return 1 if outcome.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
