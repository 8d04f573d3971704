"""How a run of a pipeline looks: a table that changes, lines in a pipe, or JSON for scripts.

While Spark starts, its JVM is given another stderr than ours; a table that goes on changing meanwhile therefore writes
to a copy of the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TextIO

import typer

from bifrost.cli.output import print_json_line
from bifrost.pipeline.flows import Flow
from bifrost.pipeline.running import Watcher

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.spinner import Spinner


def is_terminal() -> bool:
    """Whether the table has somewhere to change."""
    return sys.stderr.isatty() and sys.stdout.isatty()


class View(Watcher):
    """What a command needs of each of the three."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to tidy up."""

    def end(self, state: str, seconds: float) -> None:
        """The last word."""


class LineFlows(View):
    """A line for each stage, and one for each flow whenever its state or its counts are others than before."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def stage(self, text: str) -> None:
        typer.echo(f"{text} ...", err=True)

    def changed(self, flows: list[Flow]) -> None:
        for flow in flows:
            line = f"{flow.name}: {describe(flow)}"
            if self._told.get(flow.name) != line and flow.state != "waiting":
                typer.echo(line)
            self._told[flow.name] = line

    def end(self, state: str, seconds: float) -> None:
        typer.echo(f"{state} after {seconds:.0f} s" if seconds else state, err=True)


class JsonFlows(View):
    """One object on a line for each change of a flow, and one for the end."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}

    def changed(self, flows: list[Flow]) -> None:
        for flow in flows:
            found = as_mapping(flow)
            if self._told.get(flow.name) != found:
                print_json_line(found)
            self._told[flow.name] = found

    def end(self, state: str, seconds: float) -> None:
        print_json_line({"state": state.partition(";")[0], "seconds": round(seconds, 1)})


class LiveFlows(View):
    """A table that changes in place, and stays when the run is over."""

    def __init__(self) -> None:
        self._stage = "starting"
        self._is_over = False
        self._flows: list[Flow] = []
        self._live: Live | None = None
        self._spinner: Spinner | None = None
        self._terminal: TextIO | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
        self._live = Live(console=Console(file=self._terminal, force_terminal=True), get_renderable=self.render)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        if self._live is not None and self._terminal is not None:
            self._live.stop()
            self._terminal.close()

    def stage(self, text: str) -> None:
        self._stage = text

    def changed(self, flows: list[Flow]) -> None:
        self._flows = flows

    def end(self, state: str, seconds: float) -> None:
        self._stage = f"{state} after {seconds:.0f} s" if seconds else state
        self._is_over = True

    def render(self) -> RenderableType:
        """As it is now; something moves until all is over."""
        from rich.console import Group
        from rich.spinner import Spinner

        if self._spinner is None:
            self._spinner = Spinner("dots")
        self._spinner.update(text=self._stage)
        return Group(*self._tables(), self._stage if self._is_over else self._spinner)

    def _tables(self) -> Sequence[RenderableType]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        if not self._flows:
            return []
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for heading in ("flow", "from", "to", "state", "rows in", "rows out", "lag"):
            table.add_column(heading, justify="right" if heading in {"rows in", "rows out", "lag"} else "left")
        for flow in self._flows:
            cells = [flow.name, source(flow), target(flow)]
            counts = [_count(flow.rows_read), _count(flow.rows_written), _count(flow.lag)]
            table.add_row(*map(Text, cells), Text(flow.state, style=_STYLES.get(flow.state, "")), *map(Text, counts))
        return [table]


_STYLES = {"running": "cyan", "completed": "green", "failed": "red", "skipped": "yellow"}


def describe(flow: Flow) -> str:
    """State and counts, without those that Spark does not tell."""
    counts = [
        f"{value:,} {what}"
        for value, what in ((flow.rows_read, "rows in"), (flow.rows_written, "rows out"))
        if value is not None
    ]
    lag = [] if flow.lag is None else [f"lag {flow.lag:,}"]
    problem = [flow.problem] if flow.problem else []
    return ", ".join([flow.state, *counts, *lag, *problem])


def source(flow: Flow) -> str:
    return f"topic {', '.join(flow.reads)}" if flow.reads else "tables"


def target(flow: Flow) -> str:
    return f"topic {flow.writes}" if flow.writes else f"table {flow.target}"


def as_mapping(flow: Flow) -> dict[str, Any]:
    """The fields that scripts may rely on."""
    return {
        "flow": flow.name,
        "state": flow.state,
        "reads": list(flow.reads),
        "writes": flow.writes,
        "rows_read": flow.rows_read,
        "rows_written": flow.rows_written,
        "batches": flow.batches,
        "lag": flow.lag,
        "problem": flow.problem,
    }


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
