"""What the commands that move replicas share: their options, what they show of a plan, and how they watch it.

A plan is carried out by the cluster. Ctrl-C ends the watching, not the moves, and the same command takes it up again.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bifrost.cli.entry import INTERRUPTED
from bifrost.cli.failure import fail
from bifrost.cli.output import counted, print_json, print_table, remark

if TYPE_CHECKING:
    from bifrost.client.moves.layout import Assignment, Layout, Place
    from bifrost.client.moves.run import MoveRun, Progress
    from bifrost.client.wire.replica_admin import ReplicaAdmin
    from bifrost.types import TopicPartition

LOOK_EVERY_S: Final = 0.5
_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?(?:/s)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def _rate(typed: Any) -> int:
    """Bytes a second."""
    if not isinstance(typed, str):
        return int(typed)
    found = _RATE.fullmatch(typed.strip())
    if found is None:
        raise typer.BadParameter(f"{typed!r} is not a rate; 50MB/s, 512KiB/s and 1000000 are")
    number, unit, binary = found.groups()
    rate = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])
    if rate < 1:
        raise typer.BadParameter("a rate of nothing would never end; leave it out for no limit")
    return rate


def numbers(typed: str) -> tuple[int, ...]:
    """`1,2,3`."""
    try:
        return tuple(int(each) for each in typed.split(","))
    except ValueError:
        raise typer.BadParameter(f"{typed!r} is not a list of brokers, such as 1,2,3") from None


Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="RATE",
        parser=_rate,
        help="How fast each broker may copy, such as 50MB/s, so that clients do not suffer. No limit without it.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="Give up what moves, and go back to what was before.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Watch until everything is in its place.")]


def kafka_json(assignment: Assignment) -> dict[str, Any]:
    """As kafka-reassign-partitions.sh writes and reads it."""
    return {
        "version": 1,
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
            for tp, replicas in assignment.items()
        ],
    }


def show_plan(layout: Layout, plan: Assignment, *, as_json: bool) -> None:
    """Partition by partition, or as a file that `bifrost topic reassign --file` takes."""
    if as_json:
        print_json(kafka_json(plan))
        return
    if not plan:
        typer.echo("nothing to move")
        return
    rows = [
        [
            tp.topic,
            tp.partition,
            _listed(layout.places[tp].target),
            _listed(replicas),
            _what(layout.places[tp], replicas),
        ]
        for tp, replicas in plan.items()
    ]
    print_table(["topic", "partition", "from", "to", "change"], rows)


def _what(place: Place, replicas: tuple[int, ...]) -> str:
    copies = [broker for broker in replicas if broker not in place.target]
    if copies:
        return f"copied to {_listed(copies)}"
    return "another leader" if len(replicas) == len(place.target) else "fewer copies"


def _listed(names: Iterable[object]) -> str:
    return ",".join(map(str, names))


def carry_out(run: MoveRun, *, wait: bool, again: str) -> bool:
    """Move everything; whether it has arrived. `again` is the command that takes it up if nobody stays to watch."""
    if not wait:
        run.begin_all()
        if run.throttle is not None:
            remark(f"The rate stays when all is moved: {how_to_lift(run.throttle.before)}")
        return False
    with _watching(run, again), _bar() as show:
        while not (progress := run.step()).is_over:
            show(progress)
            time.sleep(LOOK_EVERY_S)
        left = run.finish()
    if left:
        remark(f"{left_throttled(left)}: {how_to_lift({})}")
    return True


def left_throttled(partitions: Sequence[TopicPartition]) -> str:
    """Of moves that somebody has throttled who did not see their end."""
    return f"{counted(len(partitions), 'partition')} of {_listed(dict.fromkeys(tp.topic for tp in partitions))} " + (
        "is still listed as throttled" if len(partitions) == 1 else "are still listed as throttled"
    )


def how_to_lift(before: Mapping[int, Mapping[str, str]]) -> str:
    """What to type, also for brokers that had rates of their own."""
    told = "`bifrost broker unthrottle` takes it away."
    for broker, rates in before.items():
        if rates:
            own = " ".join(f"{name}={value}" for name, value in rates.items())
            told += f" Broker {broker} had its own: `bifrost config set --broker {broker} {own}`."
    return told


def cancelled(moving: Mapping[TopicPartition, Place], admin: ReplicaAdmin, *, as_json: bool) -> None:
    """Give up these moves, and say which they were."""
    from bifrost.client.moves.throttle import throttled_partitions

    if moving:
        admin.cancel(moving)
        if left := throttled_partitions(admin, moving):
            remark(f"{left_throttled(left)}: {how_to_lift({})}")
    if as_json:
        print_json({"cancelled": [{"topic": tp.topic, "partition": tp.partition} for tp in moving]})
    else:
        typer.echo(f"gave up {counted(len(moving), 'move')}" if moving else "nothing moves")


def told(plan: Assignment, *, finished: bool, as_json: bool, extra: Mapping[str, Any] | None = None) -> None:
    """The last word."""
    if as_json:
        print_json({**kafka_json(plan), "finished": finished, **(extra or {})})
    elif finished:
        typer.echo(f"{counted(len(plan), 'partition')} moved" if plan else "nothing left to move")
    else:
        typer.echo(f"{counted(len(plan), 'partition')} on the move")


@contextmanager
def _watching(run: MoveRun, again: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        hint = f"What moves goes on without you. `{again}` watches again, and with --cancel gives it up."
        if run.throttle is not None:
            hint += f" With the same --throttle it takes the rate away at the end; {how_to_lift(run.throttle.before)}"
        fail("interrupted", hint=hint, code=INTERRUPTED)


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    """A bar for people at a terminal; for others a line when there is news."""
    from bifrost.cli.move_progress import Bar, Lines

    if not sys.stderr.isatty():
        lines = Lines()

        def tell(progress: Progress) -> None:
            if (line := lines.update(progress)) is not None:
                remark(line)

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task, bar = drawn.add_task("", total=None), Bar()

        def draw(progress: Progress) -> None:
            text = bar.update(progress)
            drawn.update(task, total=bar.total, completed=bar.completed, description=text)

        yield draw
