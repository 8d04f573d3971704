"""`bifrost --help`, in the look of all other help pages, without the half of rich that typer imports for those.

Nobody waits for a page that says what there is. The others take a tenth of a second more, for Markdown and tracebacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

Rows = Iterable[tuple[str, str]]


def print_front_page(usage: str, summary: str, options: Rows, panels: Mapping[str, Rows], epilog: str) -> None:
    console = Console(highlight=False)
    words = usage.removeprefix("Usage: ")
    console.print(Padding(f"[yellow]Usage:[/] [bold]{words.replace('[', chr(92) + '[')}[/]", 1))
    console.print(Padding(summary, (0, 1, 1, 1)))
    console.print(_panel("Options", options, 28))
    width = max(len(name) for rows in panels.values() for name, _ in rows)
    for title, rows in panels.items():
        console.print(_panel(title, rows, width))
    console.print(Padding(epilog, 1))


def _panel(title: str, rows: Rows, width: int) -> Panel:
    table = Table(box=None, show_header=False, expand=True, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold cyan", width=width, no_wrap=True)
    table.add_column(ratio=1)
    for name, text in rows:
        table.add_row(name, text)
    return Panel(table, title=title, title_align="left", border_style="dim", box=box.ROUNDED)
