"""`bifrost broker unthrottle`: no limit any more to how fast replicas are copied."""

from __future__ import annotations

from typing import Annotated

import typer

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
from bifrost.cli.output import counted, print_json, print_table
from bifrost.cli.patience import patient


def lift(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", help="All brokers, without one.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what there is and change nothing.")] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Take away the rates at which brokers copy replicas, whoever set them, and with it all lists of throttled ones.

    A command with --throttle does that by itself for what it set, if it sees the end of its moves; one with --no-wait
    does not, nor one that was interrupted. Moves that are under way go on as fast as they can. With ids, only these
    brokers lose their rates, and topics keep their lists.

    \b
    $ bifrost broker unthrottle --dry-run
    $ bifrost broker unthrottle
    """
    from bifrost.client.moves.throttle import RATES, REPLICAS, unthrottle

    with connect_wire(bootstrap, cluster, timeout, command_config) as client:
        admin = patient(client, timeout)
        layout = admin.layout()
        if missing := [str(each) for each in ids or () if each not in layout.racks]:
            fail(f"no broker {', '.join(missing)} in this cluster", hint="See `bifrost broker list`.", code=1)
        asked = {broker: admin.broker_configs(broker, RATES) for broker in sorted(ids or layout.live)}
        rates = {broker: found for broker, found in asked.items() if found}
        names = [] if ids else sorted({tp.topic for tp in layout.places})
        lists = {topic: found for topic, found in admin.topic_configs(names, REPLICAS).items() if found}
        if not dry_run:
            unthrottle(admin, lists, rates)
    if as_json:
        print_json({"brokers": {str(broker): found for broker, found in rates.items()}, "topics": lists})
        return
    if not rates and not lists:
        typer.echo("nothing is throttled")
        return
    rows = [[f"broker {broker}", name, value] for broker, found in rates.items() for name, value in found.items()]
    rows += [[f"topic {topic}", name, value] for topic, found in lists.items() for name, value in found.items()]
    print_table(["of", "setting", "value" if dry_run else "was"], rows)
    if not dry_run:
        typer.echo(f"took {counted(len(rows), 'setting')} away")
