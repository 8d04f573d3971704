"""`bifrost broker add` and `decommission` as people type them: real processes join, are watched over, and leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bifrost.testing import Cluster
from tests.integration.command import Command, environment, run
from tests.integration.test_up import lives, nodes
from tests.waiting import eventually

UP = ("--brokers", "2", "--odins", "1", "--port", "0", "--set", "num.partitions=7")


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A directory in which nothing runs any more when the test is over."""
    folder = tmp_path / "data"
    yield folder
    run("down", "--data", folder, "--timeout", "20")


def ask(*command: str | Path) -> Any:
    done = run(*command, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def settings(bootstrap: str, broker: int) -> dict[str, str]:
    (described,) = ask("broker", "describe", str(broker), "--bootstrap", bootstrap)
    return {"rack": described["rack"], **described["config"]}


def test_a_broker_that_joins_is_one_of_the_clusters_nodes(data: Path) -> None:
    with Command("up", "--data", data, *UP) as up:
        added = ask("broker", "add", "--detach", "--data", data, "--rack", "b", "--set", "log.retention.hours=5")
        assert added["id"] == 2
        assert added["data"] == str(data / "heimdall-2")
        there = nodes(data)["heimdall-2"]
        assert (there["pid"], there["address"], there["state"]) == (added["pid"], added["address"], "running")
        told = settings(up.bootstrap, 2)
        assert told["rack"] == "b"
        assert told["num.partitions"] == "7", "what all nodes were given"
        assert told["log.retention.hours"] == "5"
        status = ask("status", "--data", data)
        assert [(each["name"], each["alive"], each["fenced"]) for each in status["nodes"]][-1] == (
            "heimdall-2",
            True,
            False,
        )
        os.kill(added["pid"], signal.SIGKILL)
        eventually(lambda: nodes(data)["heimdall-2"]["restarts"] == 1, "it is started again")
        eventually(lambda: nodes(data)["heimdall-2"]["state"] == "running", "it is back")
        assert nodes(data)["heimdall-2"]["address"] == added["address"]
        pid = nodes(data)["heimdall-2"]["pid"]
        code, _, err = up.end(signal.SIGTERM)
        assert code == 0, err
        assert "heimdall-2 | stopped" in err
        assert not lives(pid)
    again = run("up", "--detach", "--data", data, *UP)
    assert again.returncode == 0, again.stderr
    log = (data / "logs" / "up.log").read_text()
    assert "heimdall-2 of before: not started, and what only they hold cannot be read" in log
    grown = ask("broker", "add", "--detach", "--data", data, "--id", "2")
    assert grown["id"] == 2, "it is one of ours that was stopped"
    stopped = run("down", "--data", data).stdout.splitlines()
    assert sorted(stopped[:3]) == ["heimdall-0 stopped", "heimdall-1 stopped", "heimdall-2 stopped"]


def test_in_the_foreground_ctrl_c_stops_it_and_the_cluster_goes_on(data: Path) -> None:
    with Command("up", "--data", data, *UP) as up:
        with Command("broker", "add", "--data", data) as guest:
            assert guest.line.startswith("ready broker=2 address=127.0.0.1:")
            pid = int(guest.told["pid"])
            assert nodes(data)["heimdall-2"]["pid"] == pid
            code, _, err = guest.end(signal.SIGINT)
        assert code == 0, err
        assert "heimdall-2" not in nodes(data)
        assert not lives(pid)
        assert ask("status", "--data", data)["running"]
        found = ask("broker", "list", "--bootstrap", up.bootstrap)
        assert [each["id"] for each in found if not each["fenced"]] == [0, 1]


def test_a_broker_that_cannot_start_says_why_and_is_not_kept(data: Path) -> None:
    with Command("up", "--data", data, *UP):
        for options, problem in (
            (["--set", "num.partition=1"], "unknown setting num.partition; did you mean num.partitions?"),
            (["--id", "1"], "there is a node 1 already"),
            (["--id", "100"], "there is a node 100 already"),
            (["--set", "node.id=7"], "--set node.id: --id says which it is"),
        ):
            refused = run("broker", "add", "--detach", "--data", data, *options)
            assert refused.returncode != 0
            assert problem in refused.stderr
        assert list(nodes(data)) == ["odin-100", "heimdall-0", "heimdall-1"]
        assert list((data / "wishes").iterdir()) == []
        assert run("status", "--data", data).returncode == 0


def test_where_nothing_runs_nobody_joins(data: Path) -> None:
    refused = run("broker", "add", "--data", data)
    assert refused.returncode == 1
    assert f"no cluster runs on {data}" in refused.stderr


@pytest.mark.parametrize("detach", [True, False])
def test_a_broker_joins_a_cluster_that_runs_elsewhere(data: Path, *, detach: bool) -> None:
    with Cluster(brokers=1, odins=1, processes=True) as cluster:
        (odin,) = cluster.odins
        elsewhere = ["--controllers", f"100@{odin.address}", "--bootstrap", cluster.bootstrap]
        command = ["broker", "add", "--data", str(data), *elsewhere, "--id", "7", "--rack", "c"]
        if detach:
            pid = ask(*command, "--detach")["pid"]
        else:
            guest = Command(*command).__enter__()
            pid = guest.process.pid
        assert settings(cluster.bootstrap, 7)["rack"] == "c"
        (there,) = ask("status", "--data", data)["nodes"]
        assert (there["name"], there["pid"], there["fenced"]) == ("heimdall-7", pid, False)
        second = run("broker", "add", "--data", data, *elsewhere, "--detach")
        assert second.returncode == 1
        assert f"a cluster runs on {data} already (process {pid})" in second.stderr
        stopped = run("down", "--data", data)
        assert stopped.stdout.splitlines()[0] == "heimdall-7 stopped", stopped.stderr
        eventually(lambda: not lives(pid), "it lets go of its data a moment before it ends")
        if not detach:
            assert guest.end()[0] == 0


def test_a_broker_of_this_machine_is_emptied_stopped_and_forgotten(data: Path) -> None:
    with Command("up", "--data", data, *UP) as up:
        there = ["--bootstrap", up.bootstrap]
        ask("broker", "add", "--detach", "--data", data)
        assert run("topic", "create", "t", "-p", "6", "--replication-factor", "1", *there).returncode == 0
        leaving = ["broker", "decommission", "2", "--data", str(data), *there]
        emptied = run(*leaving, "--keep-running")
        assert emptied.returncode == 0, emptied.stderr
        assert "broker 2 holds nothing: `bifrost broker decommission 2` stops it" in emptied.stdout
        assert ask(*leaving, "--keep-running") | {"partitions": []} == {
            "version": 1, "partitions": [], "finished": True, "stopped": False, "unregistered": False,
        }  # fmt: skip
        pid = nodes(data)["heimdall-2"]["pid"]
        told = ask(*leaving)
        assert (told["finished"], told["stopped"], told["unregistered"]) == (True, True, True)
        assert not lives(pid)
        own = nodes(data)["heimdall-1"]["pid"]
        last = run("broker", "decommission", "1", "--data", data, *there)
        assert last.stdout.splitlines()[-1] == "broker 1 holds nothing and is stopped: it is off the list", last.stderr
        assert not lives(own)
        assert list(nodes(data)) == ["odin-100", "heimdall-0"], "nobody starts them again"
        assert [each["id"] for each in ask("broker", "list", *there)] == [0]
        assert [each["replicas"] for each in ask("topic", "describe", "t", *there)[0]["partitions"]] == [[0]] * 6


def test_a_broker_elsewhere_is_waited_for_until_somebody_stops_it(tmp_path: Path) -> None:
    with Cluster(brokers=2, odins=1, processes=True) as cluster:
        command = ["broker", "decommission", "1", "--stop", "--bootstrap", cluster.bootstrap, "--data", str(tmp_path)]
        with subprocess.Popen(
            [sys.executable, "-m", "bifrost", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as process:
            assert process.stderr is not None
            address = cluster.brokers[1].address
            assert process.stderr.readline().startswith(f"HOGO LO: waiting until broker 1 at {address} is stopped")
            cluster.stop(1)
            out, err = process.communicate(timeout=30)
        assert out.splitlines()[-1] == "broker 1 holds nothing and is stopped: it is off the list", err
        assert [each["id"] for each in ask("broker", "list", "--bootstrap", cluster.bootstrap)] == [0]
