"""Whether a broker that holds nothing is stopped: what was typed, who is asked, and whose broker it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from bifrost.cli import broker_leaving
from bifrost.client.descriptions import BrokerDescription
from bifrost.client.wire.client import WireClient
from bifrost.realm import record
from bifrost.realm.record import ClusterRecord, NodeRecord

SUPERVISOR = 4711
HERE = NodeRecord(2, "heimdall-2", ("broker",), "127.0.0.1:9094", 4713, "running", 0)


class Known:
    """A cluster with one broker that runs, at this address."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def replicas(self) -> None:
        """What moves them is not asked here."""

    def brokers(self) -> list[BrokerDescription]:
        return [
            BrokerDescription(
                id=2, host="127.0.0.1", port=self.port, rack=None, fenced=False, leaders=0, replicas=0, controller=False
            )
        ]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `bifrost up` runs broker 2."""
    record.write(tmp_path, ClusterRecord("127.0.0.1:9094", None, SUPERVISOR, (HERE,)))
    monkeypatch.setattr(record, "supervisor", lambda _: SUPERVISOR)
    return tmp_path


def stopped(port: int, data: Path, *, stop: bool | None = None, as_json: bool = False) -> bool:
    return broker_leaving.stopped(cast("WireClient", Known(port)), 2, data, stop=stop, as_json=as_json)


def test_a_broker_of_this_machine_is_stopped_without_a_word(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(broker_leaving, "_stop_here", lambda _admin, _broker, node, _data: told.append(node.name))
    assert stopped(9094, data)
    assert stopped(9094, data, as_json=True)
    assert told == ["heimdall-2"] * 2


def test_one_that_is_to_be_kept_is_not(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not stopped(9094, data, stop=False)
    assert "`bifrost broker decommission 2` stops it" in capsys.readouterr().out


def test_a_script_is_told_what_to_do_about_one_elsewhere(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not stopped(1, data)
    assert "with --stop it waits for that" in capsys.readouterr().out
    assert not stopped(1, data, as_json=True)
    assert capsys.readouterr().out == ""


def test_the_same_id_in_another_cluster_is_not_the_one_that_runs_here(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not stopped(19094, data, stop=False)
    assert "stop it at 127.0.0.1:19094, then give" in capsys.readouterr().out


def test_a_node_that_is_its_own_supervisor_is_not_told_to_stop_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = NodeRecord(2, "node-2", ("broker", "controller"), "127.0.0.1:9094", os.getpid(), "running", 0)
    record.write(tmp_path, ClusterRecord("127.0.0.1:9094", None, os.getpid(), (alone,)))
    monkeypatch.setattr(record, "supervisor", lambda _: os.getpid())
    assert not stopped(9094, tmp_path, stop=False)
    assert "stop it at 127.0.0.1:9094" in capsys.readouterr().out


def test_people_are_asked_about_one_elsewhere(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(broker_leaving, "is_watched", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text))
    assert not stopped(1, data)
    assert "Wait until it is stopped" in asked[0]
