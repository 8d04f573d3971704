"""Moving replicas and leaders: one set of commands and clients, against clusters of Bifrost and of Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from typer.testing import CliRunner

from bifrost import Admin
from bifrost.cli.main import app
from bifrost.client.moves.layout import Layout
from bifrost.client.wire.client import WireClient
from bifrost.testing import Cluster
from bifrost.types import TopicPartition
from tests.compat.conftest import unique_name
from tests.compat.everywhere import wait_until_known
from tests.compat.oracle import KafkaNode
from tests.waiting import eventually

BROKERS = 3


@pytest.fixture(scope="module", params=["bifrost", pytest.param("kafka", marks=pytest.mark.oracle)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of three brokers."""
    with ExitStack() as stack:
        if request.param == "bifrost":
            yield stack.enter_context(Cluster(brokers=BROKERS, odins=1)).bootstrap
            return
        nodes: list[KafkaNode] = []
        for index in range(BROKERS):
            joins = nodes[-1] if nodes else None
            node = KafkaNode(tmp_path_factory.mktemp(f"kafka-{index}"), joins=joins)
            node.start()
            stack.callback(node.stop)
            nodes.append(node)
        yield ",".join(f"127.0.0.1:{node.port}" for node in nodes)


@pytest.fixture
def run(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """What a command that must succeed answers to a script."""
    monkeypatch.setenv("BIFROST_BOOTSTRAP", bootstrap)

    def checked(*arguments: str) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return checked


@pytest.fixture
def layout(bootstrap: str) -> Iterator[Callable[[], Layout]]:
    with WireClient(bootstrap) as client:
        yield client.replicas.layout


@pytest.fixture
def topic(bootstrap: str, layout: Callable[[], Layout]) -> Iterator[str]:
    """Two partitions, each on one broker."""
    name = unique_name()
    with Admin(bootstrap) as admin:
        admin.create_topic(name, 2, 1)
        eventually(lambda: len(layout().assignment(name)) == 2)
        wait_until_known(bootstrap, name)
        yield name
        admin.delete_topic(name)


def test_a_topic_gets_more_copies_and_fewer(run: Callable[..., Any], layout: Callable[[], Layout], topic: str) -> None:
    for copies in (3, 2, 1):
        told = run("topic", "reassign", topic, "--replication-factor", str(copies), "--throttle", "50MB/s")
        assert told["finished"] is True
        assert {len(replicas) for replicas in layout().assignment(topic).values()} == {copies}
        eventually(lambda: _in_sync(layout(), topic))


def _in_sync(layout: Layout, topic: str) -> bool:
    places = [place for tp, place in layout.places.items() if tp.topic == topic]
    return all(sorted(place.isr) == sorted(place.replicas) for place in places)


def test_a_broker_is_emptied_and_gets_its_share_back(
    run: Callable[..., Any], layout: Callable[[], Layout], topic: str
) -> None:
    leaving = max(layout().racks)
    run("topic", "reassign", topic, "--partition", "0", "--replicas", str(leaving))
    told = run("broker", "decommission", str(leaving))
    assert (told["finished"], told["unregistered"]) == (True, False)
    assert not [place for place in layout().places.values() if leaving in place.replicas]
    run("broker", "rebalance")
    counts = [sum(broker in place.replicas for place in layout().places.values()) for broker in layout().racks]
    assert max(counts) - min(counts) <= 1


def test_leaders_are_sent_home(
    bootstrap: str, run: Callable[..., Any], layout: Callable[[], Layout], topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    first, second = sorted(layout().racks)[:2]
    run("topic", "reassign", topic, "--partition", "0", "--replicas", f"{first},{second}")
    with WireClient(bootstrap) as client:
        client.replicas.move({tp: (second, first)})
    assert run("topic", "elect", topic)["elected"] == [{"topic": topic, "partition": 0}]
    eventually(lambda: layout().places[tp].leader == second)


def test_kafka_python_moves_partitions_and_lists_the_moves(
    bootstrap: str, layout: Callable[[], Layout], topic: str
) -> None:
    from kafka import KafkaAdminClient
    from kafka import TopicPartition as KafkaPartition

    brokers = sorted(layout().racks)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        admin.alter_partition_reassignments({KafkaPartition(topic, 1): brokers})
        eventually(lambda: sorted(layout().places[TopicPartition(topic, 1)].isr) == brokers, "all are in sync")
        assert not admin.list_partition_reassignments()
    finally:
        admin.close()
