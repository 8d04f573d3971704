"""How a run of a pipeline looks: a table that changes, lines in a pipe, or JSON for scripts.

While Spark starts, its JVM is given another stderr than ours; a table that goes on changing meanwhile therefore writes
to a copy of the terminal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

import typer

from bifrost.cli.output import print_json_line
from bifrost.pipeline.flows import COMPLETED, FAILED, RUNNING, WAITING, Flow
from bifrost.pipeline.running import Watcher

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.live import Live
    from rich.spinner import Spinner


VALID: Final = "valid"


def is_terminal() -> bool:
    """Whether the table has somewhere to change."""
    return sys.stderr.isatty() and sys.stdout.isatty()


class View(Watcher):
    """What a command needs of each of the three."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to tidy up."""

    def end(self, state: str, remark: str = "") -> None:
        """The last word: `completed`, `valid`, `stopped` or `failed`."""

    def seconds(self) -> float:
        return time.monotonic() - self._began_s


class LineFlows(View):
    """A line for each stage, and one for each flow whenever its state or its counts are others than before."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, str] = {}

    def stage(self, text: str) -> None:
        after = f" (after {self.seconds():.0f} s)" if self.seconds() >= 1 else ""
        typer.echo(f"{text} ...{after}", err=True)

    def changed(self, flows: list[Flow]) -> None:
        for flow in flows:
            line = f"{flow.name}: {describe(flow)}"
            if self._told.get(flow.name) != line and flow.state != WAITING:
                typer.echo(line)
            self._told[flow.name] = line

    def end(self, state: str, remark: str = "") -> None:
        if state == VALID:
            return  # the command says more
        typer.echo(last_line(state, self.seconds(), remark), err=True)


class JsonFlows(View):
    """One object on a line for each change of a flow, and one for the end."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, dict[str, Any]] = {}

    def changed(self, flows: list[Flow]) -> None:
        for flow in flows:
            found = as_mapping(flow)
            if self._told.get(flow.name) != found:
                print_json_line(found)
            self._told[flow.name] = found

    def end(self, state: str, _remark: str = "") -> None:
        print_json_line({"state": state, "seconds": round(self.seconds(), 1)})


class LiveFlows(View):
    """A table that changes in place, and stays when the run is over; without flows nothing stays but the last word."""

    def __init__(self) -> None:
        super().__init__()
        self._stage = "starting"
        self._stage_began_s = self._began_s
        self._last = ""
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
        if self._live is not None and self._terminal is not None:
            self._live.transient = self.is_empty
            self._live.stop()
            self._terminal.close()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that should stay on the screen."""
        return not self._flows and not self._last

    def stage(self, text: str) -> None:
        self._stage, self._stage_began_s = text, time.monotonic()

    def changed(self, flows: list[Flow]) -> None:
        self._flows = flows

    def end(self, state: str, remark: str = "") -> None:
        if state == VALID:
            self._flows = []  # none of them has run
        elif self._flows or state != FAILED:  # else the error that follows says it all
            self._last = last_line(state, self.seconds(), remark)

    def render(self) -> RenderableType:
        """As it is now; something moves until all is over, and seconds tell that it is not stuck."""
        from rich.console import Group
        from rich.spinner import Spinner
        from rich.text import Text

        if self._last:
            told = next((flow for flow in self._flows if flow.state == FAILED), None)
            return Group(*([FlowTable(self._flows, told)] if self._flows else []), Text(self._last))
        if self._spinner is None:
            self._spinner = Spinner("dots")
        self._spinner.update(text=Text(f"{self._stage}, {time.monotonic() - self._stage_began_s:.0f} s"))
        return Group(*([FlowTable(self._flows)] if self._flows else []), self._spinner)


_STYLES: Final = {RUNNING: "cyan", COMPLETED: "green", FAILED: "red", "skipped": "yellow"}
_HEADINGS: Final = ("flow", "topics", "state", "rows in", "rows out", "lag")
_WIDTHS: Final = (4, 6, len(COMPLETED), 9, 9, 7)
"""At least, so that columns stay where they are while counts grow."""
_GAP: Final = "  "
_NAMES: Final = 2
"""The columns that give way on a narrow terminal, and are aligned to the left."""


class FlowTable:
    """One line for each flow on any terminal: names are cut where there is no room, numbers never. Then problems.

    One of them is `told` elsewhere: that of the first flow that failed is the error in which the run ends.
    """

    def __init__(self, flows: list[Flow], told: Flow | None = None) -> None:
        self._flows = flows
        self._told = told

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        rows = [_cells(flow) for flow in self._flows]
        widths = fitting_widths(rows, options.max_width)
        yield Text(_line(_HEADINGS, widths), style="bold", no_wrap=True)
        yield Text("─" * len(_line(_HEADINGS, widths)), style="dim", no_wrap=True)
        state = sum(widths[:_NAMES]) + len(_GAP) * _NAMES
        for flow, cells in zip(self._flows, rows):
            line = Text(_line(cells, widths), no_wrap=True)
            line.stylize(_STYLES.get(flow.state, ""), state, state + widths[_NAMES])
            yield line
        for flow in self._flows:
            if flow.problem and flow is not self._told:
                yield Text(f"{flow.name}: {flow.problem}", style="red" if flow.state == FAILED else "yellow")


def fitting_widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Of each column. What is too much is taken from the longer of the two columns of names."""
    widths = [max(least, *map(len, column)) for least, *column in zip(_WIDTHS, *([_HEADINGS, *rows]))]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0 and max(widths[:_NAMES]) > max(_WIDTHS[:_NAMES]):
        widths[widths.index(max(widths[:_NAMES]))] -= 1
        excess -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    names = [_cut(cell, width).ljust(width) for cell, width in zip(cells[: _NAMES + 1], widths)]
    counts = [cell.rjust(width) for cell, width in zip(cells[_NAMES + 1 :], widths[_NAMES + 1 :])]
    return _GAP.join([*names, *counts])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _cells(flow: Flow) -> tuple[str, ...]:
    counts = ("-" if value is None else f"{value:,}" for value in (flow.rows_read, flow.rows_written, flow.lag))
    return flow.name, route(flow), flow.state, *counts


def last_line(state: str, seconds: float, remark: str = "") -> str:
    said = f"{state} after {seconds:.0f} s"
    return f"{said}; {remark}" if remark else said


def describe(flow: Flow) -> str:
    """State and counts, without those that Spark does not tell."""
    counts = [
        f"{value:,} {'row' if value == 1 else 'rows'} {way}"
        for value, way in ((flow.rows_read, "in"), (flow.rows_written, "out"))
        if value is not None
    ]
    lag = [] if flow.lag is None else [f"lag {flow.lag:,}"]
    problem = [flow.problem] if flow.problem else []
    return ", ".join([flow.state, *counts, *lag, *problem])


def route(flow: Flow) -> str:
    """The topics at both ends. A table is named where it is not called like its flow."""
    left = ", ".join(flow.reads)
    right = flow.writes or ("" if flow.target in ("", flow.name) else f"table {flow.target}")
    return f"{left} → {right}".strip() if left or right else ""


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
