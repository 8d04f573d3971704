"""`bifrost config`: read and change the settings of a running cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from bifrost.cli import completion
from bifrost.cli.failure import fail
from bifrost.cli.options import (
    CONTEXT,
    TIMEOUT_S,
    Bootstrap,
    Cluster,
    CommandConfig,
    Json,
    Timeout,
    connect,
    parse_assignments,
)
from bifrost.cli.output import print_json, print_table, remark
from bifrost.client.errors import nearest

app = typer.Typer(
    help="Read and change the settings of topics and brokers.", no_args_is_help=True, context_settings=CONTEXT
)

Topic = Annotated[
    str | None,
    typer.Option(
        "--topic", "-t", metavar="NAME", help="The topic.", autocompletion=completion.topics, show_default=False
    ),
]
BrokerId = Annotated[int | None, typer.Option("--broker", metavar="ID", help="The broker.", show_default=False)]


@app.command("get")
def get(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING...",
            help="Names; all that are set.",
            autocompletion=completion.topic_settings,
            show_default=False,
        ),
    ] = None,
    topic: Topic = None,
    broker: BrokerId = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also those that have their default.")] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show settings of a topic or a broker: those that are named, or those that somebody has set.

    \b
    $ bifrost config get --topic orders
    $ bifrost config get --topic orders retention.ms cleanup.policy
    $ bifrost config get --broker 1 --all --json
    """
    _check(topic, broker)
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        found = admin.configs(topic=topic, broker=broker)
    unknown = [name for name in names or [] if name not in found]
    if unknown:
        fail(f"there is no setting {unknown[0]}", hint=nearest(unknown[0], found), code=2)
    if names:
        shown = [found[name] for name in names]
    else:
        shown = [value for value in found.values() if everything or value.source != "default"]
    if as_json:
        print_json(shown)
        return
    print_table(["setting", "value", "source"], [[each.name, each.value, each.source] for each in shown])
    if not everything and not names:
        remark(f"{len(found) - len(shown)} more have their default; --all shows them")


@app.command("set")
def set_(
    assignments: Annotated[
        list[str],
        typer.Argument(
            metavar="SETTING=VALUE...", help="What to set.", autocompletion=completion.assignments, show_default=False
        ),
    ],
    topic: Topic = None,
    broker: BrokerId = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Change settings of a topic or a broker; all others stay as they are.

    \b
    $ bifrost config set --topic orders retention.ms=3600000
    $ bifrost config set --broker 1 log.retention.ms=86400000
    """
    _check(topic, broker)
    settings = parse_assignments(assignments, "config set", "retention.ms=3600000")
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        admin.set_configs(settings, topic=topic, broker=broker)
    if as_json:
        print_json({"topic": topic, "broker": broker, "set": settings})
    else:
        for name, value in settings.items():
            typer.echo(f"{name}={value}")


@app.command("unset")
def unset(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="SETTING...", help="Names.", autocompletion=completion.topic_settings, show_default=False
        ),
    ],
    topic: Topic = None,
    broker: BrokerId = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Give settings of a topic or a broker back their defaults.

    \b
    $ bifrost config unset --topic orders retention.ms
    """
    _check(topic, broker)
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        admin.unset_configs(names, topic=topic, broker=broker)
    if as_json:
        print_json({"topic": topic, "broker": broker, "unset": names})
    else:
        for name in names:
            typer.echo(f"{name} has its default again")


def _check(topic: str | None, broker: int | None) -> None:
    if (topic is None) == (broker is None):
        fail("whose settings?", hint="Give --topic NAME or --broker ID.", code=2)
