"""How a command ends that could not do what was asked: with a sentence on stderr, never with a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from bifrost.client.errors import BifrostError, ConfigError

INTERRUPTED = 130  # what shells report for a process that SIGINT ended


def fail(problem: object, *, code: int, hint: str = "") -> NoReturn:
    """End the command. Code 2: what was asked makes no sense; code 1: it could not be done."""
    typer.secho(f"error: {problem}", fg="red", err=True)
    if hint:
        typer.secho(f"hint: {hint}", fg="yellow", err=True)
    raise typer.Exit(code)


@contextmanager
def told(*, debug: bool) -> Iterator[None]:
    """Turns what a command raises into its last line; with `debug`, the traceback comes before it."""
    try:
        yield
    except KeyboardInterrupt:
        _trace(debug)
        fail("interrupted", code=INTERRUPTED)
    except BifrostError as error:
        _trace(debug)
        fail(error.problem, hint=error.hint, code=2 if isinstance(error, ConfigError) else 1)


def _trace(wanted: bool) -> None:
    if wanted:
        import traceback

        traceback.print_exc()
