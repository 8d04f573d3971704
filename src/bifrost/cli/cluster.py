"""`bifrost cluster`: which brokers there are, and whether all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bifrost.cli.options import (
    CONTEXT,
    TIMEOUT_S,
    Bootstrap,
    Cluster,
    CommandConfig,
    Json,
    Timeout,
    connect,
    connect_wire,
)
from bifrost.cli.output import counted, plain, print_json, print_table

if TYPE_CHECKING:
    from bifrost.client.descriptions import Health
    from bifrost.types import TopicPartition

app = typer.Typer(help="Look at a cluster as a whole.", no_args_is_help=True, context_settings=CONTEXT)

_SHOWN = 20


@app.command()
def info(
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the cluster's id and its brokers.

    \b
    $ bifrost cluster info
    $ bifrost cluster info --cluster production --json
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        found = admin.cluster()
        topics = admin.topics(internal=True)
    partitions = sum(topic.partitions for topic in topics)
    if as_json:
        print_json({**plain(found), "topics": len(topics), "partitions": partitions})
        return
    size = f"{counted(len(topics), 'topic')}, {counted(partitions, 'partition')}"
    typer.echo(f"cluster {typer.style(found.id, bold=True)}  {size}")
    rows = [
        [each.id, f"{each.host}:{each.port}", each.rack, "yes" if each.id == found.controller else ""]
        for each in found.brokers
    ]
    print_table(["broker", "address", "rack", "controller"], rows)


@app.command()
def health(
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Say whether all is well, and what is not; ends with exit code 1 if something is not.

    \b
    $ bifrost cluster health
    $ bifrost cluster health --timeout 5 && deploy
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        found = admin.health()
    if as_json:
        print_json({"healthy": found.healthy, **plain(found)})
    else:
        _show(found)
    if not found.healthy:
        raise typer.Exit(1)


@app.command()
def features(
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show what the nodes of a cluster agree to do: the level of each feature, and which levels there are.

    \b
    $ bifrost cluster features
    $ bifrost cluster features --json | jq '.[] | select(.level < .max_level)'
    """
    with connect_wire(bootstrap, cluster, timeout, command_config) as client:
        found = client.features()
    if as_json:
        print_json(found)
    else:
        rows = [[each.name, each.level, each.min_level, each.max_level] for each in found]
        print_table(["feature", "level", "lowest", "highest"], rows)


def _show(found: Health) -> None:
    verdict = typer.style("healthy", fg="green") if found.healthy else typer.style("unhealthy", fg="red")
    typer.echo(f"{verdict}  {counted(len(found.brokers), 'broker')}, {counted(found.partitions, 'partition')}")
    if found.controller is None:
        typer.echo("no controller")
    if found.offline_brokers:
        typer.echo(f"brokers that are not there: {', '.join(map(str, found.offline_brokers))}")
    for heading, places in (("without a leader", found.leaderless), ("under-replicated", found.under_replicated)):
        if places:
            typer.echo(f"partitions {heading}: {_listed(places)}")


def _listed(places: tuple[TopicPartition, ...]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(f"{place.topic}:{place.partition}" for place in places[:_SHOWN]) + more
