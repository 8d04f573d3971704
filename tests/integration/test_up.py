"""`bifrost up` with several nodes, `status` and `down`, as real processes: what dies, comes back, stays, and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bifrost.realm import record
from tests.integration.command import Command, run
from tests.integration.conftest import create_topic
from tests.integration.wire import Wire, batch
from tests.waiting import eventually

READY = re.compile(r"ready bootstrap=(127\.0\.0\.1:[0-9]+)(,127\.0\.0\.1:[0-9]+)*( http=\S+)?\n")
SMALL = ("--brokers", "2", "--odins", "1", "--port", "0")


def up(data: Path, *options: str) -> Command:
    return Command("up", "--data", data, *(options or SMALL))


def nodes(data: Path) -> dict[str, dict[str, Any]]:
    """What `cluster.json` says, which is there from the first start on."""
    return {node["name"]: node for node in json.loads((data / "cluster.json").read_text())["nodes"]}


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return not Path("/proc").is_dir() or "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A directory in which nothing runs any more when the test is over."""
    folder = tmp_path / "data"
    yield folder
    run("down", "--data", folder, "--timeout", "20")


def write(command: Command) -> None:
    """A topic over both brokers takes a record in each of its partitions."""
    first, *_ = command.bootstrap.split(",")
    with Wire(first) as wire:
        create_topic(wire, "orders", partitions=2)
    for index, address in enumerate(command.bootstrap.split(",")):
        with Wire(address) as wire:
            eventually(
                lambda wire=wire, index=index: wire.produce("orders", batch(b"x"), partition=index).error_code == 0
            )  # type: ignore[misc]


def test_several_nodes_serve_and_stop_in_order_at_ctrl_c(data: Path) -> None:
    with up(data) as command:
        assert READY.fullmatch(command.line)
        there = nodes(data)
        assert [(node["id"], node["roles"], node["state"]) for node in there.values()] == [
            (100, ["controller"], "running"),
            (0, ["broker"], "running"),
            (1, ["broker"], "running"),
        ]
        assert all(lives(node["pid"]) for node in there.values())
        write(command)
        code, out, err = command.end(signal.SIGINT)
    assert (code, out) == (0, ""), err
    stopped = [line.split()[0] for line in err.splitlines() if line.endswith("| stopped")]
    assert sorted(stopped[:2]) == ["heimdall-0", "heimdall-1"]
    assert stopped[2:] == ["odin-100"]
    assert not any(lives(node["pid"]) for node in there.values())
    assert not (data / "cluster.json").exists()
    assert "node stopped id=1 clean=True" in (data / "logs" / "heimdall-1.log").read_text()


@pytest.mark.parametrize("name", ["heimdall-1", "odin-100"])
def test_a_node_that_is_killed_comes_back_with_its_data_and_its_port(data: Path, name: str) -> None:
    with up(data) as command:
        write(command)
        before = nodes(data)[name]
        os.kill(before["pid"], signal.SIGKILL)
        eventually(lambda: (nodes(data)[name]["state"], nodes(data)[name]["restarts"]) == ("running", 1), "it is back")
        after = nodes(data)[name]
        assert after["pid"] != before["pid"]
        assert after["address"] == before["address"]
        with Wire(command.bootstrap.split(",")[1]) as wire:
            eventually(lambda: wire.produce("orders", batch(b"y"), partition=1).error_code == 0, "it leads again")
            assert wire.fetch("orders", 0, partition=1).high_watermark >= 2
        code, _, err = command.end(signal.SIGTERM)
    assert code == 0
    assert f"{name.ljust(10)} | was killed by SIGKILL; it starts again in 0.25 s" in err
    assert f"{name.ljust(10)} | is back at {before['address']}" in err


def test_without_restarts_the_dead_stay_dead_and_when_all_are_it_ends(data: Path) -> None:
    with up(data, *SMALL, "--no-restart") as command:
        for name, node in nodes(data).items():
            os.kill(node["pid"], signal.SIGKILL)
            if name != "heimdall-1":
                eventually(lambda name=name: nodes(data)[name]["state"] == "dead", "it is known to be dead")  # type: ignore[misc]
        code, _, err = command.end()
    assert code == 1
    assert "heimdall-0 | was killed by SIGKILL; it stays so (--no-restart)" in err
    assert "error: no node is left" in err


def test_the_http_address_that_is_told_is_that_of_an_odin_that_answers(data: Path) -> None:
    with up(data, "--brokers", "1", "--odins", "3", "--port", "0", "--no-restart") as command:
        there = nodes(data)
        assert command.told["http"] == there["odin-100"]["http"]
        os.kill(there["odin-100"]["pid"], signal.SIGKILL)
        eventually(lambda: nodes(data)["odin-100"]["state"] == "dead", "it is known to be dead")
        assert json.loads((data / "cluster.json").read_text())["http"] == there["odin-101"]["http"]
        assert json.loads(run("status", "--data", data, "--json").stdout)["http"] == there["odin-101"]["http"]


def test_detached_nodes_run_until_down_and_status_tells_of_them(data: Path) -> None:
    assert run("status", "--data", data).stdout == f"nothing runs on {data}\n"
    started = run("up", "--detach", "--data", data, *SMALL)
    assert READY.fullmatch(started.stdout), started.stderr
    status = run("status", "--data", data, "--json")
    assert status.returncode == 0
    told = json.loads(status.stdout)
    assert (told["running"], told["active_odin"]) == (True, 100)
    assert [(node["id"], node["alive"], node["active"], node["fenced"]) for node in told["nodes"]] == [
        (100, True, True, None),
        (0, True, None, False),
        (1, True, None, False),
    ]
    table = run("status", "--data", data).stdout
    assert re.search(r"100 +odin-100 .* active", table)
    second = run("up", "--detach", "--data", data, *SMALL)
    assert second.returncode == 1
    assert f"a cluster runs on {data} already (process {told['supervisor']})" in second.stderr

    stopped = run("down", "--data", data)
    assert stopped.returncode == 0
    lines = stopped.stdout.splitlines()
    assert sorted(lines[:2]) == ["heimdall-0 stopped", "heimdall-1 stopped"]
    assert lines[2:] == ["odin-100 stopped", f"all stopped, the data are in {data}"]
    assert not any(lives(node["pid"]) for node in told["nodes"])
    assert run("down", "--data", data).stdout == f"nothing runs on {data}\n"


def test_a_broker_that_hangs_is_shown_as_fenced(data: Path) -> None:
    with up(data, *SMALL, "--set", "broker.session.timeout.ms=1000"):
        pid = nodes(data)["heimdall-1"]["pid"]
        os.kill(pid, signal.SIGSTOP)

        def fenced() -> bool:
            told = json.loads(run("status", "--data", data, "--json").stdout)
            return [node["name"] for node in told["nodes"] if node["fenced"]] == ["heimdall-1"]

        try:
            eventually(fenced, "the broker that hangs is fenced")
        finally:
            os.kill(pid, signal.SIGCONT)


def test_nodes_do_not_outlive_a_supervisor_that_is_killed(data: Path) -> None:
    with up(data) as command:
        write(command)
        pids = [node["pid"] for node in nodes(data).values()]
        command.process.kill()
        eventually(lambda: not any(map(lives, pids)), "all nodes are gone")
        status = run("status", "--data", data)
        assert status.returncode == 1
        assert "did not end in order and is gone" in status.stdout
    log = (data / "heimdall-0" / ".kafka_cleanshutdown").exists()
    assert log, "they stopped in order, by themselves"
    with up(data) as again, Wire(again.bootstrap.split(",")[0]) as wire:
        assert wire.fetch("orders", 0).high_watermark == 1


def test_down_ends_nodes_that_were_left_behind_and_hang(data: Path) -> None:
    with up(data) as command:
        there = nodes(data)
        os.kill(there["heimdall-0"]["pid"], signal.SIGSTOP)
        command.process.kill()
        others = [node["pid"] for name, node in there.items() if name != "heimdall-0"]
        eventually(lambda: not any(map(lives, others)), "those that can, end")
        assert record.node_process(data, "heimdall-0") == there["heimdall-0"]["pid"]
        stopped = run("down", "--data", data, "--timeout", "0.5")
    assert stopped.stdout.splitlines()[0] == "heimdall-0 did not stop in 0.5 s and was killed"
    assert not lives(there["heimdall-0"]["pid"])


def test_a_taken_port_is_named_before_anything_is_started(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("up", "--data", data, "--brokers", "2", "--odins", "1", "--port", str(port))
    assert (result.returncode, result.stdout) == (1, "")
    error, hint = result.stderr.splitlines()
    also = rf"(, 127\.0\.0\.1:{port + 1} \(heimdall-1\) are| is)"  # if another test happens to have the next one
    assert re.fullmatch(rf"error: 127\.0\.0\.1:{port} \(heimdall-0\){also} taken by another program", error)
    assert hint == "hint: Stop that one, or choose other ports: --port 19092, or --port 0 for any that are free."
    assert not data.exists()


def test_one_node_and_several_do_not_open_each_others_data(data: Path) -> None:
    (data / "heimdall-0").mkdir(parents=True)
    (data / "odin-100").mkdir()
    alone = run("up", "--data", data, "--brokers", "1", "--port", "0")
    assert alone.returncode == 2
    assert f"the data in {data} are those of 1 Heimdall and 1 Odin, and cannot be opened by one node" in alone.stderr
    more = run("up", "--data", data, "--brokers", "2", "--odins", "3", "--port", "0")
    assert more.returncode == 2
    assert "cannot be opened by 2 Heimdall and 3 Odin" in more.stderr
    assert "`bifrost up --brokers 1 --odins 1`" in more.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--set", "node.id=3"], "--set node.id: it cannot be the same for 3 Heimdall and 3 Odin; nodes are numbered"),
        (["--set", "log.dirs=x"], "--data says where all of them keep their data"),
        (["--set", "num.partition=3"], "unknown setting num.partition; did you mean num.partitions?"),
        (["--odins", "0"], "several brokers need at least one Odin"),
        (["--odins", "2"], "choose 1, 3 or 5"),
        (["--odins", "4"], "choose 1, 3 or 5"),
        (["--ephemeral", "--detach"], "--ephemeral removes the data at the end"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_started(
    data: Path, options: list[str], problem: str
) -> None:
    result = run("up", "--data", data, "--port", "0", *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert problem in result.stderr
    assert not data.exists()


def test_a_node_that_cannot_start_ends_the_others_with_its_own_words(data: Path) -> None:
    for name in ("odin-100", "heimdall-0", "heimdall-1"):
        (data / name).mkdir(parents=True)
    (data / "heimdall-1" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    result = run("up", "--data", data, *SMALL)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-2].startswith("error: heimdall-1 did not start: ")
    assert "cluster.id is x" in result.stderr.splitlines()[-2]
    assert "Traceback" not in result.stderr
    assert record.supervisor(data) is None


def test_a_cluster_that_has_run_starts_without_the_broker_whose_disk_is_spoilt(data: Path) -> None:
    with up(data) as command:
        write(command)
        assert command.end(signal.SIGTERM)[0] == 0
    (data / "heimdall-1" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    with up(data) as again:
        assert READY.fullmatch(again.line)
        with Wire(again.bootstrap.split(",")[0]) as wire:
            assert wire.fetch("orders", 0).high_watermark == 1
        assert nodes(data)["heimdall-1"]["state"] in {"starting", "waiting", "given up"}
        code, _, err = again.end(signal.SIGTERM)
    assert code == 0
    assert "heimdall-1 | error: " in err
    assert "before all were ready, and the others start without it" in err


def test_a_directory_that_cannot_be_used_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    result = run("up", "--data", tmp_path / "data" / "below", *SMALL)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == f"error: cannot use {tmp_path / 'data' / 'below'}: Not a directory"


def test_a_single_node_can_be_left_running_too(data: Path) -> None:
    started = run("up", "--brokers", "1", "--detach", "--data", data, "--port", "0")
    assert READY.fullmatch(started.stdout), started.stderr
    there = nodes(data)
    assert [(node["name"], node["roles"]) for node in there.values()] == [("node-0", ["broker", "controller"])]
    assert run("status", "--data", data).returncode == 0
    assert run("down", "--data", data).stdout.splitlines()[0] == "node-0 stopped"
