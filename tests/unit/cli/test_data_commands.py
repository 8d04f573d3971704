"""What the data commands say of themselves, and what they refuse before they ask any cluster."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from bifrost.cli.main import app


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"}).invoke(app, list(arguments))


@pytest.mark.parametrize(
    "command",
    [
        "produce",
        "consume",
        "console-producer",
        "console-consumer",
        "perf",
        "perf produce",
        "perf consume",
        "perf latency",
    ],
)
def test_every_command_explains_itself_with_examples(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    assert command == "perf" or f"$ bifrost {command} " in result.output


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("produce t --timeout soon", "--timeout: 'soon' is not a duration"),
        ("perf consume t --timeout soon", "--timeout: 'soon' is not a duration"),
        ("topic list --timeout soon", "'--timeout': 'soon' is not a duration"),
        ("produce t --key k --key-separator :", "--key-separator and --key contradict each other"),
        ("produce t --format json --key-separator :", "--key-separator and --format json contradict each other"),
        ("produce t --header =x", "a header is NAME=VALUE"),
        (r"produce t --delimiter \q", "has an unknown escape"),
        ("produce t --set x", "--set takes NAME=VALUE, not 'x'"),
        ("produce t -b nonsense:port", "'nonsense:port' is not an address"),
        ("perf produce t --acks 7", "acks is all, 1 or 0, not '7'"),
        ("perf produce t --producer-props acks=7", "acks is all, 1 or 0, not '7'"),
        ("console-producer --topic t --request-required-acks 7", "acks is all, 1 or 0, not '7'"),
        ("perf produce t --throughput 1 --producer-props x", "--command-property takes NAME=VALUE, not 'x'"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(command: str, problem: str) -> None:
    result = run(*command.split())
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.output


def test_empty_separators_are_refused() -> None:
    assert "--key-separator is empty" in run("produce", "t", "--key-separator", "").stderr
    assert "--delimiter is empty" in run("produce", "t", "--delimiter", "").stderr


def test_a_file_that_is_not_there_is_told() -> None:
    result = run("produce", "t", "--file", "nowhere.txt")
    assert result.exit_code == 2
    assert result.stderr == "error: nowhere.txt cannot be read: No such file or directory\n"
