"""What `bifrost up` shows of a cluster that it watches over: news of nodes, and what they log if it matters.

Everything goes to stderr, each line with the name of its node; stdout has the ready line and nothing else. Routine
lines are in the nodes' files only, unless they are asked for: six nodes have a lot to say.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from bifrost.realm.record import ClusterRecord

_LINE: Final = re.compile(r"\S+ (?P<time>\d\d:\d\d:\d\d),\d+ (?P<level>[A-Z]+) (?P<logger>\S+) (?P<text>.*)")
_IMPORTANT: Final = {"WARNING", "ERROR", "CRITICAL"}
_COLOURS: Final = ("cyan", "green", "magenta", "blue", "yellow", "bright_cyan", "bright_green", "bright_magenta")
_STYLES: Final = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}
_NARROWEST: Final = 40


class Screen:
    """A `Watcher` for people."""

    def __init__(self, names: Sequence[str], *, everything: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._width = max(map(len, names))
        self._colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(names)}
        self._everything = everything
        self._shown: dict[str, str | None] = {}
        """The style of each node's last line, for those that go on below it; None if it was not shown."""

    def logged(self, name: str, line: str) -> None:
        """Shown if it matters, and so is what belongs to it, such as a traceback."""
        found = _LINE.fullmatch(line)
        if found is None:
            starts_anew = line.startswith(("error: ", "hint: ", "note: "))
            style, text = ("red" if line.startswith("error: ") else "dim", line)
            shown = self._everything or starts_anew or self._shown.get(name) is not None
        else:
            style, shown = _STYLES.get(found["level"], ""), self._everything or found["level"] in _IMPORTANT
            text = f"{found['time']} {found['level']} {found['text']}"
            self._shown[name] = style if shown else None
        if shown:
            self._print(name, text, style)

    def told(self, name: str, text: str) -> None:
        self._print(name, text, "bold")

    def ready(self, cluster: ClusterRecord) -> None:
        print(ready_line(cluster), flush=True)

    def stopping(self, *, at_once: bool) -> None:
        again = ""
        if self._console.is_terminal:
            self._console.print()  # below the ^C
            again = "; Ctrl-C again kills them"
        self.remark("killing all" if at_once else f"stopping: brokers first, then Odins{again}")

    def remark(self, text: str) -> None:
        """Something about the cluster as a whole."""
        self._console.print(Text(text, style="dim"), soft_wrap=True)

    def _print(self, name: str, text: str, style: str) -> None:
        label = f"{name:<{self._width}} | "
        lines = [text]
        if self._console.is_terminal:
            room = max(_NARROWEST, self._console.width - len(label))
            lines = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
        for line in lines:
            shown = Text.assemble((label, self._colours.get(name, "")), (line, style))
            self._console.print(shown, soft_wrap=True)


def ready_line(cluster: ClusterRecord) -> str:
    """What scripts wait for."""
    http = "" if cluster.http is None else f" http={cluster.http}"
    return f"ready bootstrap={cluster.bootstrap}{http}"


def background_console() -> Console:
    """For a supervisor that nobody looks at: plain lines, into whatever file stderr is."""
    return Console(file=sys.stderr, highlight=False, no_color=True, force_terminal=False, soft_wrap=True)
