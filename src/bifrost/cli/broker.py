"""`bifrost broker`: the brokers of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from bifrost.cli import broker_add, broker_logdirs, broker_move_log, broker_moves, broker_unthrottle
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
    connect_wire,
)
from bifrost.cli.output import counted, plain, print_json, print_table
from bifrost.cli.patience import ANSWERS, hogo_lo
from bifrost.client.descriptions import BrokerDescription

app = typer.Typer(
    help="Look at the brokers of a cluster, and move what they carry.", no_args_is_help=True, context_settings=CONTEXT
)


@app.command("list")
def list_brokers(
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List brokers with their addresses, whether they take part, and how many partitions they lead and hold.

    A broker is fenced while the controllers count it out: it died, hangs, or is only starting. Apache Kafka before 4.0
    does not tell of such brokers.

    \b
    $ bifrost broker list
    $ bifrost broker list --json | jq -r '.[] | select(.fenced).id'
    """
    found = _brokers(bootstrap, cluster, timeout, command_config)
    if as_json:
        print_json(found)
        return
    print_table(["broker", "address", "rack", "state", "leaders", "replicas", "controller"], map(_row, found))


def _row(broker: BrokerDescription) -> list[object]:
    address, controller = f"{broker.host}:{broker.port}", "yes" if broker.controller else ""
    return [broker.id, address, broker.rack, _state(broker), broker.leaders, broker.replicas, controller]


@app.command()
def describe(
    ids: Annotated[list[int], typer.Argument(metavar="ID...", help="The brokers.", show_default=False)],
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show brokers with the settings that were given to them.

    \b
    $ bifrost broker describe 0
    $ bifrost broker describe 0 1 2 --json | jq '.[].config["log.dirs"]'
    """
    found = {each.id: each for each in _brokers(bootstrap, cluster, timeout, command_config)}
    if missing := [str(each) for each in ids if each not in found]:
        there = f"There are {', '.join(map(str, found))}."
        fail(f"no broker {', '.join(missing)} in this cluster", hint=there, code=1)
    described = []
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        for broker in (found[each] for each in ids):
            settings = {} if broker.fenced else admin.configs(broker=broker.id)  # who is fenced cannot be asked
            described.append(
                (broker, {name: each.value for name, each in settings.items() if each.source != "default"})
            )
    if as_json:
        print_json([{**plain(broker), "config": given} for broker, given in described])
        return
    for index, (broker, given) in enumerate(described):
        if index:
            typer.echo()
        _show(broker, given)


def _show(broker: BrokerDescription, settings: dict[str, str | None]) -> None:
    rack = f", rack {broker.rack}" if broker.rack else ""
    head = f"{broker.host}:{broker.port}{rack}, {_state(broker)}"
    typer.echo(f"{typer.style(f'broker {broker.id}', bold=True)}  {head}")
    typer.echo(f"leads {counted(broker.leaders, 'partition')}, holds {counted(broker.replicas, 'replica')}")
    for name, value in settings.items():
        typer.echo(f"{name}={value}")


def _brokers(
    bootstrap: str | None, cluster: str | None, timeout: float, command_config: CommandConfig
) -> list[BrokerDescription]:
    client = connect_wire(bootstrap, cluster, timeout, command_config)
    with client, hogo_lo(ANSWERS, client.bootstrap, timeout):
        return client.brokers()


def _state(broker: BrokerDescription) -> str:
    return "fenced" if broker.fenced else "live"


app.command()(broker_logdirs.logdirs)
app.command("move-log")(broker_move_log.move_log)
app.command()(broker_add.add)
app.command()(broker_moves.rebalance)
app.command()(broker_moves.decommission)
app.command("unthrottle")(broker_unthrottle.lift)
