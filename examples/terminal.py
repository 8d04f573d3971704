"""What both demos show while they wait: a line that moves, with seconds; or plain lines where nobody watches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table
from rich.text import Text


def open_console() -> Console:
    """A copy of the terminal: while Spark starts, what it prints goes to a file, and this goes on."""
    copy = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    return Console(file=copy, force_terminal=sys.stdout.isatty(), highlight=False)


class Clock:
    """A text with the seconds since the first one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._began_s = time.monotonic()

    def __rich__(self) -> Text:
        return Text(f"{self.text}, {time.monotonic() - self._began_s:.0f} s", no_wrap=True, overflow="ellipsis")


class Teller:
    """Lines that say when: seconds since the first of them could have been told."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began_s = time.monotonic()

    def __call__(self, text: str) -> None:
        """May be called from any thread. What does not fit on a line goes on below its beginning."""
        line = Table.grid(padding=(0, 2))
        line.add_column(width=7, justify="right", style="dim", no_wrap=True)
        line.add_column(overflow="fold")
        line.add_row(f"{time.monotonic() - self._began_s:.1f} s", text)
        self.console.print(line)

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[str], None]]:
        """As the function below, with the time."""
        if not self.console.is_terminal:
            self(f"{text} ...")
            yield lambda _: None
            return
        with waiting(self.console, text) as tell:
            yield tell


@contextmanager
def waiting(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """For as long as it takes; call what you get with a new text."""
    if not console.is_terminal:
        console.print(f"{text} ...")
        yield lambda _: None
        return
    clock = Clock(text)
    with console.status(clock):
        yield lambda new: setattr(clock, "text", new)
