"""How a command ends that could not do what was asked: with a sentence on stderr, never with a traceback or a drawing.

The exit code says whose move it is. 2: what was asked makes no sense, and would not tomorrow. 1: it could not be done
as things are, or not all of it: nobody answers, what was named is not there, a record was not acknowledged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from bifrost.cli.entry import INTERRUPTED
from bifrost.client.errors import BifrostError, InvalidRequestError, MessageTooLargeError

IMPOSSIBLE = 1
SENSELESS = 2
EXIT_CODES: tuple[tuple[type[BifrostError], int], ...] = (
    (MessageTooLargeError, IMPOSSIBLE),  # one message of many, and a limit that may change
    (InvalidRequestError, SENSELESS),  # also every ConfigError
    (BifrostError, IMPOSSIBLE),
)
"""What the errors of the API end with; the first line that fits counts. Usage errors end with 2, Ctrl-C with 130."""

_USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]  # click's, of which typer has a copy of its own since 0.28
_HELP_PAGE = "NoArgsIsHelpError"  # a noun alone: typer shows its help
_SUGGESTION = re.compile(r"\.? Did you mean (.+)\?$")


def fail(problem: object, *, code: int, hint: str = "") -> NoReturn:
    """End the command. Code 2: what was asked makes no sense; code 1: it could not be done."""
    typer.secho(f"error: {problem}", fg="red", err=True)
    if hint:
        typer.secho(f"hint: {hint}", fg="yellow", err=True)
    raise typer.Exit(code)


def exit_code(error: BifrostError) -> int:
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))


@contextmanager
def told(*, debug: bool, command: Callable[[], str]) -> Iterator[None]:
    """Turns what a command raises into its last line; with `debug`, the traceback comes before it.

    `command` is asked for what was typed, as far as it is the name of a command, should click not know.
    """
    try:
        yield
    except KeyboardInterrupt:
        _trace(debug)
        fail("interrupted", code=INTERRUPTED)
    except typer.Abort:  # the answer to a question was no
        fail("nothing was done", code=IMPOSSIBLE)
    except BifrostError as error:
        _trace(debug)
        fail(error.problem, hint=error.hint, code=exit_code(error))
    except _USAGE_ERROR as error:
        if type(error).__name__ == _HELP_PAGE:
            raise
        _trace(debug)
        _fail_usage(error, error.ctx.command_path if error.ctx is not None else command())


def _fail_usage(error: Any, command: str) -> NoReturn:
    """One line of what click says in several, with what was probably meant and where to read on."""
    text = error.message if getattr(error, "possibilities", None) else error.format_message()
    text = " ".join(text.split())
    meant = " or ".join(getattr(error, "possibilities", None) or [])
    if found := _SUGGESTION.search(text):
        text, meant = text[: found.start()], found[1]
    page = f"`{command} --help` shows how."
    fail(
        text[:1].lower() + text[1:].rstrip("."),
        hint=f"Did you mean {meant}? {page}" if meant else page,
        code=SENSELESS,
    )


def _trace(wanted: bool) -> None:
    if wanted:
        import traceback

        traceback.print_exc()
