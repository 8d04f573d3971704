"""Replicas and leaders on the move, while somebody writes and brokers come and go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bifrost.cli.main import app
from bifrost.client.admin import Admin
from bifrost.client.moves.layout import Layout
from bifrost.client.moves.throttle import RATES, REPLICAS, unthrottle
from bifrost.client.wire.client import WireClient
from bifrost.client.wire.replica_admin import ReplicaAdmin
from bifrost.testing import Cluster
from bifrost.types import TopicPartition
from tests.integration.command import Command
from tests.integration.steady_writer import SteadyWriter
from tests.waiting import eventually

Run = Callable[..., Result]
T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=4, broker_session_timeout_ms=3_000, leader_imbalance_check_interval_seconds=3_600) as made:
        yield made


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[ReplicaAdmin]:
    with WireClient(cluster.bootstrap, {"request.timeout.ms": 30_000}) as client:
        yield client.replicas


@pytest.fixture
def run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command that must succeed."""
    monkeypatch.setenv("BIFROST_BOOTSTRAP", cluster.bootstrap)

    def checked(*arguments: str) -> Result:
        result = CliRunner().invoke(app, [*arguments, "--timeout", "60"])
        assert result.exit_code == 0, result.output
        return result

    return checked


def create(cluster: Cluster, admin: ReplicaAdmin, name: str, *assignment: tuple[int, ...]) -> None:
    """A topic whose partitions are on these brokers."""
    with Admin(cluster.bootstrap) as made:
        made.create_topic(name, len(assignment), 1)
    wanted = {TopicPartition(name, index): replicas for index, replicas in enumerate(assignment)}
    eventually(lambda: wanted.keys() <= admin.layout().places.keys())
    admin.move(wanted)
    eventually(lambda: settled(admin.layout(), wanted), "the topic is where it shall be")
    admin.elect_preferred(list(wanted))


def settled(layout: Layout, wanted: dict[TopicPartition, tuple[int, ...]]) -> bool:
    return all(
        (place := layout.places[tp]).replicas == replicas and set(place.isr) == set(replicas) and not place.is_moving
        for tp, replicas in wanted.items()
    )


def fill(cluster: Cluster, topic: str, megabytes: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "compression.type": "none"})
    for _ in range(megabytes * 10):
        producer.produce(topic, b"x" * 100_000, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def folders(cluster: Cluster, broker: int) -> list[str]:
    """The logs of topics that a broker has, deleted ones aside."""
    found = [each.name for each in Path(cluster.node_dir(broker)).iterdir() if each.is_dir()]
    return sorted(name for name in found if "." not in name and not name.startswith("__cluster_metadata"))


def test_a_partition_moves_again_and_again_and_its_writer_does_not_notice(
    cluster: Cluster, admin: ReplicaAdmin, run: Run
) -> None:
    create(cluster, admin, "t", (0, 1), (1, 2))
    with SteadyWriter(cluster.bootstrap, "t") as writer:
        for replicas in ("2,3", "0,1", "3,0", "1,2,3", "2"):
            before = len(writer.acknowledged)
            run("topic", "reassign", "t", "--partition", "0", "--replicas", replicas)
            place = admin.layout().places[T0]
            assert ",".join(map(str, place.replicas)) == replicas
            assert place.leader == place.replicas[0]
            eventually(lambda before=before: len(writer.acknowledged) > before, "writing goes on")  # type: ignore[misc]
    writer.verify()
    for broker, hosts in ((0, False), (1, False), (2, True), (3, False)):
        eventually(lambda broker=broker, hosts=hosts: ("t-0" in folders(cluster, broker)) is hosts)  # type: ignore[misc]


def test_a_broker_is_emptied_under_load_and_taken_off_the_list_once_it_is_stopped(
    cluster: Cluster, admin: ReplicaAdmin, run: Run
) -> None:
    create(cluster, admin, "t", (3, 0), (1, 3), (0, 3))
    create(cluster, admin, "u", (3,), (3, 1, 2))
    planned = json.loads(run("broker", "decommission", "3", "--dry-run", "--json").stdout)
    assert len(planned["partitions"]) == 5
    assert all(3 not in each["replicas"] for each in planned["partitions"])
    with SteadyWriter(cluster.bootstrap, "t") as writer:
        assert "stop it" in run("broker", "decommission", "3").stdout
        assert all(3 not in place.replicas for place in admin.layout().places.values())
        eventually(lambda: not folders(cluster, 3), "its logs are gone")
        cluster.stop(3)
        eventually(lambda: 3 in admin.layout().fenced, "everybody has heard of it")
        told = json.loads(run("broker", "decommission", "3", "--json").stdout)
        assert told["unregistered"] is True
        eventually(lambda: 3 not in admin.layout().racks, "everybody has heard that it is off the list")
    writer.verify()


def test_a_destination_that_dies_on_the_way_is_waited_for(cluster: Cluster, admin: ReplicaAdmin, run: Run) -> None:
    create(cluster, admin, "t", (0,))
    fill(cluster, "t", 8)
    run("topic", "reassign", "t", "--partition", "0", "--replicas", "3", "--throttle", "1MB/s", "--no-wait")
    eventually(lambda: admin.log_sizes([3]).get(3, {}).get(T0, 0) > 0, "some of it is there")
    cluster.kill(3)
    eventually(lambda: 3 in admin.layout().fenced)
    assert admin.layout().places[T0].is_moving, "it was too fast to be interrupted"
    cluster.restart(3)
    unthrottle(admin, ["t"], range(4))
    run("topic", "reassign", "t")
    assert admin.layout().places[T0].replicas == (3,)
    # A connection from before may be found to be dead, which is no answer.
    eventually(lambda: admin.log_sizes([3]).get(3, {}).get(T0, 0) > 8_000_000, "all of it is there")


def test_what_is_emptied_goes_elsewhere_when_its_destination_has_died(
    cluster: Cluster, admin: ReplicaAdmin, run: Run
) -> None:
    create(cluster, admin, "t", (0,))
    fill(cluster, "t", 8)
    run("broker", "decommission", "0", "--throttle", "1MB/s", "--no-wait")
    (destination,) = admin.layout().places[T0].adding
    cluster.kill(destination)
    eventually(lambda: destination in admin.layout().fenced)
    unthrottle(admin, ["t"], range(4))
    run("broker", "decommission", "0")
    (holder,) = admin.layout().places[T0].replicas
    assert holder not in (0, destination)


def test_a_move_that_is_given_up_leaves_nothing_behind(cluster: Cluster, admin: ReplicaAdmin, run: Run) -> None:
    create(cluster, admin, "t", (0, 1))
    fill(cluster, "t", 8)
    run("topic", "reassign", "t", "--partition", "0", "--replicas", "2,3", "--throttle", "1MB/s", "--no-wait")
    eventually(lambda: "t-0" in folders(cluster, 2))
    assert "gave up 1 move" in run("topic", "reassign", "t", "--cancel").stdout
    assert admin.layout().places[T0].replicas == (0, 1)
    eventually(lambda: "t-0" not in folders(cluster, 2) + folders(cluster, 3))
    assert "nothing moves" in run("topic", "reassign", "t", "--cancel").stdout


def test_catching_up_keeps_to_its_rate_and_the_rate_is_taken_away_at_the_end(
    cluster: Cluster, admin: ReplicaAdmin, run: Run
) -> None:
    from time import monotonic

    create(cluster, admin, "t", (0,))
    fill(cluster, "t", 6)
    started = monotonic()
    run("topic", "reassign", "t", "--partition", "0", "--replicas", "1", "--throttle", "2MB/s")
    assert monotonic() - started > 1.5, "6 MB at 2 MB/s take at least the time that the last answer does not owe"
    with Admin(cluster.bootstrap) as made:
        assert not [name for name, each in made.configs(topic="t").items() if "throttled" in name and each.is_set]
        for broker in (0, 1):
            configs = made.configs(broker=broker)
            assert not configs["follower.replication.throttled.rate"].is_set


def test_what_an_operator_throttled_stays_so(cluster: Cluster, admin: ReplicaAdmin, run: Run) -> None:
    create(cluster, admin, "t", (0,))
    fill(cluster, "t", 2)
    run("config", "set", "--broker", "1", "follower.replication.throttled.rate=5000000")
    own = {"follower.replication.throttled.rate": "5000000"}
    run("topic", "reassign", "t", "--partition", "0", "--replicas", "1")
    assert admin.broker_configs(1, RATES) == own, "no rate was given for the move"
    run("topic", "reassign", "t", "--partition", "0", "--replicas", "1,2", "--throttle", "10MB/s")
    run("topic", "reassign", "t")
    assert [admin.broker_configs(broker, RATES) for broker in range(4)] == [{}, own, {}, {}]
    assert admin.topic_configs(["t"], REPLICAS) == {"t": {}}


def test_a_rate_that_nobody_stays_to_take_away_is_told_of_and_lifted_by_a_command(
    cluster: Cluster, admin: ReplicaAdmin, run: Run
) -> None:
    create(cluster, admin, "t", (0,))
    fill(cluster, "t", 4)
    run("config", "set", "--broker", "1", "follower.replication.throttled.rate=5000000")
    told = run("topic", "reassign", "t", "--partition", "0", "--replicas", "1", "--throttle", "1MB/s", "--no-wait")
    assert "`bifrost broker unthrottle` takes it away" in told.stderr
    assert "`bifrost config set --broker 1 follower.replication.throttled.rate=5000000`" in told.stderr
    assert admin.layout().places[T0].is_moving, "it was too fast to be watched"
    shown = json.loads(run("broker", "unthrottle", "--dry-run", "--json").stdout)
    assert shown["brokers"]["1"] == dict.fromkeys(RATES, "1000000")
    assert shown["topics"] == {"t": dict(zip(REPLICAS, ("0:0", "0:1")))}
    assert "took 6 settings away" in run("broker", "unthrottle").stdout
    run("topic", "reassign", "t")
    assert admin.layout().places[T0].replicas == (1,)
    assert "nothing is throttled" in run("broker", "unthrottle").stdout


def test_who_sees_the_end_of_anothers_throttled_move_is_told_that_the_rate_stays(
    cluster: Cluster, admin: ReplicaAdmin, run: Run
) -> None:
    create(cluster, admin, "t", (0,))
    fill(cluster, "t", 2)
    run("topic", "reassign", "t", "--partition", "0", "--replicas", "1", "--throttle", "1MB/s", "--no-wait")
    assert "1 partition of t is still listed as throttled" in run("topic", "reassign", "t").stderr
    assert admin.broker_configs(1, RATES) == dict.fromkeys(RATES, "1000000")


def test_load_is_evened_out(cluster: Cluster, admin: ReplicaAdmin, run: Run) -> None:
    create(cluster, admin, "t", *[(0, 1)] * 8)
    with SteadyWriter(cluster.bootstrap, "t") as writer:
        run("broker", "rebalance")
        places = admin.layout().places.values()
        assert [sum(broker in place.replicas for place in places) for broker in range(4)] == [4] * 4
        assert [sum(broker == place.leader for place in places) for broker in range(4)] == [2] * 4
        assert "nothing to move" in run("broker", "rebalance", "--dry-run").stdout
    writer.verify()


def test_a_plan_of_kafkas_tool_is_carried_out(cluster: Cluster, admin: ReplicaAdmin, run: Run, tmp_path: Path) -> None:
    create(cluster, admin, "t", (0,), (1,))
    plan: dict[str, Any] = {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 1, "replicas": [2, 3], "log_dirs": ["any", "any"]}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    told = json.loads(run("topic", "reassign", "--file", str(tmp_path / "plan.json"), "--json").stdout)
    assert told == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 1, "replicas": [2, 3]}],
        "finished": True,
    }
    assert admin.layout().places[TopicPartition("t", 1)].replicas == (2, 3)


def test_leaders_go_home_by_themselves() -> None:
    with (
        Cluster(brokers=2, odins=1, leader_imbalance_check_interval_seconds=1) as cluster,
        WireClient(cluster.bootstrap) as client,
    ):
        admin = client.replicas
        create(cluster, admin, "t", (0, 1), (1, 0))
        cluster.stop(0)
        eventually(lambda: all(place.leader == 1 for place in admin.layout().places.values()))
        cluster.restart(0)
        eventually(lambda: all(place.is_led_by_first for place in admin.layout().places.values()), "0 leads again")


def test_leaders_are_sent_home_on_request(cluster: Cluster, admin: ReplicaAdmin, run: Run) -> None:
    create(cluster, admin, "t", (0, 1), (1, 0))
    cluster.stop(0)
    eventually(lambda: admin.layout().places[T0].leader == 1)
    cluster.restart(0)
    eventually(lambda: 0 in admin.layout().places[T0].isr)
    assert json.loads(run("topic", "elect", "t", "--json").stdout) == {
        "elected": [{"topic": "t", "partition": 0}],
        "failed": [],
    }
    eventually(lambda: admin.layout().places[T0].leader == 0)
    assert "every first replica leads" in run("topic", "elect").stdout


def test_one_more_broker_joins_and_gets_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with (
        Command("up", "--brokers", "2", "--odins", "1", "--port", "0", "--data", data) as up,
        Command("broker", "add", "--data", data) as guest,
    ):
        assert guest.line.startswith("ready broker=2 address=127.0.0.1:")
        monkeypatch.setenv("BIFROST_BOOTSTRAP", up.bootstrap)
        with Admin(up.bootstrap) as admin:
            admin.create_topic("t", 4, 1)
        result = CliRunner().invoke(app, ["broker", "rebalance", "--json"])
        assert result.exit_code == 0, result.output
        with WireClient(up.bootstrap) as client:
            assert sorted(client.replicas.layout().racks) == [0, 1, 2]
            assert any(2 in place.replicas for place in client.replicas.layout().places.values())
