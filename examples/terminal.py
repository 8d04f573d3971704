"""What both demos show while they wait: a line that moves, with seconds; or plain lines where nobody watches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
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
