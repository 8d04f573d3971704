"""`bifrost up` and `bifrost server` as real processes: what they print, keep, refuse, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from tests.compat.oracle import free_port
from tests.integration.command import Command, run
from tests.integration.conftest import create_topic
from tests.integration.wire import Wire, batch

READY = re.compile(r"ready bootstrap=127\.0\.0\.1:[0-9]+\n")
READY_WITH_HTTP = re.compile(r"ready bootstrap=127\.0\.0\.1:[0-9]+ http=http://127\.0\.0\.1:[0-9]+\n")


def up(data: Path, *options: str) -> Command:
    """A single node, in the process of the command itself; `test_up.py` has several."""
    return Command("up", "--brokers", "1", "--port", "0", "--data", data, *options)


def test_up_prints_one_line_keeps_its_description_and_ends_well(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data) as command:
        assert READY_WITH_HTTP.fullmatch(command.line)
        description = json.loads((data / "cluster.json").read_text())
        (node,) = description["nodes"]
        assert (description["bootstrap"], description["supervisor"]) == (command.bootstrap, command.process.pid)
        assert (node["id"], node["roles"], node["state"]) == (0, ["broker", "controller"], "running")
        assert (node["address"], node["pid"]) == (command.bootstrap, command.process.pid)
        with Wire(command.bootstrap) as wire:
            create_topic(wire, "t")
            assert wire.produce("t", batch(b"x")).error_code == 0
        code, out, err = command.end(signal.SIGINT)
    assert (code, out) == (0, ""), "stdout carries the ready line and nothing else"
    assert "Traceback" not in err
    assert "node stopped id=0 clean=True" in err
    assert not (data / "cluster.json").exists()
    assert (data / "node-0" / "t-0").is_dir()


def test_a_second_up_on_the_same_data_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    with up(tmp_path) as command:
        before = (tmp_path / "cluster.json").read_text()
        second = run("up", "--brokers", "1", "--port", "0", "--data", tmp_path)
        assert (second.returncode, second.stdout) == (1, "")
        error, hint = second.stderr.splitlines()
        assert error == f"error: a cluster runs on {tmp_path} already (process {command.process.pid})"
        assert f"`bifrost down --data {tmp_path}`" in hint
        assert (tmp_path / "cluster.json").read_text() == before
        with Wire(command.bootstrap) as wire:
            create_topic(wire, "t")
        assert command.end(signal.SIGTERM)[0] == 0


def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("up", "--brokers", "1", "--port", str(port), "--data", tmp_path / "data")
    assert (result.returncode, result.stdout) == (1, "")
    sentence = f"error: 127.0.0.1:{port} (node-0) is taken by another program"
    assert result.stderr.splitlines()[-2] == sentence
    assert not (tmp_path / "data" / "cluster.json").exists()


def test_ephemeral_data_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Command("up", "--brokers", "1", "--port", "0", "--ephemeral", cwd=tmp_path) as command:
        assert [path.name.startswith("bifrost-") for path in tmp_path.iterdir()] == [True]
        with Wire(command.bootstrap) as wire:
            create_topic(wire, "t")
        assert command.end(signal.SIGTERM)[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_server_reads_a_properties_file_as_kafka_wrote_it(tmp_path: Path) -> None:
    config, port = tmp_path / "server.properties", free_port()
    config.write_text(
        "# The role of this server. Setting this puts us in KRaft mode\n"
        "process.roles=broker,controller\n"
        "node.id = 5\n"
        f"controller.quorum.bootstrap.servers=localhost:{port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://localhost:{port}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        "num.network.threads=3\n"
        f"log.dirs={tmp_path / 'logs'}\n"
        "num.partitions=2\n"
        "log.retention.hours=\\\n   168\n",
        encoding="utf-8",
    )
    with Command("server", "--config", config, "--set", "num.partitions=4") as command:
        assert READY.fullmatch(command.line)
        with Wire(command.bootstrap) as wire:
            create_topic(wire, "t", partitions=-1)
            assert [wire.produce("t", batch(b"x"), partition=index).error_code for index in range(5)] == [0, 0, 0, 0, 3]
        code, out, err = command.end(signal.SIGTERM)
    assert (code, out) == (0, "")
    assert "note: num.network.threads: known to Kafka, but of no use here; it is ignored" in err
    assert "node.id=5" in (tmp_path / "logs" / "meta.properties").read_text()


REFUSED = {
    "a misspelt setting": (
        ["up", "--set", "num.partition=3"],
        "error: unknown setting num.partition; did you mean num.partitions?",
    ),
    "a setting without a value": (["server", "--set", "num.partitions"], "error: --set takes NAME=VALUE"),
    "a value that makes no sense": (["up", "--set", "num.partitions=many"], "error: num.partitions=many: "),
    "more brokers than there can be": (["up", "--brokers", "300"], "error: at most 100 brokers on one machine"),
    "a file that is not there": (["server", "--config", "nowhere"], "error: cannot read nowhere: No such file"),
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_makes_no_sense_is_refused_with_a_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(sentence)
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "bad.properties").write_text("num.partitions=0\nlog.dirz=/x\n")
    result = run("server", "--config", tmp_path / "bad.properties")
    assert result.returncode == 2
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["error", "error"]


def test_a_directory_of_another_node_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with up(tmp_path) as command:
        assert command.end(signal.SIGTERM)[0] == 0
    result = run("server", "--set", f"log.dirs={tmp_path / 'node-0'}", "--set", "listeners=PLAINTEXT://127.0.0.1:0")
    assert result.returncode == 1
    assert "node.id is 0, this node's is 1" in result.stderr.splitlines()[-1]


def test_assertions_must_not_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    result = run("up", "--brokers", "1", "--port", "0", "--data", tmp_path / "data")
    assert result.returncode == 2
    assert "run Python without -O" in result.stderr


def test_a_stop_that_comes_at_once_is_a_clean_one(tmp_path: Path) -> None:
    """Ctrl-C the moment the line appears, and again while it stops."""
    with up(tmp_path) as command:
        os.kill(command.process.pid, signal.SIGINT)
        code, _, err = command.end(signal.SIGINT)
    assert code == 0
    assert "Traceback" not in err


def test_log_dump_reads_the_files_of_a_running_node(tmp_path: Path) -> None:
    with up(tmp_path) as command, Wire(command.bootstrap) as wire:
        create_topic(wire, "t")
        wire.produce("t", batch(b"hello", b"world"))
        result = run("log", "dump", tmp_path / "node-0" / "t-0", "--records", "--json")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.returncode == 0
        assert [row["value"] for row in rows if row["kind"] == "record"] == ["hello", "world"]


def test_nothing_is_left_in_the_systems_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bifrost.testing import Cluster

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Cluster() as cluster:
        assert cluster.data_dir.parent == tmp_path
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t")
    assert list(tmp_path.iterdir()) == []
