"""Plays many seeds: `python -m tests.sim.run --seeds 1000 --first 0`. A failing one prints how to replay it."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import product
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.sim.planted import PLANTED
from tests.sim.scenario import simulate

POLICIES = ("ack", "os")
_EVIDENCE_MAX = 5


class Verdict(NamedTuple):
    """What the parent process wants to know of a run."""

    seed: int
    policy: str
    problems: list[str]
    virtual_s: float
    acknowledged: int


def play(task: tuple[int, str, str | None]) -> Verdict:
    """One run, in a worker process."""
    seed, policy, bug = task
    with ExitStack() as stack:
        if bug is not None:
            stack.enter_context(PLANTED[bug]())
        try:
            outcome = simulate(seed, policy)
        except Exception:  # noqa: BLE001  # the simulator itself failed: that is a result, too
            return Verdict(seed, policy, [traceback.format_exc()], 0.0, 0)
    return Verdict(seed, policy, list(map(str, outcome.anomalies)), outcome.virtual_s, outcome.acknowledged)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.trace:
        return _trace(options.first, options.policy or POLICIES[0])
    policies = [options.policy] if options.policy else POLICIES
    seeds = range(options.first, options.first + options.seeds)
    tasks = [(seed, policy, options.planted) for seed, policy in product(seeds, policies)]
    console = Console(stderr=True, soft_wrap=True)
    started = time.monotonic()
    verdicts = _play_all(tasks, options.jobs, console)
    failed = [verdict for verdict in verdicts if verdict.problems]
    took_s = time.monotonic() - started
    virtual_s = sum(verdict.virtual_s for verdict in verdicts)
    records = sum(verdict.acknowledged for verdict in verdicts)
    print(
        f"{len(tasks)} runs, {len(failed)} failed, {virtual_s / 3600:.1f} virtual hours, {records} records "
        f"acknowledged, {len(tasks) / took_s:.1f} runs/s"
    )
    if options.planted:
        print(f"{options.planted} was found by: {', '.join(f'{each.policy} {each.seed}' for each in failed)}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--policy", choices=POLICIES, help="flush.policy; both if not given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--planted", choices=sorted(PLANTED), help="plant this bug and see which seeds find it")
    parser.add_argument("--trace", action="store_true", help="play the first seed alone and tell everything")
    return parser


def _play_all(tasks: list[tuple[int, str, str | None]], jobs: int, console: Console) -> list[Verdict]:
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    verdicts: list[Verdict] = []
    failed = 0
    with Progress(*columns, console=console) as progress, multiprocessing.Pool(jobs, maxtasksperchild=500) as pool:
        bar = progress.add_task("", total=len(tasks), failed=0)
        for verdict in pool.imap_unordered(play, tasks):
            verdicts.append(verdict)
            if verdict.problems:
                failed += 1
                if tasks[0][2] is None:
                    _report(verdict, console)
            progress.update(bar, advance=1, failed=failed)
    return sorted(verdicts)


def _report(verdict: Verdict, console: Console) -> None:
    lines = [f"seed {verdict.seed} with flush.policy={verdict.policy} failed:", *_some(verdict.problems)]
    lines.append(f"replay: python -m tests.sim.run --first {verdict.seed} --seeds 1 --policy {verdict.policy} --trace")
    console.print("\n".join(lines), markup=False, highlight=False)


def _some(problems: list[str]) -> Iterable[str]:
    yield from (f"  {problem}" for problem in problems[:_EVIDENCE_MAX])
    if len(problems) > _EVIDENCE_MAX:
        yield f"  and {len(problems) - _EVIDENCE_MAX} more"


def _trace(seed: int, policy: str) -> int:
    logging.basicConfig(
        level=logging.DEBUG, stream=sys.stdout, format="         log %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    outcome = simulate(seed, policy, sys.stdout.write)
    print(f"seed {seed} {policy} digest {outcome.digest} after {outcome.virtual_s:.3f} virtual seconds")
    for problem in outcome.anomalies:
        print(problem)
    return 1 if outcome.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
