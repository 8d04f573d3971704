"""Plays many seeds of clusters: `python -m tests.sim.cluster.run --seeds 200 --first 0`. A failing one prints how to
replay it."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from contextlib import nullcontext
from typing import NamedTuple

from tests.sim.cluster.layout import KINDS as LAYOUTS
from tests.sim.cluster.nemesis import KINDS, LATE
from tests.sim.cluster.planted import PLANTED
from tests.sim.cluster.scenario import Outcome, simulate
from tests.sim.cluster.work import WORK

FAULTS = (*KINDS, *LATE)
MODULE = "python -m tests.sim.cluster.run"
_EVIDENCE_MAX = 5
_LINE_EVERY = 50


class Task(NamedTuple):
    """One run to play."""

    seed: int
    faults: tuple[str, ...] | None = None
    """Drawn from the seed if not given; and so is the layout."""
    layout: str | None = None
    planted: str | None = None
    about: str = "metadata"


class Verdict(NamedTuple):
    task: Task
    kinds: tuple[str, ...]
    """Of the anomalies."""
    problems: list[str]
    virtual_s: float
    acknowledged: int
    seen: dict[str, int]

    @property
    def report(self) -> str:
        """What is wrong, and how to see it again; nothing if nothing is."""
        if not self.problems:
            return ""
        told = [f"  {problem}" for problem in self.problems[:_EVIDENCE_MAX]]
        return "\n".join(
            [f"cluster seed {self.task.seed} ({self.task.about}) failed:", *told, f"replay: {replay(self.task)}"]
        )


def play(task: Task) -> Verdict:
    """One run, in a worker process or in this one."""
    try:
        outcome = _simulate(task)
    except Exception:  # noqa: BLE001  # the simulator itself failed: that is a result, too
        return Verdict(task, ("exception",), [traceback.format_exc()], 0.0, 0, {})
    kinds = tuple(dict.fromkeys(anomaly.kind for anomaly in outcome.anomalies))
    problems = list(map(str, outcome.anomalies))
    return Verdict(task, kinds, problems, outcome.virtual_s, outcome.acknowledged, outcome.seen)


def replay(task: Task) -> str:
    """The command that plays it again and tells every step."""
    options = [f" --faults {','.join(task.faults)}"] if task.faults is not None else []
    options += [f" --layout {task.layout}"] if task.layout is not None else []
    options += [f" --planted {task.planted}"] if task.planted is not None else []
    return f"{MODULE} --about {task.about} --seeds 1 --first {task.seed}{''.join(options)} --trace"


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    faults, layout = tuple(options.faults.split(",")) if options.faults else None, options.layout
    if options.planted:
        bug = PLANTED[options.planted]
        faults, layout = faults or bug.faults, layout or bug.layout
    assert set(faults or ()) <= set(FAULTS), f"there are the faults {', '.join(FAULTS)}"
    seeds = range(options.first, options.first + options.seeds)
    kinds = [options.about] if options.about else [PLANTED[options.planted].about] if options.planted else [*WORK]
    tasks = [Task(seed, faults, layout, options.planted, about) for seed in seeds for about in kinds]
    if options.trace:
        return _trace(tasks[0])
    started = time.monotonic()
    verdicts = []
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=200) as pool:
        for verdict in pool.imap(play, tasks):
            verdicts.append(verdict)
            if verdict.report and not options.planted:
                print(verdict.report, flush=True)
            if len(verdicts) % _LINE_EVERY == 0:
                print(f"{len(verdicts)} of {len(tasks)} clusters", file=sys.stderr)
    took_s = time.monotonic() - started
    failed = [verdict for verdict in verdicts if verdict.problems]
    virtual_s = sum(verdict.virtual_s for verdict in verdicts)
    seen = sum((Counter(verdict.seen) for verdict in verdicts), Counter[str]())
    print(
        f"{len(tasks)} clusters of seeds {seeds[0]} to {seeds[-1]}: {len(failed) or 'none'} failed,"
        f" {virtual_s / 3600:.1f} virtual hours, {len(tasks) / took_s:.1f} runs/s"
    )
    print(", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    for kind, count in Counter(kind for verdict in failed for kind in verdict.kinds).items():
        print(f"{kind}: {count}, seeds {', '.join(str(one.task.seed) for one in failed if kind in one.kinds)}")
    return 1 if failed else 0


def _simulate(task: Task, trace: bool = False) -> Outcome:
    with PLANTED[task.planted].plant() if task.planted is not None else nullcontext():
        tell = sys.stdout.write if trace else None
        return simulate(task.seed, about=task.about, faults=task.faults, layout=task.layout, tell=tell)


def _trace(task: Task) -> int:
    logging.basicConfig(
        level=logging.DEBUG, stream=sys.stdout, format="         log %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    outcome = _simulate(task, trace=True)
    print(f"cluster seed {task.seed} digest {outcome.digest} after {outcome.virtual_s:.3f} virtual seconds")
    for problem in outcome.anomalies:
        print(problem)
    return 1 if outcome.anomalies else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=MODULE, description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--faults", help=f"nothing but these, of {','.join(FAULTS)}; else as the seed draws them")
    parser.add_argument("--about", choices=WORK, help="what clients do; else each seed is played with all of it")
    parser.add_argument("--layout", choices=LAYOUTS, help="the kind of cluster; else as the seed draws it")
    parser.add_argument("--planted", choices=sorted(PLANTED), help="plant this bug and see which seeds find it")
    parser.add_argument("--trace", action="store_true", help="play the first seed alone and tell everything")
    return parser


if __name__ == "__main__":
    sys.exit(main())
