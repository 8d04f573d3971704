"""Asks every question of both peers in turn and tells what came out: `python -m bench.run` (`make bench`).

The first of `--peers` is the reference, the second the subject. Both run at the same time and are measured one after
the other, sample by sample (A B A B), so that whatever the machine does meanwhile falls on both. Any two kinds may
meet: `kafka,kafka` shows the noise, `null` the ceiling of the raw client.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import os
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench import machine, report, results
from bench.admin import PeerError
from bench.clients.job import Result
from bench.kafka_jars import KafkaUnavailableError
from bench.peers import KINDS, Bifrost, Contender, Peer, Stable
from bench.process import ClientError
from bench.question import FULL, QUICK, Effort, Question
from bench.questions import QUESTIONS
from bench.questions.warmup import warm_up
from bench.results import Answered

REPORT_COLUMNS = 160  # where the table goes to a file and no terminal says how wide it may be
RESULTS = pathlib.Path(__file__).parent / "results"


class OutOfTimeError(RuntimeError):
    """The run has lasted as long as it may; what it found so far is still told."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Questions that are asked of the same kinds of peers."""

    kinds: Mapping[str, type[Peer]]
    questions: tuple[Question, ...]
    warm_up: Callable[[Contender, Effort], None] = warm_up


class Run:
    """One pass over the questions."""

    def __init__(
        self, part: Part, stable: Stable, kinds: list[str], effort: Effort, progress: Progress, *, deadline: float
    ) -> None:
        self._warm_up = part.warm_up
        self._stable = stable
        self._kinds = kinds
        self._effort = effort
        self._progress = progress
        self._warmed: set[int] = set()
        self._deadline = deadline

    def ask_all(self, questions: list[Question]) -> list[Answered]:
        task = self._progress.add_task(
            "", total=sum(question.samples(self._effort) for question in questions) * len(self._kinds)
        )
        answers, steps = [], 0
        for question in questions:
            answers.append(self._ask_in_time(question, task))
            steps += question.samples(self._effort) * len(self._kinds)
            self._progress.update(task, completed=steps)  # also past what failed halfway
        return answers

    def _ask_in_time(self, question: Question, task: TaskID) -> Answered:
        started = time.monotonic()
        try:
            if started > self._deadline:
                raise OutOfTimeError(f"not asked: the run may take {self._effort.minutes_max:g} minutes")
            answered = self._ask(question, task)
        except (OutOfTimeError, ClientError, PeerError, KafkaUnavailableError) as error:
            answered = Answered(question, [], str(error))
        answered.seconds = time.monotonic() - started
        return answered

    def _ask(self, question: Question, task: TaskID) -> Answered:
        if question.fresh:
            self._stable.stop_shared()
            self._warmed.clear()
        title = question.title_for(self._effort)
        self._progress.update(task, description=f"{title}: preparing")
        samples: list[list[Result]] = [[] for _ in self._kinds]
        with contextlib.ExitStack() as stack:
            contenders = [self._contender(side, question) for side in range(len(self._kinds))]
            samplers = [stack.enter_context(question.open(contender, self._effort)) for contender in contenders]
            for _ in range(question.samples(self._effort)):
                for side, sample in enumerate(samplers):
                    self._progress.update(task, description=f"{title}: {self._kinds[side]}")
                    samples[side].append(sample() | {"load_average": os.getloadavg()[0]})
                    self._progress.advance(task)
        return Answered(question, samples)

    def _contender(self, side: int, question: Question) -> Contender:
        kind, durability = self._kinds[side], question.pairing.durability(side)
        if question.fresh:
            return self._stable.fresh(kind, durability)
        contender = self._stable.shared(side, kind, durability)
        if id(contender.peer) not in self._warmed:
            self._warm_up(contender, self._effort)
            self._warmed.add(id(contender.peer))
        return contender


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """What one command measures: its parts one after the other, each with peers of its own."""

    command: str
    parts: tuple[Part, ...]
    full: Effort = FULL
    quick: Effort = QUICK
    picture: str = "latest.png"

    @property
    def questions(self) -> list[Question]:
        return [question for part in self.parts for question in part.questions]

    @property
    def kinds(self) -> list[str]:
        return list(self.parts[0].kinds)


def check_names(only: list[str], questions: list[Question]) -> None:
    unknown = [name for name in only if not any(question.name.startswith(name) for question in questions)]
    if unknown:
        raise SystemExit(
            f"no question is called {', '.join(unknown)}; there are: {', '.join(q.name for q in questions)}"
        )


def choose(questions: Iterable[Question], kinds: list[str], effort: Effort, only: list[str]) -> list[Question]:
    """The questions that were named (by name or its beginning) and that these peers can answer."""
    chosen = []
    for question in questions:
        wanted = (
            any(question.name.startswith(name) for name in only)
            if only
            else question.in_quick or effort.name == FULL.name
        )
        if wanted and ("null" not in kinds or question.null_can):
            chosen.append(question)
    return chosen


def parse(programme: Programme, arguments: list[str]) -> argparse.Namespace:
    description = "Asks every question of both peers in turn and tells what came out."
    parser = argparse.ArgumentParser(prog=f"python -m {programme.command}", description=description)
    parser.add_argument("--quick", action="store_true", help="fewer, shorter, smaller, for a first look")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a question, or how names begin")
    parser.add_argument(
        "--peers", default="kafka,bifrost", help="REFERENCE[,SUBJECT] of: " + ", ".join(programme.kinds)
    )
    parser.add_argument("--samples", type=int, metavar="N", help="of each figure, instead of 3 (--quick: 1)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting for Bifrost")
    parser.add_argument("--data", help="a folder on the disk to measure; default: the system's temporary folder")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="where JSON and picture go")
    parser.add_argument("--list", action="store_true", help="list the questions and leave")
    return parser.parse_args(arguments)


def main(programme: Programme) -> int:
    options = parse(programme, sys.argv[1:])
    kinds = options.peers.split(",")
    effort = programme.quick if options.quick else programme.full
    effort = dataclasses.replace(effort, samples=options.samples or effort.samples)
    console = Console() if sys.stdout.isatty() else Console(width=REPORT_COLUMNS)
    if options.list:
        for question in programme.questions:
            console.print(
                f"{question.name:34} {question.title_for(effort)} ({question.pairing.words})", highlight=False
            )
        return 0
    if len(kinds) > 2 or any(kind not in programme.kinds for kind in kinds):
        raise SystemExit(f"--peers takes one or two of {', '.join(programme.kinds)}")
    check_names(options.only, programme.questions)
    Bifrost.extra_settings = options.set
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    signal.signal(signal.SIGALRM, _out_of_time)
    machine.raise_open_files()
    started = datetime.datetime.now(datetime.UTC)
    facts = machine.facts()
    with tempfile.TemporaryDirectory(prefix="bifrost-bench-", dir=options.data) as root, _progress(console) as progress:
        warm = progress.add_task("touching memory", total=None)
        machine.warm_memory(effort.memory_seconds)
        progress.remove_task(warm)
        answers = _ask(programme, kinds, effort, options.only, pathlib.Path(root), progress)
    names = kinds if len(set(kinds)) == len(kinds) else [kinds[0], f"{kinds[1]} again"]
    report.show(console, answers, names, effort)
    settings = {"started": started.isoformat(timespec="seconds"), "peers": names, "machine": facts, "set": options.set}
    stamp = started.strftime("%Y%m%dT%H%M%SZ")
    saved = results.save(options.results, stamp, settings, answers, effort)
    console.print(f"written: {saved}")
    if len(kinds) > 1:
        from bench import plot

        subtitle = f"{started:%Y-%m-%d}, {facts['cores']} cores {facts['cpu']}, {effort.name} run"
        picture = options.results / programme.picture
        if plot.draw(picture, answers, names, effort, subtitle):
            console.print(f"written: {picture}")
    return 1 if any(answered.failure for answered in answers) else 0


def _ask(
    programme: Programme, kinds: list[str], effort: Effort, only: list[str], root: pathlib.Path, progress: Progress
) -> list[Answered]:
    answers = []
    deadline = time.monotonic() + effort.minutes_max * 60
    signal.setitimer(signal.ITIMER_REAL, effort.minutes_max * 60)
    for number, part in enumerate(programme.parts):
        questions = choose(part.questions, kinds, effort, only)
        with contextlib.closing(Stable(root / str(number), part.kinds)) as stable:
            answers += Run(part, stable, kinds, effort, progress, deadline=deadline).ask_all(questions)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return answers


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError("broken off: the time for the whole run was over")


def _leave(number: int, _frame: FrameType | None) -> None:
    """Unwinds the stack, and with it every process that was started."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(Programme(command="bench.run", parts=(Part(KINDS, QUESTIONS),))))
