"""How a command ends that could not do what was asked: with a sentence on stderr, never with a traceback."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(problem: object, *, code: int) -> NoReturn:
    """End the command. Code 2: what was asked makes no sense; code 1: it could not be done."""
    typer.secho(f"error: {problem}", fg="red", err=True)
    raise typer.Exit(code)
