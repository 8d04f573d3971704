"""`bifrost topic reassign` and `bifrost topic elect`: where the replicas of a topic are, and who leads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli import completion, moving
from bifrost.cli.failure import fail
from bifrost.cli.options import (
    TIMEOUT_S,
    Bootstrap,
    Cluster,
    CommandConfig,
    Json,
    Timeout,
    connect_wire,
)
from bifrost.cli.output import counted, print_json
from bifrost.cli.patience import patient
from bifrost.client.errors import UnknownPartitionError, UnknownTopicError
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from bifrost.client.moves.layout import Assignment, Layout

Name = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completion.topics, show_default=False),
]


def reassign(
    name: Name = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this one.", show_default=False)
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option("--replicas", metavar="1,2,3", help="The brokers that it shall be on; the first leads."),
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="1,2,3", help="Spread the topic over these brokers; all, if none is given."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, metavar="N", help="Copies of each.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A plan, as Kafka's own tool writes it.", dir_okay=False),
    ] = None,
    dry_run: moving.DryRun = False,
    throttle: moving.Throttle = None,
    cancel: moving.Cancel = False,
    wait: moving.Wait = True,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Move a topic to other brokers, or give it more or fewer copies, while it is written and read.

    Copies are made first, and old ones go when the new ones are in sync, so nothing is less safe meanwhile. The cluster
    does the moving: this command only watches, and takes up the watching when it is given again.

    \b
    $ bifrost topic reassign orders --partition 0 --replicas 1,2,3
    $ bifrost topic reassign orders --brokers 1,2,3,4 --replication-factor 3 --dry-run
    $ bifrost topic reassign orders --replication-factor 3 --throttle 50MB/s
    $ bifrost topic reassign orders --cancel
    $ bifrost topic reassign --file plan.json --no-wait
    """
    from bifrost.client.moves.run import MoveRun

    if (name is None) == (file is None):
        fail("what shall move?", hint="Name a topic, or give --file with a plan.", code=2)
    if (partition is None) != (replicas is None):
        fail("--partition and --replicas go together", hint="One is which, the other is where to.", code=2)
    with connect_wire(bootstrap, cluster, timeout, command_config) as client:
        admin = patient(client, timeout)
        layout = admin.layout()
        if file is not None:
            plan = _read_plan(file, layout)
            meant = set(plan)
        else:
            meant = _partitions(layout, name or "", partition)
            plan = {} if cancel else _planned(layout, name or "", partition, replicas, brokers, replication_factor)
        under_way = {tp: layout.places[tp] for tp in sorted(meant) if layout.places[tp].is_moving}
        if cancel:
            moving.cancelled(under_way, admin, as_json=as_json)
            return
        plan = {tp: target for tp, target in plan.items() if target != layout.places[tp].target}
        if dry_run:
            moving.show_plan(layout, plan, as_json=as_json)
            return
        again = f"bifrost topic reassign {name or f'--file {file}'}"
        run = MoveRun(admin, plan, watched=under_way, rate=throttle)
        finished = moving.carry_out(run, wait=wait, again=again)
    moving.told(plan, finished=finished, as_json=as_json)


def elect(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]...", help="All topics, without one.", autocompletion=completion.topics),
    ] = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Let the first replica of each partition lead, if it is in sync, as the cluster does by itself now and then.

    \b
    $ bifrost topic elect
    $ bifrost topic elect orders --json
    """
    with connect_wire(bootstrap, cluster, timeout, command_config) as client:
        admin = patient(client, timeout)
        layout = admin.layout()
        meant = set().union(*(_partitions(layout, each, None) for each in names)) if names else set(layout.places)
        away = sorted(tp for tp in meant if not layout.places[tp].is_led_by_first)
        failed = admin.elect_preferred(away) if away else {}
    elected = [tp for tp in away if tp not in failed]
    if as_json:
        rows = [{"topic": tp.topic, "partition": tp.partition} for tp in elected]
        problems = [
            {"topic": tp.topic, "partition": tp.partition, "error": each.problem} for tp, each in failed.items()
        ]
        print_json({"elected": rows, "failed": problems})
    else:
        typer.echo(f"{counted(len(elected), 'leader')} elected" if elected or failed else "every first replica leads")
        for each in failed.values():
            typer.secho(f"not elected: {each.problem}", fg="yellow", err=True)
    if failed:
        raise typer.Exit(1)


def _partitions(layout: Layout, name: str, partition: int | None) -> set[TopicPartition]:
    found = {tp for tp in layout.places if tp.topic == name}
    if not found:
        raise UnknownTopicError(f"topic {name} does not exist", "See which there are: `bifrost topic list`.")
    if partition is None:
        return found
    if TopicPartition(name, partition) not in found:
        raise UnknownPartitionError(
            f"partition {partition} of topic {name} does not exist", f"It has {len(found)}, counted from 0."
        )
    return {TopicPartition(name, partition)}


def _planned(
    layout: Layout,
    name: str,
    partition: int | None,
    replicas: str | None,
    brokers: str | None,
    replication_factor: int | None,
) -> Assignment:
    """What was asked for; nothing, if it was only named, to watch what moves."""
    from bifrost.client.moves.plan import PlanError, place

    if partition is not None and replicas is not None:
        if brokers is not None or replication_factor is not None:
            fail("--replicas says it all", hint="Leave --brokers and --replication-factor out.", code=2)
        return {TopicPartition(name, partition): moving.numbers(replicas)}
    if brokers is None and replication_factor is None:
        return {}
    chosen = layout.live
    if brokers is not None:
        named = moving.numbers(brokers)
        if missing := [str(each) for each in named if each not in layout.racks]:
            fail(f"no broker {', '.join(missing)} in this cluster", hint="See `bifrost broker list`.", code=1)
        chosen = {each: layout.racks[each] for each in named}
    try:
        return place(layout.assignment(name), chosen, replication_factor)
    except PlanError as error:
        fail(error, hint="Name more brokers, or ask for fewer copies.", code=2)


def _read_plan(path: Path, layout: Layout) -> Assignment:
    """A file of Kafka's tool; directories in it are ignored, since brokers choose them."""
    import msgspec

    try:
        text = path.read_bytes()
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}", code=2)
    try:
        found = msgspec.json.decode(text)
        plan = {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(map(int, each["replicas"]))
            for each in found["partitions"]
        }
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        example = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
        fail(f"{path} is no plan", hint=f"One looks like this: {example}", code=2)
    for tp in plan:
        if tp not in layout.places:
            _partitions(layout, *tp)  # tells what is wrong with it
    return dict(sorted(plan.items()))
