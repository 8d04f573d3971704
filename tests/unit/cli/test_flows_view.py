"""How a run of a pipeline looks on a terminal, in a pipe and to scripts."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from bifrost.cli.data.flows import JsonFlows, LineFlows, LiveFlows
from bifrost.pipeline.flows import Flow


def flows() -> list[Flow]:
    return [
        Flow("readings", "readings", reads=("readings",), state="completed", rows_read=12_000, lag=3),
        Flow("hot_readings", "hot", writes="hot-readings", state="running", rows_read=5, rows_written=0),
        Flow("sensors", "sensors"),
    ]


def shown(view: LiveFlows) -> list[str]:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(view.render())
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_table_of_flows() -> None:
    view = LiveFlows()
    view.stage("running")
    view.changed(flows())
    lines = shown(view)
    assert "readings topic readings table readings completed 12,000 3" in lines
    assert "hot_readings tables topic hot-readings running 5 0" in lines
    assert "sensors tables table sensors waiting" in lines
    assert lines[-1].endswith("running")
    assert lines[-1] != "running", "nothing moves while it runs"
    view.end("completed", 41.2)
    assert shown(view)[-1] == "completed after 41 s"


def test_lines_tell_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = LineFlows()
    view.changed(flows())
    view.changed(flows())
    changed = flows()
    changed[1].rows_written = 2
    view.changed(changed)
    assert capsys.readouterr().out.splitlines() == [
        "readings: completed, 12,000 rows in, lag 3",
        "hot_readings: running, 5 rows in, 0 rows out",
        "hot_readings: running, 5 rows in, 2 rows out",
    ]


def test_scripts_get_one_object_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonFlows()
    view.stage("starting")
    view.changed(flows()[:1])
    view.changed(flows()[:1])
    view.end("stopped; the next run goes on", 1.25)
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "flow": "readings",
        "state": "completed",
        "reads": ["readings"],
        "writes": None,
        "rows_read": 12_000,
        "rows_written": None,
        "batches": 0,
        "lag": 3,
        "problem": "",
    }
    assert last == {"state": "stopped", "seconds": 1.2}
