"""`bifrost quota`, against Bifrost and Apache Kafka alike. The names are the test's own: nobody else is limited."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bifrost.cli.main import app
from tests.compat.conftest import unique_name
from tests.compat.servers import Server
from tests.waiting import eventually

Run = Callable[..., Result]


@pytest.fixture
def attempt(broker: Server, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("BIFROST_BOOTSTRAP", broker.bootstrap)
    return lambda *arguments: CliRunner().invoke(app, ["quota", *arguments])


@pytest.fixture
def run(attempt: Run) -> Run:
    def checked(*arguments: str) -> Result:
        result = attempt(*arguments)
        assert result.exit_code == 0, result.output
        return result

    return checked


@pytest.fixture
def listed(run: Run) -> Callable[..., Any]:
    return lambda *arguments: json.loads(run("list", *arguments, "--json").stdout)


def test_a_limit_is_set_seen_and_taken_away(run: Run, listed: Callable[..., Any]) -> None:
    name = unique_name("client")
    run("set", "producer_byte_rate=1048576", "request_percentage=12.5", "--client-id", name)
    limits = {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}
    # Kafka's broker hears a moment later of what its controller has decided.
    eventually(lambda: listed("--client-id", name) == [{"entity": {"client-id": name}, "limits": limits}])
    table = run("list", "--client-id", name).stdout
    assert all(word in table for word in (f"client-id {name}", "producer_byte_rate", "1048576", "12.5"))
    run("delete", "request_percentage", "--client-id", name)
    eventually(lambda: [one["limits"] for one in listed("--client-id", name)] == [{"producer_byte_rate": 1048576.0}])
    run("delete", "--client-id", name)
    eventually(lambda: listed("--client-id", name) == [])


def test_a_user_and_the_default_of_its_clients(run: Run, listed: Callable[..., Any]) -> None:
    name = unique_name("user")
    run("set", "consumer_byte_rate=1e15", "--user", name, "--default", "client-id")
    entity = {"user": name, "client-id": None}
    eventually(lambda: [one["entity"] for one in listed("--user", name)] == [entity])
    assert listed("--user", name, "--strict") == []
    assert f"user {name}, client-id <default>" in run("list", "--user", name).stdout
    run("delete", "--user", name, "--default", "client-id")
    eventually(lambda: listed("--user", name) == [])


def test_what_is_only_tried_is_not_set(run: Run, listed: Callable[..., Any]) -> None:
    name = unique_name("client")
    assert "not set" in run("set", "producer_byte_rate=5", "--client-id", name, "--dry-run").stdout
    assert listed("--client-id", name) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "producer_byte_rate=1"), "whose limits"),
        (("set", "producer_byte_rate=much", "--client-id", "c"), "takes a number"),
        (("set", "producer_byte_rate", "--client-id", "c"), "NAME=VALUE"),
        (("set", "producer_byte_rate=1", "--default", "group"), "--default takes"),
        (("set", "producer_byte_rate=1", "--user", "u", "--default", "user"), "and as the default"),
        (("set", "no_such_rate=1", "--client-id", "c"), "no_such_rate"),
        (("set", "producer_byte_rate=-1", "--client-id", "c"), "greater than 0"),
        (("delete", "--client-id", "nobody-has-this-name"), "has no limit"),
    ],
)
def test_what_makes_no_sense_is_refused(attempt: Run, arguments: tuple[str, ...], words: str) -> None:
    result = attempt(*arguments)
    assert result.exit_code != 0
    assert words in result.output or words in str(result.exception)
