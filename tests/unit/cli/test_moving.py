"""What the commands that move replicas are told, before they ask a cluster."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from bifrost.cli.main import app
from bifrost.cli.moving import _rate, kafka_json, numbers
from bifrost.types import TopicPartition


@pytest.mark.parametrize(
    ("typed", "rate"),
    [("50MB/s", 50_000_000), ("512KiB/s", 524_288), ("1.5gb", 1_500_000_000), ("1000", 1_000), ("2 MB/s", 2_000_000)],
)
def test_a_rate_is_bytes_a_second(typed: str, rate: int) -> None:
    assert _rate(typed) == rate


@pytest.mark.parametrize("typed", ["fast", "50MB/m", "-1", "0", ""])
def test_what_is_no_rate_is_refused(typed: str) -> None:
    result = CliRunner().invoke(app, ["topic", "reassign", "t", f"--throttle={typed}"])
    assert result.exit_code == 2


def test_brokers_are_numbers() -> None:
    assert numbers("1,2,3") == (1, 2, 3)
    result = CliRunner().invoke(app, ["topic", "reassign", "t", "--partition", "0", "--replicas", "a", "-b", "x:1"])
    assert result.exit_code != 0


def test_a_plan_is_written_as_kafkas_tool_reads_it() -> None:
    assert kafka_json({TopicPartition("t", 1): (2, 3)}) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 1, "replicas": [2, 3]}],
    }


@pytest.mark.parametrize(
    "typed",
    [
        [],
        ["t", "--file", "plan.json"],
        ["t", "--partition", "0"],
        ["t", "--replicas", "1,2"],
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(typed: list[str]) -> None:
    result = CliRunner().invoke(app, ["topic", "reassign", *typed])
    assert result.exit_code == 2, result.output
