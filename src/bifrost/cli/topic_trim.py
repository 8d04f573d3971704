"""`bifrost topic trim`: delete the oldest messages of a topic. Like rpk's `trim-prefix` and `kafka-delete-records`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli import completion
from bifrost.cli.data.times import TimeError, parse_moment
from bifrost.cli.failure import fail
from bifrost.cli.group_reset import parse_places
from bifrost.cli.options import TIMEOUT_S, Bootstrap, Cluster, CommandConfig, Json, Timeout, Yes, connect
from bifrost.cli.output import confirm, counted, plain, print_json, print_table, remark
from bifrost.cli.patience import DECIDES, hogo_lo

if TYPE_CHECKING:
    from bifrost.client.admin import Admin
    from bifrost.client.descriptions import Deletion

Places = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC[:0,1]...",
        help="A topic, or some of its partitions.",
        autocompletion=completion.topics,
        show_default=False,
    ),
]
Before = Annotated[
    str | None,
    typer.Option(
        "--before",
        "--offset",
        "-o",
        metavar="OFFSET|TIME",
        help="An offset, or a time: 7d (ago), yesterday, 2026-05-01T12:00, @1777636800000.",
        show_default=False,
    ),
]
All = Annotated[bool, typer.Option("--all", "-a", help="Every message that is there.")]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        help="Offsets as kafka-delete-records reads them, in JSON.",
        dir_okay=False,
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")]


def trim(
    places: Places = None,
    before: Before = None,
    everything: All = False,
    from_file: FromFile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete the oldest messages: those before an offset or a time. Asks first, unless nobody is there to answer.

    Partitions begin later then; offsets stay what they are. An offset beyond the end of a partition deletes nothing.

    \b
    $ bifrost topic trim orders --before 7d
    $ bifrost topic trim orders:0 --before 1200 --yes
    $ bifrost topic trim orders --all --dry-run
    """
    if (before is not None) + everything + (from_file is not None) != 1:
        fail("up to where?", hint="Give one of --before, --all, --from-file.", code=2)
    if bool(places) == (from_file is not None):
        fail(
            "which topic?", hint="Name it, or some of its partitions as orders:0,1; or give --from-file alone.", code=2
        )
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        with hogo_lo(DECIDES, admin.bootstrap, timeout):
            plan = _plan(admin, places or [], _limit(before), from_file)
        going = sum(each.count for each in plan)
        if going and not dry_run:
            if not as_json:
                _show(plan)
            topics = ", ".join(dict.fromkeys(each.topic for each in plan if each.count))
            confirm(f"Delete {counted(going, 'message')} of {topics} at {admin.bootstrap}?", yes=yes)
            with hogo_lo(DECIDES, admin.bootstrap, timeout):
                plan = _delete(admin, plan)
        elif not as_json:
            _show(plan)
    if as_json:
        print_json([{**plain(each), "count": each.count, "deleted": bool(each.count) and not dry_run} for each in plan])
    elif dry_run:
        remark("nothing was deleted")
    else:
        remark(f"deleted {counted(going, 'message')}" if going else "nothing to delete")


def _limit(before: str | None) -> int | datetime | None:
    """A number is an offset, anything else a time; `@` makes a number one, as in rpk."""
    if before is None:
        return None
    if before.isdecimal():
        return int(before)
    try:
        moment_ms = parse_moment(before.removeprefix("@"), int(time.time() * 1000))
    except TimeError as error:
        fail(error, hint="A number alone is an offset.", code=2)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_ms)


def _plan(
    admin: Admin, places: list[str], before: int | datetime | None, from_file: Path | None
) -> tuple[Deletion, ...]:
    if from_file is not None:
        return tuple(
            each for topic, offsets in read_offsets(from_file).items() for each in _of_file(admin, topic, offsets)
        )
    return tuple(
        each
        for topic, partitions in parse_places(places).items()
        for each in admin.plan_delete_records(topic, before, partitions=partitions)
    )


def _of_file(admin: Admin, topic: str, offsets: Mapping[int, int]) -> tuple[Deletion, ...]:
    """-1 stands for the end, as in Kafka's tool."""
    all_of = [partition for partition, offset in offsets.items() if offset == -1]
    some_of = {partition: offset for partition, offset in offsets.items() if offset != -1}
    whole = admin.plan_delete_records(topic, partitions=all_of) if all_of else ()
    return whole + (admin.plan_delete_records(topic, some_of) if some_of else ())


def _delete(admin: Admin, plan: tuple[Deletion, ...]) -> tuple[Deletion, ...]:
    """What was shown, and not what has come since."""
    done: tuple[Deletion, ...] = ()
    for topic in dict.fromkeys(each.topic for each in plan):
        done += admin.delete_records(topic, {each.partition: each.new_start for each in plan if each.topic == topic})
    before = {(each.topic, each.partition): each.start for each in plan}
    return tuple(each.counted_from(before[each.topic, each.partition]) for each in done)


def _show(plan: tuple[Deletion, ...]) -> None:
    rows = [[each.topic, each.partition, each.start, each.new_start, each.end, each.count] for each in plan]
    print_table(["topic", "partition", "start", "new start", "end", "deleted"], rows)


def read_offsets(path: Path) -> dict[str, dict[int, int]]:
    """Offsets by topic and partition, from the JSON that `kafka-delete-records --offset-json-file` reads."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["partitions"]
        found: dict[str, dict[int, int]] = {}
        for each in listed:
            found.setdefault(str(each["topic"]), {})[int(each["partition"])] = int(each["offset"])
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}", code=2)
    except (ValueError, KeyError, TypeError):
        hint = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1200}], "version": 1}'
        fail(f"{path} does not say which offsets", hint=f"Write {hint}.", code=2)
    if not found:
        fail(f"{path} names no partition", code=2)
    return found
