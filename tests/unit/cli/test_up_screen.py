"""What a person sees of a cluster in the foreground."""

from __future__ import annotations

import io

from rich.console import Console

from bifrost.cli.up_screen import Screen, ready_line
from bifrost.realm.record import ClusterRecord

INFO = "2026-11-17 22:58:22,367 INFO bifrost.broker.node node started id=1"
WARNING = "2026-11-17 22:58:33,001 WARNING bifrost.controller.broker_watch broker fenced id=1 epoch=6"


def shown(*, everything: bool = False, terminal: bool = False, width: int = 80) -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, no_color=True, highlight=False)
    return Screen(["odin-100", "heimdall-0"], everything=everything, console=console), out


def test_news_and_warnings_are_shown_with_aligned_names_and_routine_is_not() -> None:
    screen, out = shown()
    screen.logged("heimdall-0", INFO)
    screen.logged("odin-100", WARNING)
    screen.told("heimdall-0", "is back at 127.0.0.1:9092")
    assert out.getvalue().splitlines() == [
        "odin-100   | 22:58:33 WARNING broker fenced id=1 epoch=6",
        "heimdall-0 | is back at 127.0.0.1:9092",
    ]


def test_a_traceback_belongs_to_the_line_above_it() -> None:
    screen, out = shown()
    screen.logged("heimdall-0", INFO)
    screen.logged("heimdall-0", "  continued, and not shown either")
    screen.logged("odin-100", WARNING)
    screen.logged("odin-100", "Traceback (most recent call last):")
    screen.logged("heimdall-0", "error: it cannot start")
    assert [line.split(" | ")[1] for line in out.getvalue().splitlines()][1:] == [
        "Traceback (most recent call last):",
        "error: it cannot start",
    ]


def test_everything_is_shown_on_request() -> None:
    screen, out = shown(everything=True)
    screen.logged("heimdall-0", INFO)
    assert out.getvalue() == "heimdall-0 | 22:58:22 INFO node started id=1\n"


def test_a_terminal_of_80_columns_gets_whole_words_and_the_name_on_every_line() -> None:
    screen, out = shown(terminal=True)
    screen.told("odin-100", "ended; " + "word " * 30)
    lines = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in out.getvalue().splitlines()]
    assert len(lines) == 3
    assert all(line.startswith("odin-100   | ") and len(line.rstrip()) <= 80 for line in lines)


def test_the_ready_line_has_http_where_somebody_serves_it() -> None:
    assert ready_line(ClusterRecord("a:1,b:2", None, 1, ())) == "ready bootstrap=a:1,b:2"
    assert ready_line(ClusterRecord("a:1", "http://c:3", 1, ())) == "ready bootstrap=a:1 http=http://c:3"
