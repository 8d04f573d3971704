"""`bifrost settings`, `bifrost apis` and the front page of the command."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import bifrost
from bifrost.cli.main import app
from bifrost.settings import parse_properties, parse_settings


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, list(arguments))


def test_settings_are_listed_in_the_form_of_a_properties_file() -> None:
    result = run("settings")
    assert result.exit_code == 0
    lines = [line for line in result.output.splitlines() if not line.startswith(" ")]
    assert "num.partitions=1" in lines
    given = {name: text for name, text in parse_properties("\n".join(lines)).items() if text}
    parse_settings(given)


def test_settings_are_found_by_a_part_of_their_name() -> None:
    found = json.loads(run("settings", "connections.max", "--json").output)
    assert [row["name"] for row in found] == ["connections.max.idle.ms"]
    assert found[0]["default"] == "600000"
    assert found[0]["doc"]


def test_a_part_that_no_setting_has_is_told() -> None:
    result = run("settings", "zookeeper.teapot")
    assert result.exit_code == 1
    assert "no setting has 'zookeeper.teapot' in its name" in result.output


def test_no_name_is_cut_at_80_columns() -> None:
    assert "…" not in run("settings").output + run("apis").output
    assert max(map(len, run("apis").output.splitlines())) <= 80


def test_apis_are_listed_with_versions_and_place() -> None:
    output = run("apis").output
    assert "  0  PRODUCE                    0-13      broker/handlers/produce.py" in output
    assert "KIP-227" not in output
    assert "KIP-227" in run("apis", "--notes").output


def test_apis_are_listed_for_scripts() -> None:
    rows = {row["name"]: row for row in json.loads(run("apis", "--json").output)}
    assert rows["FETCH"]["versions"] == "4-18"
    assert "KIP-227" in rows["FETCH"]["notes"]


@pytest.mark.parametrize(
    "command", [[], ["up"], ["server"], ["log"], ["log", "dump"], ["apis"], ["settings"]], ids=" ".join
)
def test_every_command_explains_itself(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_the_version_is_told() -> None:
    assert run("--version").output == f"bifrost {bifrost.__version__}\n"


def test_an_unknown_command_is_refused() -> None:
    assert run("teapot").exit_code == 2
