"""`bifrost apis`: what this broker answers, and where in the source."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from pathlib import Path
from typing import Annotated

import typer


def rows() -> list[tuple[int, str, str, str, str]]:
    """Key, name, versions, place in the source and version notes of every API."""
    import bifrost.broker.handlers  # noqa: F401  # registers them
    from bifrost.broker.registry import APIS

    found = []
    for key, entry in sorted(APIS.items()):
        code = inspect.unwrap(entry.handler).__code__
        place = f"broker/handlers/{Path(code.co_filename).name}"
        notes = " ".join((entry.handler.__doc__ or "").split())
        found.append((key, entry.key.name, f"{entry.announced_min}-{entry.versions.stop - 1}", place, notes))
    return found


def render_markdown() -> str:
    """`docs/apis.md`."""
    lines = [
        "# The APIs that Bifrost answers",
        "",
        "Made by `make docs` from the table that dispatch and ApiVersions use.",
        "",
        "| key | API | versions | handler | notes |",
        "|---:|---|---|---|---|",
    ]
    lines += [f"| {key} | {name} | {versions} | `{place}` | {notes} |" for key, name, versions, place, notes in rows()]
    return "\n".join(lines) + "\n"


def apis(
    notes: Annotated[bool, typer.Option("--notes", help="Say what the versions brought.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List the APIs of Kafka's protocol that this broker answers, with their versions."""
    if as_json:
        import json

        keys = ("key", "name", "versions", "handler", "notes")
        typer.echo(json.dumps([dict(zip(keys, row)) for row in rows()], indent=2))
        return
    width = shutil.get_terminal_size().columns
    typer.secho("key  API                        versions  handler", bold=True)
    for key, name, versions, place, text in rows():
        typer.echo(f"{key:3}  {name:25}  {versions:8}  {place}")
        if notes:
            typer.echo(textwrap.fill(text, width, initial_indent="     ", subsequent_indent="     "))
