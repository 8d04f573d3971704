"""What became of the records that a command sent: for people, for scripts, and as the command's end."""

from __future__ import annotations

from typing import Any, NoReturn

import typer

from bifrost.cli.data.interrupt import Interrupt
from bifrost.cli.data.sender import Sender, Tally
from bifrost.cli.output import print_json, print_table
from bifrost.client.errors import BifrostError, DeliveryError

_NOT_ACKNOWLEDGED = "Those that were not acknowledged may be stored or not: read the topic before you send them again."


def as_dict(tally: Tally, topic: str, *, seconds: float, stopped: str | None) -> dict[str, Any]:
    """The fields that `--json` promises."""
    partitions = [
        {
            "partition": number,
            "records": landed.records,
            "first_offset": None if landed.first_offset < 0 else landed.first_offset,
            "last_offset": None if landed.last_offset < 0 else landed.last_offset,
        }
        for number, landed in sorted(tally.partitions.items())
    ]
    return {
        "topic": topic,
        "sent": tally.sent,
        "acknowledged": tally.acknowledged,
        "not_acknowledged": tally.sent - tally.acknowledged,
        "complete": tally.sent == tally.acknowledged and stopped is None,
        "seconds": round(seconds, 3),
        "partitions": partitions,
        "stopped": stopped,
    }


def print_report(tally: Tally, topic: str, *, seconds: float, stopped: str | None, as_json: bool) -> None:
    described = as_dict(tally, topic, seconds=seconds, stopped=stopped)
    if as_json:
        print_json(described)
        return
    rate = f", {tally.acknowledged / seconds:,.0f} per second" if seconds >= 1 else ""
    typer.echo(f"sent {tally.sent:,}, acknowledged {tally.acknowledged:,} in {seconds:.1f} s{rate}")
    if tally.partitions:
        print_table(
            ("partition", "records", "first offset", "last offset"),
            [tuple(row.values()) for row in described["partitions"]],
        )


def end(sender: Sender, interrupt: Interrupt, problem: BifrostError | None) -> None:
    """Ends the command as what happened demands: returns only if everything was sent and acknowledged."""
    missing = sender.tally.sent - sender.tally.acknowledged
    if problem is not None:
        raise problem
    if interrupt:
        _interrupted(sender.tally, missing, interrupt)
    if missing:
        cause = sender.error
        reason = f": {cause.problem}" if cause else ""
        raise DeliveryError(
            f"{missing:,} of {sender.tally.sent:,} records were not acknowledged{reason}", _NOT_ACKNOWLEDGED
        )


def _interrupted(tally: Tally, missing: int, interrupt: Interrupt) -> NoReturn:
    typer.secho(f"error: interrupted after {tally.acknowledged:,} acknowledged records", fg="red", err=True)
    if missing:
        typer.secho(f"hint: {missing:,} more were under way. {_NOT_ACKNOWLEDGED}", fg="yellow", err=True)
    raise typer.Exit(interrupt.exit_code)
