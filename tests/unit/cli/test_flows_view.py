"""How a run of a pipeline looks on a terminal, in a pipe and to scripts."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from bifrost.cli.data.flows import JsonFlows, LineFlows, LiveFlows, describe, route
from bifrost.pipeline.flows import Flow


def flows() -> list[Flow]:
    return [
        Flow("readings", "readings", reads=("readings",), state="completed", rows_read=12_000, lag=3),
        Flow("hot_readings", "hot", writes="hot-readings", state="running", rows_read=5, rows_written=0),
        Flow("sensors", "sensors"),
    ]


def shown(view: LiveFlows, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(view.render())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_table_of_flows() -> None:
    view = LiveFlows()
    view.stage("running on local[2]")
    view.changed(flows())
    *table, last = shown(view)
    assert table == [
        "flow          topics          state        rows in   rows out      lag",
        "──────────────────────────────────────────────────────────────────────",
        "readings      readings →      completed     12,000          -        3",
        "hot_readings  → hot-readings  running            5          0        -",
        "sensors                       waiting            -          -        -",
    ]
    assert last.endswith(" running on local[2], 0 s")
    assert not last.startswith("running"), "nothing moves while it runs"
    view.end("completed")
    assert shown(view) == [*table, "completed after 0 s"]


def test_columns_stay_where_they_are_while_counts_grow() -> None:
    view = LiveFlows()
    view.changed(flows())
    before = shown(view)
    grown = flows()
    grown[1].state, grown[1].rows_read, grown[1].lag = "completed", 9_999_999, 999_999
    view.changed(grown)
    assert shown(view)[0] == before[0]


def test_a_narrow_terminal_cuts_names_and_no_numbers() -> None:
    view = LiveFlows()
    long = Flow("temperatures_by_hour_and_room", "rooms", reads=("a-topic-with-a-long-name",), rows_read=12_345_678_901)
    view.changed([*flows(), long])
    lines = shown(view, width=72)
    assert {len(line) for line in lines[:2]} == {72}
    assert max(map(len, lines)) <= 72
    assert lines[5].startswith("temperatur…  a-topic-wit…  waiting    12,345,678,901 ")
    assert len(lines) == 7, "a line for each flow"


def test_problems_are_told_below_the_table_and_the_error_once() -> None:
    view = LiveFlows()
    failed = Flow("alerts", "alerts", state="failed", problem="no such column: `kelvin`")
    view.changed([failed, Flow("speeds", "speeds", state="failed", problem="no room"), *flows()])
    assert shown(view)[-3:-1] == ["alerts: no such column: `kelvin`", "speeds: no room"]
    view.end("failed")
    assert shown(view)[-2:] == ["speeds: no room", "failed after 0 s"], "the first is the error that follows"


def test_where_nothing_ran_the_error_is_the_only_word() -> None:
    view = LiveFlows()
    view.stage("reading the project")
    view.end("failed")
    assert shown(view)[-1].endswith("reading the project, 0 s"), "it is on the screen until the view is left"
    assert view.is_empty


def test_a_valid_pipeline_is_told_by_the_command_alone(capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveFlows()
    view.changed(flows())
    view.end("valid")
    assert view.is_empty
    LineFlows().end("valid")
    assert capsys.readouterr().err == ""


def test_a_table_that_is_not_called_like_its_flow_is_named() -> None:
    assert route(Flow("backfill", "readings", reads=("old", "older"))) == "old, older → table readings"
    assert route(Flow("readings", "readings", reads=("new",))) == "new →"
    assert route(Flow("copy", "sink", reads=("new",), writes="newest")) == "new → newest"
    assert route(Flow("sensors", "sensors")) == ""


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
    view.end("stopped", "the next run goes on")
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
    assert last == {"state": "stopped", "seconds": 0.0}


def test_lines_tell_how_long_it_took(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    view = LineFlows()
    view.stage("starting Spark")
    monkeypatch.setattr(view, "seconds", lambda: 8.4)
    view.stage("loading definitions")
    view.end("stopped", "the next run goes on")
    assert capsys.readouterr().err.splitlines() == [
        "starting Spark ...",
        "loading definitions ... (after 8 s)",
        "stopped after 8 s; the next run goes on",
    ]


def test_one_row_is_a_row() -> None:
    flow = Flow("hot", "hot", state="completed", rows_read=1, rows_written=0, lag=2)
    assert describe(flow) == "completed, 1 row in, 0 rows out, lag 2"
