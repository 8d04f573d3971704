"""Several log directories on each broker: one that fails takes its own replicas and nothing else (KIP-858)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from bifrost.cli.main import app
from bifrost.client.admin import Admin
from bifrost.client.moves.layout import Place
from bifrost.client.wire.client import WireClient
from bifrost.testing import Cluster
from bifrost.types import TopicPartition
from tests.integration.small_disk import SmallDisk
from tests.integration.steady_writer import SteadyWriter
from tests.waiting import eventually

PARTITIONS = 6


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path, megabytes=256)
    yield small
    small.close()


@pytest.fixture
def cluster(tmp_path: Path, disk: SmallDisk) -> Iterator[Cluster]:
    """Three brokers with two directories each; the second one of broker 0 is on the disk that fails."""
    made = Cluster(brokers=3, data_dir=tmp_path / "cluster", flush_policy="ack", broker_session_timeout_ms=3_000)
    for node in made.brokers:
        own = Path(str(node.settings["log.dirs"]))
        second = disk.path / "data" if node is made.brokers[0] else own.with_name(own.name + "-more")
        node.settings["log.dirs"] = f"{own},{second}"
    with made:
        yield made


def places(cluster: Cluster) -> dict[int, Place]:
    with WireClient(cluster.bootstrap, {"request.timeout.ms": 30_000}) as client:
        found = client.replicas.layout().places
    return {index: found[TopicPartition("t", index)] for index in range(PARTITIONS)}


def offline_replicas(cluster: Cluster) -> dict[int, list[int]]:
    from bifrost.protocol.messages.cluster import DescribeTopicPartitionsRequest, TopicRequest
    from tests.integration.wire import Wire

    with Wire(cluster.brokers[1].address) as wire:
        answer = wire.call(0, DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]))
    return {one.partition_index: one.offline_replicas for one in answer.topics[0].partitions}


def test_a_directory_fails_alone_and_its_replicas_are_built_anew(cluster: Cluster, disk: SmallDisk) -> None:
    broker = cluster.brokers[0]
    broker_id = int(broker.settings["node.id"])
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", PARTITIONS, 3)
    folder = disk.path / "data"
    eventually(lambda: len(places(cluster)) == PARTITIONS)
    in_it = {int(path.name.rpartition("-")[2]) for path in folder.glob("t-*")}
    assert 0 < len(in_it) < PARTITIONS
    with SteadyWriter(cluster.bootstrap, "t") as writer:
        eventually(lambda: len(writer.acknowledged) > 1_000)
        disk.make_read_only()
        eventually(
            lambda: all((broker_id in place.isr) == (index not in in_it) for index, place in places(cluster).items()),
            "the replicas in the directory that failed, and no others, are out of sync",
        )
        assert any(place.leader == broker_id for place in places(cluster).values()), "the rest of the broker goes on"
        assert not any(places(cluster)[index].leader == broker_id for index in in_it)
        expected = {index: [broker_id] if index in in_it else [] for index in range(PARTITIONS)}
        eventually(lambda: offline_replicas(cluster) == expected)
        listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics("t", timeout=30)
        assert all(one.error is None for one in listed.topics["t"].partitions.values()), "everything is led"
        written = len(writer.acknowledged)
        eventually(lambda: len(writer.acknowledged) > written + 1_000)
        cluster.stop(broker_id)
        disk.mend()
        shutil.rmtree(folder)  # as if the disk had been replaced by another
        cluster.restart(broker_id)
        eventually(
            lambda: all(len(place.isr) == 3 for place in places(cluster).values()),
            "all replicas are built anew, and in sync",
        )
        eventually(lambda: not any(offline_replicas(cluster).values()))
    writer.verify()
    with WireClient(cluster.bootstrap, {"request.timeout.ms": 30_000}) as client:
        states = {one.path: one for one in client.log_dirs([broker_id])}
    assert not any(state.error for state in states.values())
    assert sum(state.replicas for state in states.values()) >= PARTITIONS


def check_command(cluster: Cluster, here: Path, there: Path) -> None:
    """`bifrost broker move-log` moves it back, and says what is wrong."""

    def run(*arguments: str) -> Result:
        address = ("--bootstrap", cluster.bootstrap, "--timeout", "30")
        return CliRunner().invoke(app, ["broker", "move-log", *arguments, "--broker", "0", *address])

    for wrong, problem in (("t", "no partition"), ("t:7", "no replica"), ("u:0", "no replica")):
        result = run(wrong, "--to", str(there))
        assert result.exit_code != 0
        assert problem in result.output
    assert "no log directory" in run("t:0", "--to", "/nowhere").output
    moved = run("t:0", "--to", str(there), "--json")
    assert moved.exit_code == 0, moved.output
    assert json.loads(moved.stdout)["place"]["path"] == str(there)
    assert f"is in {here}" in run("t:0", "--to", str(here)).output


def test_a_replica_moves_to_another_directory_while_it_is_written_to_and_read(tmp_path: Path) -> None:
    made = Cluster(brokers=1, data_dir=tmp_path / "cluster", flush_policy="ack")
    one, two = tmp_path / "one", tmp_path / "two"
    made.brokers[0].settings["log.dirs"] = f"{one},{two}"
    with made as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("t", 1, 1)
        with WireClient(cluster.bootstrap, {"request.timeout.ms": 30_000}) as client:
            ((partition, before),) = [(tp, place) for tp, place in client.replica_places(0).items() if tp.topic == "t"]
            there = two if before.path == str(one) else one
            with SteadyWriter(cluster.bootstrap, "t") as writer:
                eventually(lambda: len(writer.acknowledged) > 1_000)
                client.move_replica(0, partition, str(there))
                eventually(lambda: client.replica_places(0)[partition].path == str(there))
                written = len(writer.acknowledged)
                eventually(lambda: len(writer.acknowledged) > written + 1_000)
            writer.verify()
        assert (there / "t-0").is_dir()
        check_command(cluster, there, one if there == two else two)
        cluster.restart(0)
        writer.verify()
