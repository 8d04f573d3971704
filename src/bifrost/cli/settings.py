"""`bifrost settings`: every setting with its default and meaning."""

from __future__ import annotations

from typing import Annotated

import typer


def settings(
    pattern: Annotated[str, typer.Argument(help="Show only names that contain this.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List the settings of a node, under Kafka's names, with defaults and meaning."""
    from bifrost.settings import Settings, describe_broker

    found = [entry for entry in describe_broker(Settings()) if pattern in entry.name]
    if not found:
        typer.secho(f"error: no setting has {pattern!r} in its name", fg="red", err=True)
        raise typer.Exit(1)
    if as_json:
        import json

        rows = [{"name": entry.name, "default": entry.value, "doc": entry.documentation} for entry in found]
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("setting", "default", "meaning")
    for entry in found:
        table.add_row(entry.name, entry.value or "", entry.documentation)
    Console().print(table)
