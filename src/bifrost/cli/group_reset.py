"""`bifrost group reset`: shows where a group would go on, and moves it there with `--execute`.

Options, CSV and what happens outside of a partition's offsets are those of `kafka-consumer-groups --reset-offsets`.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli import completion
from bifrost.cli.data.times import TimeError, parse_duration, parse_moment
from bifrost.cli.failure import fail
from bifrost.cli.options import TIMEOUT_S, Bootstrap, Cluster, CommandConfig, Json, Timeout, connect
from bifrost.cli.output import plain, print_json, print_table, remark
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from bifrost.client.descriptions import ResetPlan
    from bifrost.client.reset import Target

_TARGETS = "Where to"
_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


Group = Annotated[
    str, typer.Argument(metavar="NAME", help="The group.", autocompletion=completion.groups, show_default=False)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0,1]",
        help="A topic, or some of its partitions; may be repeated.",
        autocompletion=completion.topics,
        show_default=False,
    ),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="Wherever the group has committed.")]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="The first message.", rich_help_panel=_TARGETS)]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="The end.", rich_help_panel=_TARGETS)]
ToCurrent = Annotated[
    bool,
    typer.Option("--to-current", help="Where it is; the end where it never was.", rich_help_panel=_TARGETS),
]
ToOffset = Annotated[
    int | None, typer.Option("--to-offset", help="This offset.", rich_help_panel=_TARGETS, show_default=False)
]
ToMoment = Annotated[
    str | None,
    typer.Option(
        "--to-timestamp",
        "--to-datetime",
        metavar="TIME",
        help="The first message since 2026-05-01T12:00:00Z, yesterday, or milliseconds since 1970.",
        rich_help_panel=_TARGETS,
        show_default=False,
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option(
        "--by-duration",
        metavar="DURATION",
        help="The first message of the last 10m, 1h30m, 2d, PT15M.",
        rich_help_panel=_TARGETS,
        show_default=False,
    ),
]
ShiftBy = Annotated[
    int | None,
    typer.Option("--shift-by", help="So many on, or back if negative.", rich_help_panel=_TARGETS, show_default=False),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        help="What a CSV file says: topic,partition,offset.",
        rich_help_panel=_TARGETS,
        dir_okay=False,
        show_default=False,
    ),
]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; without this, it is only shown.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show it, as without --execute.")]
Export = Annotated[bool, typer.Option("--export", help="Print CSV that --from-file reads.")]


def reset(
    group: Group,
    topic: Topics = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    to_moment: ToMoment = None,
    by_duration: ByDuration = None,
    shift_by: ShiftBy = None,
    from_file: FromFile = None,
    execute: Execute = False,
    dry_run: DryRun = False,
    export: Export = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Move a group to other offsets: shows what would change, and changes it with --execute.

    The group must have no members meanwhile: they would go on where they are.

    \b
    $ bifrost group reset billing --topic orders --to-earliest
    $ bifrost group reset billing --topic orders:0,1 --by-duration 30m --execute
    $ bifrost group reset billing --all-topics --to-latest --export > offsets.csv
    """
    given: dict[str, object] = {
        "--to-earliest": to_earliest or None,
        "--to-latest": to_latest or None,
        "--to-current": to_current or None,
        "--to-offset": to_offset,
        "--to-timestamp": to_moment,
        "--by-duration": by_duration,
        "--shift-by": shift_by,
        "--from-file": from_file,
    }
    chosen = [option for option, value in given.items() if value is not None]
    if len(chosen) != 1:
        problem = f"{' and '.join(chosen)} contradict each other" if chosen else "where to?"
        fail(problem, hint=f"Give one of {', '.join(given)}.", code=2)
    if execute and dry_run:
        fail("--execute and --dry-run contradict each other", code=2)
    if (from_file is not None) + all_topics + bool(topic) != 1:
        fail("which topics?", hint="Give one of --topic, --all-topics, --from-file.", code=2)
    target = _target(chosen[0], given[chosen[0]], group)
    places = parse_places(topic) if topic else None
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        plan = admin.plan_reset(group, places, to=target, shift_by=shift_by)
        if to_current:
            plan = admin.plan_reset(group, to=_current(plan))
        if execute:
            admin.reset_offsets(plan)
    _show(plan, executed=execute, export=export, as_json=as_json)


def _target(option: str, value: object, group: str) -> Target | None:
    """What the option means to `Admin.plan_reset`; None for a shift, which has its own argument there."""
    try:
        match option, value:
            case "--to-earliest", _:
                return "earliest"
            case "--to-latest" | "--to-current", _:
                return "latest"
            case "--to-offset", int(offset):
                return offset
            case "--to-timestamp", str(text):
                moment_ms = parse_moment(text, int(time.time() * 1000))
                return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_ms)
            case "--by-duration", str(text):
                return parse_iso_or_short(text)
            case "--from-file", Path() as path:
                return read_csv(path, group)
            case _:
                return None
    except TimeError as error:
        fail(error, code=2)


def _current(to_latest: ResetPlan) -> dict[TopicPartition, int]:
    """Where the group is, and the end of partitions in which it has committed nothing, as in Kafka's tool."""
    return {
        TopicPartition(each.topic, each.partition): each.new if each.current is None else each.current
        for each in to_latest.changes
    }


def parse_iso_or_short(text: str) -> timedelta:
    """`PT1H30M`, which Kafka's tool wants, or `1h30m`."""
    if (match := _ISO_DURATION.fullmatch(text)) and any(match.groups()):
        days, hours, minutes, seconds = (float(number or 0) for number in match.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return timedelta(milliseconds=parse_duration(text))


def parse_places(places: Iterable[str]) -> dict[str, list[int] | None]:
    """`orders` and `orders:0,1` as topics with the partitions that are meant; None means all."""
    found: dict[str, list[int] | None] = {}
    for place in places:
        topic, colon, listed = place.partition(":")
        partitions = [each.strip() for each in listed.split(",")]
        if not topic or (colon and not all(each.isdecimal() for each in partitions)):
            fail(f"--topic takes TOPIC, or TOPIC:0,1 for some of its partitions, not {place!r}", code=2)
        known = found.setdefault(topic, [])
        if not colon or known is None:
            found[topic] = None
        else:
            known.extend(int(each) for each in partitions)
    return found


def read_csv(path: Path, group: str) -> dict[TopicPartition, int]:
    """`topic,partition,offset`, or `group,topic,partition,offset` of which only the lines of this group count."""
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}", code=2)
    wanted: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line]
        if not any(cells):
            continue
        if len(cells) == 4 and cells.pop(0) != group:
            continue
        if len(cells) != 3 or not cells[0] or not cells[1].isdecimal() or not cells[2].isdecimal():
            fail(
                f"{path} line {number}: {','.join(line)!r} is not topic,partition,offset",
                hint="Write lines such as orders,0,1200.",
                code=2,
            )
        wanted[TopicPartition(cells[0], int(cells[1]))] = int(cells[2])
    if not wanted:
        fail(f"{path} has no line for group {group}", code=2)
    return wanted


def _show(plan: ResetPlan, *, executed: bool, export: bool, as_json: bool) -> None:
    if as_json:
        print_json({**plain(plan), "executed": executed})
    elif export:
        for each in plan.changes:
            typer.echo(f"{each.topic},{each.partition},{each.new}")
    else:
        rows = []
        for each in plan.changes:
            moved = f"{each.new - each.current:+}" if each.current is not None else None
            rows.append([each.topic, each.partition, each.current, each.new, moved, each.note])
        headings = ["topic", "partition", "current", "new", "change"]
        noted = any(each.note for each in plan.changes)
        print_table([*headings, "note"] if noted else headings, [row if noted else row[:-1] for row in rows])
    if executed:
        remark(f"group {plan.group} was reset")
        return
    if plan.state == "Dead":
        remark(f"group {plan.group} does not exist yet: --execute makes it")
    elif plan.state != "Empty":
        remark(f"group {plan.group} is {plan.state}: --execute is refused until its members have left")
    remark("nothing was changed; add --execute to do it")
