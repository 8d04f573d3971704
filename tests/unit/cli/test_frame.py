"""The frame of the command line: nouns load late, errors end in a sentence, output suits people and scripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group
from typer.testing import CliRunner

from bifrost.cli import output
from bifrost.cli.failure import exit_code
from bifrost.cli.lazy import LazyGroup, Noun
from bifrost.cli.main import Bifrost, app
from bifrost.client.errors import (
    BifrostError,
    ConfigError,
    DeliveryError,
    InvalidRequestError,
    MessageTooLargeError,
    SerializationError,
    TopicExistsError,
    UnknownTopicError,
    UnreachableError,
    UnsupportedError,
)

SOURCES = Path(__file__).resolve().parents[3] / "src"
FRAME = {"bifrost.cli.entry", "bifrost.cli.main", "bifrost.cli.lazy", "bifrost.cli.failure", "bifrost.cli.front_page"}


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), **variables}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


MODULES = """
import sys
from bifrost.cli.main import app
try:
    app(sys.argv[1:], prog_name="bifrost")
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def modules_of(*arguments: str) -> set[str]:
    """What has been imported when the command ends."""
    return set(python("-c", MODULES, *arguments).stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["teapot"]], ids=" ".join)
def test_the_front_page_imports_no_noun_and_nothing_heavy(arguments: list[str]) -> None:
    imported = modules_of(*arguments)
    assert {name for name in imported if name.startswith("bifrost.cli.")} - FRAME == set()
    heavy = {"asyncio", "msgspec", "confluent_kafka", "bifrost.settings", "bifrost.broker", "rich.live"}
    heavy.add("rich.markdown")  # typer draws an error's box with it
    if arguments != ["--help"]:
        heavy.add("rich.console")
    assert imported & heavy == set()


def test_the_front_page_looks_as_typer_would_draw_it() -> None:
    """One look for all pages; words alone, since typer asks for the terminal's width when it is imported."""
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    drawn = CliRunner().invoke(app, ["--help"], prog_name="bifrost").output
    with (
        CliRunner().isolation() as (printed, *_),
        command.make_context("bifrost", [], resilient_parsing=True) as context,
    ):
        TyperGroup.format_help(command, context, context.make_formatter())
        assert re.findall(r"[^\s─│]+", drawn) == re.findall(r"[^\s─│]+", printed.getvalue().decode())


def test_a_noun_imports_only_itself() -> None:
    imported = modules_of("log", "--help")
    assert "bifrost.cli.log" in imported
    assert "bifrost.cli.up" not in imported


@pytest.mark.parametrize("name", Bifrost.nouns)
def test_the_front_page_says_of_a_noun_what_the_noun_says_of_itself(name: str) -> None:
    root = get_group(app)
    assert isinstance(root, LazyGroup)
    helped = root.load(name).help
    assert helped is not None
    assert helped.partition("\n\n")[0].replace("\n", " ") == Bifrost.nouns[name].summary


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("bifrost se", {"server", "settings"}), ("bifrost log du", {"dump"}), ("bifrost log dump --re", {"--records"})],
)
def test_the_shell_completes_nouns_and_what_belongs_to_them(typed: str, expected: set[str]) -> None:
    completed = python(
        "-m",
        "bifrost",
        _BIFROST_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(typed.count(" ")),
        _TYPER_COMPLETE_ARGS=typed,
    )
    assert set(completed.stdout.split()) == expected


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    """A command of this module stands in for a noun."""
    nouns = {name: Noun(__name__, name, "Fails.", "Tests") for name in ("stop", "reach", "configure")}
    monkeypatch.setattr(Bifrost, "nouns", nouns)
    return Bifrost


def stop() -> None:
    raise KeyboardInterrupt


def reach() -> None:
    raise UnreachableError("no broker answers at teapot:9092", "Is it running?")


def configure() -> None:
    raise ConfigError("no cluster teapot")


@pytest.mark.usefixtures("failing")
def test_ctrl_c_ends_with_one_line_and_the_code_of_the_shell() -> None:
    result = CliRunner().invoke(app, ["stop"])
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted\n"


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("reach", 1, "error: no broker answers at teapot:9092\nhint: Is it running?\n"),
        ("configure", 2, "error: no cluster teapot\n"),
    ],
)
def test_an_error_of_the_api_ends_with_what_happened_and_what_to_do(command: str, code: int, told: str) -> None:
    result = CliRunner().invoke(app, [command])
    assert (result.exit_code, result.stderr) == (code, told)


@pytest.mark.usefixtures("failing")
def test_debug_shows_the_traceback_and_changes_nothing_else() -> None:
    result = CliRunner().invoke(app, ["--debug", "stop"])
    assert result.exit_code == 130
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("\nKeyboardInterrupt\nerror: interrupted\n")


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys

class Interrupts:
    def find_spec(name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts)
runpy.run_module("bifrost", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["bifrost.cli.main", "typer", "typer.core"])
def test_ctrl_c_while_the_command_is_still_importing(module: str) -> None:
    done = python("-c", INTERRUPTED_IMPORT, module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("setting", "no such command 'setting'\nhint: Did you mean 'settings'? `bifrost --help` shows how."),
        ("topic lst", "no such command 'lst'\nhint: Did you mean 'list'? `bifrost topic --help` shows how."),
        ("--deubg topic list", "no such option: --deubg\nhint: Did you mean --debug? `bifrost --help` shows how."),
        (
            "topic list --jsn",
            "no such option: --jsn\nhint: Did you mean --json? `bifrost topic list --help` shows how.",
        ),
        ("group describe", "missing argument 'NAME...'\nhint: `bifrost group describe --help` shows how."),
        ("topic create t -p", "option '-p' requires an argument\nhint: `bifrost topic create --help` shows how."),
        (
            "produce t --format xml",
            """invalid value for '--format': 'xml' is not one of 'text', 'json', 'jsonl', 'hex', 'raw'
hint: `bifrost produce --help` shows how.""",
        ),
    ],
)
def test_a_usage_error_is_one_line_and_a_hint(typed: str, told: str) -> None:
    result = CliRunner().invoke(app, typed.split(), prog_name="bifrost")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {told}\n")


def test_a_noun_alone_shows_its_help() -> None:
    result = CliRunner().invoke(app, ["topic"], prog_name="bifrost")
    assert "Usage: bifrost topic" in result.output
    assert "error:" not in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError, 2),
        (InvalidRequestError, 2),
        (MessageTooLargeError, 1),
        (UnreachableError, 1),
        (UnknownTopicError, 1),
        (TopicExistsError, 1),
        (UnsupportedError, 1),
        (DeliveryError, 1),
        (SerializationError, 1),
        (BifrostError, 1),
    ],
)
def test_the_exit_code_says_whether_it_could_ever_work(error: type[BifrostError], code: int) -> None:
    assert exit_code(error("because")) == code


@dataclass(frozen=True)
class Row:
    name: str
    seen: datetime
    offset: int | None


def printed(function: Any, *arguments: Any, capsys: pytest.CaptureFixture[str]) -> str:
    function(*arguments)
    return capsys.readouterr().out


def test_json_has_the_fields_of_the_dataclass_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("a", datetime(2026, 1, 2, tzinfo=UTC), None)
    text = printed(output.print_json, [row], capsys=capsys)
    assert json.loads(text) == [{"name": "a", "seen": "2026-01-02T00:00:00Z", "offset": None}]
    assert text.index('"name"') < text.index('"seen"') < text.index('"offset"')
    assert printed(output.print_json_line, row, capsys=capsys).count("\n") == 1


def test_a_table_in_a_pipe_is_as_wide_as_it_needs_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    long = "t" * 200
    text = printed(output.print_table, ["topic", "lag"], [[long, 7], ["u", None]], capsys=capsys)
    assert text.splitlines() == [
        f"{'topic':200}  lag",
        f"{long}    7",
        f"{'u':200}    -",
    ]


def test_a_table_without_rows_still_has_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(output.print_table, ["topic", "lag"], [], capsys=capsys) == "topic  lag\n"


def test_a_table_on_a_narrow_terminal_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    name = "".join(chr(ord("a") + n % 26) for n in range(100))
    text = printed(output.print_table, ["topic", "lag"], [[name, 7]], capsys=capsys)
    assert "…" not in text
    assert "".join(line.split(" ")[0] for line in text.splitlines()[2:]) == name


def test_a_script_is_taken_at_its_word_and_a_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    output.confirm("Delete?", yes=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    output.confirm("Delete?", yes=True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: (_ for _ in ()).throw(typer.Abort))
    with pytest.raises(typer.Abort):
        output.confirm("Delete?", yes=False)
