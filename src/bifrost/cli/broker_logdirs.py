"""`bifrost broker logdirs`: what brokers keep in which directories, and how much room is left."""

from __future__ import annotations

from typing import Annotated

import typer

from bifrost.cli.failure import fail
from bifrost.cli.options import TIMEOUT_S, Bootstrap, Cluster, CommandConfig, Json, Timeout, connect_wire
from bifrost.cli.output import print_json, print_table
from bifrost.cli.patience import ANSWERS, hogo_lo
from bifrost.client.descriptions import LogDirectory


def logdirs(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID...", help="The brokers; all that live.", show_default=False)
    ] = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the log directories of brokers: how many replicas are in them, how large those are, what room is left.

    Replicas that come from another directory of the same broker (`bifrost broker move-log`) are counted for
    themselves. A directory that has failed is offline until its broker starts again; nobody knows what is in it.

    \b
    $ bifrost broker logdirs
    $ bifrost broker logdirs 0 1 --json | jq '.[] | select(.error)'
    """
    client = connect_wire(bootstrap, cluster, timeout, command_config)
    with client, hogo_lo(ANSWERS, client.bootstrap, timeout):
        live = [each.id for each in client.brokers() if not each.fenced]
        if missing := [str(each) for each in ids or [] if each not in live]:
            fail(f"no broker {', '.join(missing)} lives in this cluster", hint=f"There are: {live}.", code=1)
        found = client.log_dirs(ids or live)
    if as_json:
        print_json(found)
    else:
        columns = ["broker", "directory", "state", "replicas", "coming", "bytes", "usable", "total"]
        print_table(columns, map(_row, found))


def _row(found: LogDirectory) -> list[object]:
    if found.error is not None:
        return [found.broker, found.path, f"offline ({found.error})", *[None] * 5]
    state = "cordoned" if found.cordoned else "online"
    counts = [found.replicas, found.future_replicas or None]
    return [found.broker, found.path, state, *counts, found.size_bytes, found.usable_bytes, found.total_bytes]
