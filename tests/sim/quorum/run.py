"""Plays many seeds: `python -m tests.sim.quorum.run --seeds 10000 --first 0`. A failing one prints how to replay it."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from contextlib import nullcontext
from typing import NamedTuple

from tests.sim.quorum.nemesis import FAULTS
from tests.sim.quorum.planted import PLANTED
from tests.sim.quorum.world import simulate

MODULE = "python -m tests.sim.quorum.run"
_CHUNK = 20


class Task(NamedTuple):
    """One run to play."""

    seed: int
    faults: tuple[str, ...] | None = None
    """Drawn from the seed if not given."""
    planted: str | None = None
    only: str | None = None


class Verdict(NamedTuple):
    task: Task
    kind: str
    """Of the anomaly; nothing if there was none."""
    problem: str
    steps: int
    seen: dict[str, int]

    @property
    def report(self) -> str:
        """What is wrong, and how to see it again; nothing if nothing is."""
        return self.problem and f"seed {self.task.seed} failed: {self.problem}\nreplay: {replay(self.task)}"


def play(task: Task) -> Verdict:
    """One run, in a worker process or in this one."""
    with PLANTED[task.planted].plant() if task.planted is not None else nullcontext():
        try:
            outcome = simulate(task.seed, faults=task.faults, only=task.only)
        except Exception:  # noqa: BLE001  # what the core asserts of itself, or the simulation: that is a result, too
            return Verdict(task, "exception", traceback.format_exc(), 0, {})
    anomaly = outcome.anomaly
    return Verdict(task, anomaly.kind if anomaly else "", str(anomaly or ""), outcome.steps, outcome.seen)


def replay(task: Task) -> str:
    """The command that plays it again and tells every step."""
    options = [f" --faults {','.join(task.faults)}"] if task.faults is not None else []
    options += [f" --planted {task.planted}"] if task.planted is not None else []
    options += [f" --only '{task.only}'"] if task.only is not None else []
    return f"{MODULE} --seeds 1 --first {task.seed}{''.join(options)} --trace"


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    faults = tuple(options.faults.split(",")) if options.faults else None
    if faults is None and options.planted:
        faults = PLANTED[options.planted].faults
    assert set(faults or ()) <= set(FAULTS), f"there are the faults {', '.join(FAULTS)}"
    tasks = [
        Task(seed, faults, options.planted, options.only)
        for seed in range(options.first, options.first + options.seeds)
    ]
    if options.trace:
        return _trace(tasks[0])
    started = time.monotonic()
    verdicts = []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for verdict in pool.imap(play, tasks, _CHUNK):
            verdicts.append(verdict)
            if verdict.report and not options.planted:
                print(verdict.report, flush=True)
    took_s = time.monotonic() - started
    failed = [verdict for verdict in verdicts if verdict.problem]
    steps = sum(verdict.steps for verdict in verdicts)
    seen = sum((Counter(verdict.seen) for verdict in verdicts), Counter[str]())
    found = f"{len(failed) or 'none'} failed"
    print(f"{len(tasks)} seeds from {options.first}: {found}, {steps} steps, {steps / took_s:.0f} each second")
    print(", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    for kind, count in Counter(verdict.kind for verdict in failed).items():
        print(f"{kind}: {count}, seeds {', '.join(str(one.task.seed) for one in failed if one.kind == kind)}")
    return 1 if failed else 0


def _trace(task: Task) -> int:
    with PLANTED[task.planted].plant() if task.planted is not None else nullcontext():
        outcome = simulate(task.seed, faults=task.faults, only=task.only, tell=print)
    print(
        outcome.anomaly
        or f"nothing wrong after {outcome.steps} steps and {outcome.virtual_ms / 1000:.1f} virtual seconds"
    )
    return 1 if outcome.anomaly else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=MODULE, description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--faults", help=f"nothing but these, of {','.join(FAULTS)}; else as the seed draws them")
    parser.add_argument("--only", help="the kind of anomaly that is looked for; others are passed over")
    parser.add_argument("--planted", choices=sorted(PLANTED), help="plant this bug and see which seeds find it")
    parser.add_argument("--trace", action="store_true", help="play the first seed alone and tell every step")
    return parser


if __name__ == "__main__":
    sys.exit(main())
