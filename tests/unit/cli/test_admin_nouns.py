"""The nouns that work with a cluster, as far as they can be judged without one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_group
from typer.testing import CliRunner, Result

from bifrost.cli import cluster as cluster_noun
from bifrost.cli.data.times import TimeError
from bifrost.cli.group_reset import parse_iso_or_short, parse_places, read_csv
from bifrost.cli.lazy import LazyGroup
from bifrost.cli.main import app
from bifrost.client.descriptions import Broker, Health
from bifrost.types import TopicPartition

NOUNS = ("topic", "group", "config", "cluster", "broker", "quorum")


def run(*arguments: str, **settings: Any) -> Result:
    return CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, list(arguments), **settings)


def commands() -> Iterator[tuple[str, str]]:
    root = get_group(app)
    assert isinstance(root, LazyGroup)
    for noun in NOUNS:
        loaded = root.load(noun)
        assert isinstance(loaded, TyperGroup)
        for verb in loaded.commands:
            yield noun, verb


@pytest.mark.parametrize(("noun", "verb"), list(commands()))
def test_help_teaches_with_an_example_and_fits(noun: str, verb: str) -> None:
    result = run(noun, verb, "--help")
    assert result.exit_code == 0
    assert f"$ bifrost {noun} {verb}" in result.output
    for option in ("--json", "--bootstrap", "-b", "--cluster", "-c", "--timeout"):
        assert option in result.output
    assert "…" not in result.output
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["topic", "create", "a", "--config", "retention.ms"], "--config takes NAME=VALUE"),
        (["topic", "alter", "a"], "nothing to alter"),
        (["topic", "add-partitions", "a"], "how many partitions?"),
        (["topic", "add-partitions", "a", "-p", "3", "-n", "1"], "how many partitions?"),
        (["config", "get"], "whose settings?"),
        (["config", "set", "a=1", "--topic", "t", "--broker", "1"], "whose settings?"),
        (["config", "set", "a", "--topic", "t"], "config set takes NAME=VALUE"),
        (["config", "unset", "a"], "whose settings?"),
        (["group", "reset", "g", "--all-topics"], "where to?"),
        (["group", "reset", "g", "--to-latest"], "which topics?"),
        (["group", "reset", "g", "--to-latest", "--all-topics", "-t", "a"], "which topics?"),
        (["group", "reset", "g", "--all-topics", "--to-latest", "--to-earliest"], "--to-earliest and --to-latest"),
        (["group", "reset", "g", "--all-topics", "--to-latest", "--execute", "--dry-run"], "--dry-run contradict"),
        (["group", "reset", "g", "--all-topics", "--by-duration", "soon"], "'soon' is not a duration"),
        (["group", "reset", "g", "--all-topics", "--to-datetime", "soon"], "'soon' is not a moment"),
        (["group", "reset", "g", "--from-file", "nothing.csv", "--execute"], "cannot read nothing.csv: No such file"),
        (["topic", "list", "-b", "no port:x"], "'no port:x' is not an address"),
        (["topic", "list", "-b", "a:1", "-c", "prod"], "both an address and the name of a cluster"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_told_before_anybody_is_asked(arguments: list[str], told: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert told in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["topic", "list"], ["group", "list"], ["cluster", "health"], ["topic", "create", "a", "--json"]],
    ids=str,
)
def test_a_wrong_address_ends_in_one_line_and_a_hint(arguments: list[str]) -> None:
    result = run(*arguments, "-b", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: no broker answers at 127.0.0.1:1 (connection refused)\n"
        "hint: Is it running, and is the address right? `bifrost up` starts one here.\n"
    )


def test_a_person_is_asked_before_a_topic_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(question: str, **_: object) -> bool:
        assert question == "Delete a, b at 127.0.0.1:1 with all messages?"
        raise typer.Abort

    monkeypatch.setattr("bifrost.cli.output.is_watched", lambda: True)
    monkeypatch.setattr("typer.confirm", refuse)
    result = run("topic", "delete", "a", "b", "-b", "127.0.0.1:1")
    assert result.exit_code == 1
    assert "no broker answers" not in result.output
    assert "no broker answers" in run("topic", "delete", "a", "b", "-b", "127.0.0.1:1", "--yes").output


def test_an_unhealthy_cluster_ends_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Health(
        brokers=(Broker(1, "a", 9092, None),),
        controller=1,
        partitions=40,
        leaderless=(TopicPartition("orders", 3),),
        under_replicated=tuple(TopicPartition("orders", partition) for partition in range(30)),
        offline_brokers=(2, 3),
    )

    class Unhealthy:
        def __enter__(self) -> Unhealthy:
            return self

        def __exit__(self, *_: object) -> None: ...

        def health(self) -> Health:
            return broken

    monkeypatch.setattr(cluster_noun, "connect", lambda *_: Unhealthy())
    result = run("cluster", "health")
    assert result.exit_code == 1
    assert result.stdout.startswith("unhealthy  1 broker, 40 partitions\nbrokers that are not there: 2, 3\n")
    assert "partitions without a leader: orders:3\n" in result.stdout
    assert "orders:19 and 10 more\n" in result.stdout
    scripted = run("cluster", "health", "--json")
    assert scripted.exit_code == 1
    assert '"healthy": false' in scripted.stdout


def test_places_are_topics_with_or_without_partitions() -> None:
    assert parse_places(["a", "b:0,2", "b:1"]) == {"a": None, "b": [0, 2, 1]}
    assert parse_places(["a:1", "a"]) == {"a": None}
    for wrong in ("a:", "a:x", ":1", "a:1,", "a:-1"):
        with pytest.raises(typer.Exit):
            parse_places([wrong])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H30M", timedelta(hours=1.5)),
        ("P1D", timedelta(days=1)),
        ("P2DT3S", timedelta(days=2, seconds=3)),
        ("pt0.5s", timedelta(seconds=0.5)),
        ("1h30m", timedelta(hours=1.5)),
        ("7d", timedelta(days=7)),
    ],
)
def test_durations_are_written_as_in_kafkas_tool_or_short(text: str, expected: timedelta) -> None:
    assert parse_iso_or_short(text) == expected


@pytest.mark.parametrize("text", ["P", "PT", "10", "P1Y", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(TimeError):
        parse_iso_or_short(text)


def test_offsets_are_read_from_kafkas_csv(tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text('orders,0,12\n\n"orders", 1 ,7\n')
    assert read_csv(path, "g") == {TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 7}
    path.write_text("g,orders,0,12\nother,orders,0,99\n")
    assert read_csv(path, "g") == {TopicPartition("orders", 0): 12}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("orders,0,1\norders,zero,1\n", "line 2: 'orders,zero,1' is not topic,partition,offset"),
        ("orders,0\n", "line 1: 'orders,0' is not topic,partition,offset"),
        ("orders,0,-1\n", "line 1: "),
        ("other,orders,0,1\n", "has no line for group g"),
        ("", "has no line for group g"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text(text)
    with pytest.raises(typer.Exit):
        read_csv(path, "g")
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("timeout", ["2", "2s", "2000ms"])
def test_the_timeout_takes_units(timeout: str) -> None:
    result = run("topic", "list", "--bootstrap", "127.0.0.1:1", "--timeout", timeout)
    assert (result.exit_code, "no broker answers at 127.0.0.1:1" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("topic create", "no topic was named"),
        ("topic delete", "no topic was named"),
        ("topic alter -p 3", "no topic was named"),
        ("topic alter a --topic b -p 3", "one topic at a time, not a and b"),
        ("topic create a -c x --command-config y", "--cluster and --command-config contradict each other"),
        ("topic create a --command-config nowhere.properties", "nowhere.properties cannot be read"),
        ("consume", "no topic was named"),
        ("produce", "no topic was named"),
    ],
)
def test_which_topic_and_which_cluster(typed: str, told: str) -> None:
    result = run(*typed.split())
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
