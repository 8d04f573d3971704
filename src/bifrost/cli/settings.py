"""`bifrost settings`: every setting with its default and meaning, each as a line that a properties file could hold."""

from __future__ import annotations

import shutil
import textwrap
from typing import Annotated

import typer

from bifrost.cli.failure import fail


def settings(
    pattern: Annotated[str, typer.Argument(help="Show only names that contain this.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List the settings of a node, under Kafka's names, with defaults and meaning."""
    from bifrost.settings import Settings, describe_broker

    found = [entry for entry in describe_broker(Settings()) if pattern in entry.name]
    if not found:
        fail(f"no setting has {pattern!r} in its name", code=1)
    if as_json:
        import json

        rows = [{"name": entry.name, "default": entry.value, "doc": entry.documentation} for entry in found]
        typer.echo(json.dumps(rows, indent=2))
        return
    width = shutil.get_terminal_size().columns
    for entry in found:
        typer.echo(f"{typer.style(entry.name, bold=True)}={entry.value or ''}")
        typer.echo(textwrap.fill(entry.documentation, width, initial_indent="    ", subsequent_indent="    "))
