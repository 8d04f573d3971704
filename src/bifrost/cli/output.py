"""What commands print: a table for people or JSON for scripts, on stdout; questions and remarks on stderr.

The names and the order of JSON fields are a promise to scripts: they are the fields of the dataclasses that the Python
API returns. A table promises nothing to scripts, but never hides a part of a name: it folds on a narrow terminal, and
is as wide as it needs to be in a pipe.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import typer


def print_json(value: Any) -> None:
    """Dataclasses, mappings, sequences, dates; one document, indented."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(plain(value)), indent=2))


def print_json_line(value: Any) -> None:
    """One document on one line, for output that goes on."""
    import msgspec

    typer.echo(msgspec.json.encode(plain(value)))


def plain(value: Any) -> Any:
    """Dataclasses and named tuples as mappings, all the way down."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """A table with one line of headings. A column whose cells are all numbers is aligned to the right."""
    rows = list(rows)
    cells = [[_text(cell) for cell in row] for row in rows]
    right = [_is_number([row[index] for row in rows]) for index in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, cells, right, title)
        return
    if title:
        typer.echo(title)
    widths = [max(map(len, column)) for column in zip(columns, *cells)]
    for line in [columns, *cells]:
        padded = [text.rjust(width) if end else text.ljust(width) for text, width, end in zip(line, widths, right)]
        typer.echo("  ".join(padded).rstrip())


def remark(text: str) -> None:
    """A remark beside the result."""
    typer.secho(text, dim=True, err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ends the command unless the person agrees; a script, which nobody watches, is taken at its word."""
    if not yes and is_watched():
        typer.confirm(question, abort=True, err=True)


def is_watched() -> bool:
    """Whether somebody is there who could answer a question."""
    return sys.stdin.isatty()


def _is_number(cells: list[object]) -> bool:
    given = [cell for cell in cells if cell is not None]
    return bool(given) and all(isinstance(cell, int | float) for cell in given)


def counted(count: int, noun: str) -> str:
    """`1 partition`, `3 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)


def _print_rich(columns: Sequence[str], cells: list[list[str]], right: list[bool], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title=title or None, title_justify="left")
    for name, end in zip(columns, right):
        table.add_column(name, overflow="fold", justify="right" if end else "left")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)
