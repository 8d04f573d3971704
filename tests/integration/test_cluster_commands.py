"""`bifrost broker` and `bifrost quorum` at a cluster of several nodes, whose nodes die and hang."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bifrost.testing import Cluster
from tests.integration.command import run
from tests.waiting import eventually


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, odins=3, processes=True) as running:
        yield running


def ask(cluster: Cluster, *command: str) -> Any:
    return ask_at(("--bootstrap", cluster.bootstrap), *command)


def ask_at(at: Sequence[str], *command: str) -> Any:
    done = run(*command, *at, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_voters_and_observers_are_shown_with_how_far_they_are(cluster: Cluster) -> None:
    active = cluster.active_odin()
    assert active is not None
    found = ask(cluster, "quorum", "status")
    assert found["leader"] == active.id
    assert [each["id"] for each in found["voters"]] == [100, 101, 102]
    eventually(lambda: [each["id"] for each in ask(cluster, "quorum", "status")["observers"]] == [0, 1], "both follow")
    table = run("quorum", "status", "--bootstrap", cluster.bootstrap).stdout
    assert f"leader {active.id}  epoch {found['epoch']}" in table
    assert "observer" in table


def test_a_dead_broker_is_listed_as_fenced_until_it_is_back(cluster: Cluster) -> None:
    assert run("topic", "create", "orders", "-p", "4", "--bootstrap", cluster.bootstrap).returncode == 0
    before = ask(cluster, "broker", "list")
    assert [(each["id"], each["fenced"], each["leaders"], each["replicas"]) for each in before] == [
        (0, False, 2, 4),
        (1, False, 2, 4),
    ]
    cluster.kill(1)

    def fenced() -> list[int]:
        return [each["id"] for each in ask(cluster, "broker", "list") if each["fenced"]]

    eventually(lambda: fenced() == [1], "it is fenced")
    assert ask(cluster, "broker", "describe", "1")[0]["leaders"] == 0
    cluster.restart(1)
    eventually(lambda: fenced() == [], "it is back")


def test_an_election_is_waited_out_with_a_word(cluster: Cluster) -> None:
    others = [odin for odin in cluster.odins if odin is not cluster.active_odin()]
    active = cluster.active_odin()
    assert active is not None
    cluster.kill(active.id)
    cluster.kill(others[0].id)  # the last one alone is no majority
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            run("quorum", "status", "--bootstrap", cluster.brokers[0].address, "--timeout", "25s")
        )
    )
    hopeless = run("quorum", "status", "--bootstrap", cluster.brokers[0].address, "--timeout", "3s")
    assert hopeless.returncode != 0
    assert hopeless.stderr.startswith("HOGO LO: waiting for a leader of the controllers, for up to 3 s")
    asking.start()
    cluster.restart(active.id)
    asking.join()
    (answer,) = answers
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("leader 10")


DECIDED = [
    ("config", "set", "--topic", "orders", "retention.ms=1000"),
    ("config", "unset", "--topic", "orders", "retention.ms"),
    ("topic", "reassign", "orders", "--replication-factor", "1"),
    ("topic", "elect"),
    ("broker", "rebalance"),
    ("broker", "unthrottle"),
    ("broker", "decommission", "1"),
    ("topic", "alter", "orders", "--partitions", "7"),
]


def test_whatever_has_to_be_decided_waits_for_a_controller_with_a_word(cluster: Cluster) -> None:
    """And what needs no decision does not wait at all."""
    at = ("--bootstrap", cluster.brokers[0].address)
    assert run("topic", "create", "orders", "-p", "2", *at).returncode == 0
    active = cluster.active_odin()
    assert active is not None
    others = [odin for odin in cluster.odins if odin is not active]
    cluster.kill(active.id)
    cluster.kill(others[0].id)  # the last one alone is no majority
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda command: run(*command, *at, "--timeout", "4s"), DECIDED))
    for command, each in zip(DECIDED, done, strict=True):
        assert each.returncode != 0, (command, each.stdout)
        assert "HOGO LO: waiting for the controller" in each.stderr, (command, each.stderr)
    for command in (("topic", "list"), ("topic", "describe", "orders")):
        told = run(*command, *at, "--timeout", "10s")
        assert told.returncode == 0, told.stderr
        assert "orders" in told.stdout
    cluster.restart(active.id)
    set_ = run("config", "set", "--topic", "orders", "retention.ms=1000", *at, "--timeout", "25s")
    assert set_.returncode == 0, set_.stderr


def test_who_writes_and_who_reads_is_told_which_leader_is_awaited(cluster: Cluster, tmp_path: Path) -> None:
    at = ("--bootstrap", cluster.brokers[0].address)
    assert run("topic", "create", "orders", "-p", "2", "-r", "1", *at).returncode == 0
    cluster.kill(1)
    lost = "HOGO LO: waiting for a leader of orders-1"

    def leaders() -> list[int | None]:
        """None are known to a command that still waits for the one that is dead."""
        told = run("topic", "describe", "orders", "--json", "--timeout", "5s", *at)
        return [each["leader"] for each in json.loads(told.stdout)[0]["partitions"]] if told.returncode == 0 else []

    eventually(lambda: leaders() == [0, None], "one has no leader")
    lines = tmp_path / "lines"
    lines.write_text("x\n")
    produced = run("produce", "orders", "--partition", "1", "--file", str(lines), "--timeout", "4s", *at)
    assert produced.returncode != 0
    assert lost in produced.stderr
    consumed = run("consume", "orders", "--from-beginning", "--timeout", "4s", *at)
    assert lost in consumed.stderr
    well = run("produce", "orders", "--partition", "0", "--file", str(lines), *at)
    assert (well.returncode, "HOGO LO" in well.stderr) == (0, False)


def test_nobody_at_the_address_is_told_at_once() -> None:
    done = run("broker", "list", "--bootstrap", "127.0.0.1:1")
    assert done.returncode != 0
    assert "no broker answers at 127.0.0.1:1" in done.stderr
    assert "HOGO LO" not in done.stderr
