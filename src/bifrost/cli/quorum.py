"""`bifrost quorum`: the controllers that decide for a cluster."""

from __future__ import annotations

import time

import typer

from bifrost.cli.options import CONTEXT, TIMEOUT_S, Bootstrap, Cluster, CommandConfig, Json, Timeout, connect_wire
from bifrost.cli.output import print_json, print_table
from bifrost.cli.patience import hogo_lo
from bifrost.client.descriptions import Quorum, QuorumReplica

app = typer.Typer(
    help="Look at the controllers that decide for a cluster.", no_args_is_help=True, context_settings=CONTEXT
)


@app.callback()
def quorum() -> None:
    """Look at the controllers that decide for a cluster."""


@app.command()
def status(
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show who leads the controllers, since which epoch, and how far voters and observers are.

    Voters elect the leader, and what a majority of them has is decided. Observers, which brokers are, follow. While an
    election is under way the command waits for its outcome.

    \b
    $ bifrost quorum status
    $ bifrost quorum status --json | jq '.voters[] | select(.lag > 0)'
    """
    client = connect_wire(bootstrap, cluster, timeout, command_config)
    with client, hogo_lo("a leader of the controllers", client.bootstrap, timeout):
        found = client.quorum()
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: Quorum) -> None:
    facts = f"epoch {found.epoch}, high watermark {found.high_watermark}"
    typer.echo(f"leader {typer.style(str(found.leader), bold=True)}  {facts}")
    now_ms = time.time_ns() // 1_000_000

    def row(role: str, replica: QuorumReplica) -> list[object]:
        times = [_ago(now_ms, each) for each in (replica.last_fetch_ms, replica.last_caught_up_ms)]
        return [replica.id, "leader" if replica.id == found.leader else role, replica.end_offset, replica.lag, *times]

    rows = [row("voter", each) for each in found.voters] + [row("observer", each) for each in found.observers]
    print_table(["node", "role", "end", "lag", "last fetch", "caught up"], rows)


def _ago(now_ms: int, moment_ms: int | None) -> str | None:
    """By two clocks, which may differ: never before now."""
    return None if moment_ms is None else f"{max(0, now_ms - moment_ms) / 1000:.1f} s ago"
