"""`bifrost topic dump` and `load`: carry the records of a topic into a file and back."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bifrost.cli import completion
from bifrost.cli.data.interrupt import Interrupt
from bifrost.cli.failure import fail
from bifrost.cli.options import TIMEOUT_S, Bootstrap, Cluster, Json, Timeout
from bifrost.cli.output import counted, print_json, remark

if TYPE_CHECKING:
    from collections.abc import Callable

    from bifrost.client.dumps import Loaded

_RANGE = "Range"
Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completion.topics, show_default=False)
]


def dump(
    topic: Topic,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="out.jsonl or out.parquet.", show_default=False)],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", help="Only this one; may be repeated.", rich_help_panel=_RANGE),
    ] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", "-o", min=0, help="Start here in each partition.", rich_help_panel=_RANGE)
    ] = None,
    until_offset: Annotated[
        int | None, typer.Option("--until-offset", min=0, help="End before this one.", rich_help_panel=_RANGE)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Start at 10m (ago), 2026-05-01T12:00.", rich_help_panel=_RANGE),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="End before that time.", rich_help_panel=_RANGE)
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="So many at most.", rich_help_panel=_RANGE)
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file that is there.")] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Write the records of a topic to a file: JSON lines, or Parquet with the columns of Spark's Kafka source.

    Ends where the topic ends now. The file appears when it is whole; Ctrl-C leaves none.

    \b
    $ bifrost topic dump orders orders.jsonl
    $ bifrost topic dump orders today.parquet --since today --partition 0
    """
    from bifrost.client.dumps import Range, dump

    moments = [_moment(text) for text in (since, until)]
    wanted = Range(partition, offset, until_offset, moments[0], moments[1], max_messages)
    with _bar(f"dumping {topic}") as draw:
        done = dump(
            topic,
            file,
            bootstrap=bootstrap,
            cluster=cluster,
            range=wanted,
            overwrite=force,
            timeout_s=timeout,
            on_progress=draw,
        )
    if as_json:
        print_json({"topic": topic, "file": str(file), "records": done.records, "partitions": done.by_partition})
    else:
        typer.echo(f"{counted(done.records, 'record')} of {topic} in {file}")


def load(
    topic: Topic,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .jsonl or .parquet file.", show_default=False)],
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it is not there.")] = False,
    repartition: Annotated[
        bool, typer.Option("--repartition", help="Let keys choose the partition, instead of the file.")
    ] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Send the records of a file to a topic, with their keys, headers, times and partitions.

    \b
    $ bifrost topic load orders orders.jsonl --create
    $ bifrost topic load orders today.parquet --repartition
    """
    from bifrost.client.dumps import LoadError, load

    with Interrupt() as interrupt, _bar(f"loading {topic}") as draw:
        try:
            done = load(
                topic,
                file,
                bootstrap=bootstrap,
                cluster=cluster,
                keep_partitions=not repartition,
                create=create,
                timeout_s=timeout,
                stopped=lambda: bool(interrupt),
                on_progress=lambda loaded: draw(loaded.acknowledged, None),
            )
        except LoadError as error:
            if as_json:
                print_json(_account(file, error.loaded, complete=False))
            raise
    if as_json:
        print_json(_account(file, done, complete=not interrupt))
    if done.retimed:
        remark(f"{counted(done.retimed, 'record')} had no time in the file and got the time of loading")
    if interrupt:
        _interrupted(done, interrupt)
    if not as_json:
        typer.echo(f"{counted(done.acknowledged, 'record')} of {file} in {topic}, all acknowledged")


def _interrupted(done: Loaded, interrupt: Interrupt) -> NoReturn:
    where = ", ".join(f"{count} in partition {partition}" for partition, count in sorted(done.by_partition.items()))
    fail(
        f"interrupted after {counted(done.acknowledged, 'record')}, which are stored" + (f": {where}" if where else ""),
        code=interrupt.exit_code,
    )


def _account(file: Path, done: Loaded, *, complete: bool) -> dict[str, Any]:
    """The fields that `--json` promises."""
    return {
        "topic": done.topic,
        "file": str(file),
        "sent": done.read,
        "acknowledged": done.acknowledged,
        "retimed": done.retimed,
        "partitions": dict(sorted(done.by_partition.items())),
        "complete": complete,
    }


def _moment(text: str | None) -> int | None:
    from bifrost.cli.data.times import TimeError, parse_moment

    if text is None:
        return None
    try:
        return parse_moment(text, int(time.time() * 1000))
    except TimeError as error:
        fail(error, code=2)


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
