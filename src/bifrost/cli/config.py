"""`bifrost config`: read and change the settings of a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
from bifrost.cli.patience import DECIDES, hogo_lo
from bifrost.client.errors import UnsupportedError, nearest

if TYPE_CHECKING:
    from bifrost.client.admin import Admin
    from bifrost.client.descriptions import ConfigValue

app = typer.Typer(
    help="Read and change the settings of topics and brokers.", no_args_is_help=True, context_settings=CONTEXT
)

Topic = Annotated[
    str | None,
    typer.Option(
        "--topic", "-t", metavar="NAME", help="The topic.", autocompletion=completion.topics, show_default=False
    ),
]
BrokerId = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="ID",
        help="The broker; `default` is what was set for all of them.",
        show_default=False,
    ),
]
_EVERY_BROKER = "default"


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
        found = _shared(admin) if broker == _EVERY_BROKER else admin.configs(topic=topic, broker=_id(broker))
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
    broker_id = _id(broker)
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(DECIDES, admin.bootstrap, timeout):
        admin.set_configs(settings, topic=topic, broker=broker_id)
    if as_json:
        print_json({"topic": topic, "broker": broker_id, "set": settings})
    else:
        for name, value in settings.items():
            typer.echo(f"{name}={value}")


Items = Annotated[
    list[str],
    typer.Argument(
        metavar="SETTING=ITEM,...",
        help="Lists, and items of them.",
        autocompletion=completion.assignments,
        show_default=False,
    ),
]


@app.command("append")
def append(
    assignments: Items,
    topic: Topic = None,
    broker: BrokerId = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Add items to settings that are lists; those that are there stay.

    \b
    $ bifrost config append --topic orders cleanup.policy=compact
    """
    _check(topic, broker)
    settings, broker_id = parse_assignments(assignments, "config append", "cleanup.policy=compact"), _id(broker)
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(DECIDES, admin.bootstrap, timeout):
        admin.append_configs(settings, topic=topic, broker=broker_id)
    _tell_lists("appended", settings, topic, broker_id, as_json=as_json)


@app.command("subtract")
def subtract(
    assignments: Items,
    topic: Topic = None,
    broker: BrokerId = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Take items away from settings that are lists; one that is not there is no error.

    \b
    $ bifrost config subtract --topic orders cleanup.policy=compact
    """
    _check(topic, broker)
    settings, broker_id = parse_assignments(assignments, "config subtract", "cleanup.policy=compact"), _id(broker)
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(DECIDES, admin.bootstrap, timeout):
        admin.subtract_configs(settings, topic=topic, broker=broker_id)
    _tell_lists("subtracted", settings, topic, broker_id, as_json=as_json)


@app.command("delete", hidden=True)
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
    $ bifrost config delete --topic orders retention.ms
    """
    _check(topic, broker)
    broker_id = _id(broker)
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(DECIDES, admin.bootstrap, timeout):
        admin.unset_configs(names, topic=topic, broker=broker_id)
    if as_json:
        print_json({"topic": topic, "broker": broker_id, "unset": names})
    else:
        for name in names:
            typer.echo(f"{name} has its default again")


def _tell_lists(what: str, items: dict[str, str], topic: str | None, broker: int | None, *, as_json: bool) -> None:
    """Only what was asked for: a broker of Apache Kafka hears of it a moment later, and would tell the old list."""
    if as_json:
        print_json({"topic": topic, "broker": broker, what: items})
    else:
        for name, value in items.items():
            typer.echo(f"{name}: {what} {value}")


def _check(topic: str | None, broker: str | None) -> None:
    if (topic is None) == (broker is None):
        fail("whose settings?", hint="Give --topic NAME or --broker ID.", code=2)
    if broker is not None and broker != _EVERY_BROKER and not broker.isdecimal():
        fail(f"--broker takes the number of a broker, or {_EVERY_BROKER}, not {broker!r}", code=2)


def _shared(admin: Admin) -> dict[str, ConfigValue]:
    """What was set for all brokers at once, as far as one of them goes by it."""
    found = [admin.configs(broker=each.id) for each in admin.cluster().brokers]
    return {name: value for configs in found for name, value in configs.items() if value.source == "cluster"}


def _id(broker: str | None) -> int | None:
    """The broker that is changed: librdkafka has no way to change what all of them share."""
    if broker == _EVERY_BROKER:
        raise UnsupportedError(
            "the settings that all brokers share can be read here, but not changed",
            "Change those of each broker, or use kafka-configs --entity-default.",
        )
    return None if broker is None else int(broker)
