"""Three Odins and three Heimdalls in one process: who leads is decided without a word of configuration more, any broker
answers for all, and a death is noticed at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.broker.server import Server
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import DescribeClusterRequest
from bifrost.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bifrost.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from bifrost.protocol.schema import Message
from bifrost.raft.core.effects import Effects
from bifrost.raft.core.node import RaftNode
from bifrost.realm.ports import ReservedPorts
from bifrost.realm.record import lock_holder
from bifrost.testing import Cluster
from bifrost.testing.cluster import AnyNode
from tests.integration.command import environment
from tests.integration.wire import Wire
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture
def realm() -> Iterator[Cluster]:
    """Sessions outlast every test: whoever is fenced here was missed, and not waited for."""
    with Cluster(brokers=3, odins=3, broker_session_timeout_ms=600_000) as cluster:
        yield cluster


def admin_of(realm: Cluster, broker: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": realm.brokers[broker].address})


def active(realm: Cluster) -> AnyNode:
    eventually(lambda: realm.active_odin() is not None, "an active Odin")
    found = realm.active_odin()
    assert found is not None
    return found


def create(admin: AdminClient, name: str, partitions: int = 3) -> None:
    for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        done.result(20)


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {index: partition.leader for index, partition in partitions.items()}


def test_any_broker_answers_and_leaders_stand_in_rotation(realm: Cluster) -> None:
    create(admin_of(realm, 1), "orders")
    for broker in range(3):
        admin = admin_of(realm, broker)
        eventually(lambda admin=admin: leaders(admin, "orders") == {0: 0, 1: 1, 2: 2})  # type: ignore[misc]
    producer = Producer({"bootstrap.servers": realm.brokers[2].address, "enable.idempotence": True})
    for number in range(300):
        producer.produce("orders", b"x", key=b"%d" % number)
    assert producer.flush(20) == 0
    assert active(realm) in realm.odins


def test_any_odin_passes_on_what_only_the_active_one_decides(realm: Cluster) -> None:
    followers = [odin for odin in realm.odins if odin is not active(realm)]
    for number, odin in enumerate(followers):
        topic = CreatableTopic(name=f"asked-{number}", num_partitions=2, replication_factor=3)
        with Wire(odin.address) as wire:
            (made,) = wire.call(7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
            (again,) = wire.call(7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
        assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 2)
        assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    eventually(lambda: {"asked-0", "asked-1"} <= set(admin_of(realm, 0).list_topics(timeout=10).topics))


def test_another_odin_takes_over_and_nothing_is_forgotten(realm: Cluster) -> None:
    admin = admin_of(realm, 0)
    create(admin, "before")
    first = active(realm)
    first.kill()
    assert active(realm) is not first
    create(admin, "after")
    eventually(lambda: {"before", "after"} <= set(admin.list_topics(timeout=10).topics))
    first.start()
    second = active(realm)
    second.kill()
    assert active(realm) is not second
    create(admin, "last")


def test_an_odin_that_stops_hands_over_before_its_doors_close(realm: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind closed doors it would be taken for dead, by all others, who would stand against each other."""
    first = active(realm)
    done: list[str] = []
    resign, close = RaftNode.resign, Server.close

    def resigns(core: RaftNode, now_ms: float) -> Effects:
        done.append("resigned" if core.leads else "had nothing to resign from")
        return resign(core, now_ms)

    async def closes(server: Server, *, clean: bool) -> None:
        done.append("closed its doors")
        await close(server, clean=clean)

    monkeypatch.setattr(RaftNode, "resign", resigns)
    monkeypatch.setattr(Server, "close", closes)
    first.stop()
    assert done == ["resigned", "closed its doors"]
    assert active(realm) is not first


def test_a_dead_broker_is_fenced_at_once_and_leads_again_when_it_is_back(realm: Cluster) -> None:
    admin = admin_of(realm, 1)
    create(admin, "orders")
    eventually(lambda: leaders(admin, "orders") == {0: 0, 1: 1, 2: 2})
    realm.brokers[0].kill()
    eventually(lambda: leaders(admin, "orders") == {0: -1, 1: 1, 2: 2})
    eventually(lambda: sorted(admin.list_topics(timeout=10).brokers) == [1, 2], "it is listed for some seconds more")
    realm.brokers[0].start()
    eventually(lambda: leaders(admin, "orders") == {0: 0, 1: 1, 2: 2})


def test_without_a_majority_nothing_changes_and_reads_go_on(realm: Cluster) -> None:
    admin = admin_of(realm, 0)
    create(admin, "before")
    leader = active(realm)
    others = [odin for odin in realm.odins if odin is not leader]
    for odin in others:
        odin.kill()
    refused_in_time(realm.brokers[0])
    with Wire(leader.address) as wire:
        leads = DescribeClusterRequest(endpoint_type=2)
        eventually(lambda: wire.call(2, leads).controller_id != leader.id, "the leader has noticed")
    refused_in_time(leader)
    assert "before" in admin.list_topics(timeout=10).topics
    others[0].start()
    create(admin, "together")


def test_who_has_no_time_is_refused_as_in_kafka_and_nothing_is_done(realm: Cluster) -> None:
    admin = admin_of(realm, 0)
    create(admin, "before")
    refused_in_time(realm.brokers[0], timeout_ms=0)
    refused_in_time(active(realm), timeout_ms=-1)
    topics = admin.list_topics(timeout=10).topics
    assert ("alone" in topics, len(topics["before"].partitions)) == (False, 3)


def refused_in_time(node: AnyNode, timeout_ms: int = 300) -> None:
    """Everything that has a time of its own, in its own time and not when others lose their patience."""
    topic = CreatableTopic(name="alone", num_partitions=1, replication_factor=1)
    more = CreatePartitionsTopic(name="before", count=9, assignments=None)
    moved = ReassignableTopic(name="before", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
    cases: list[tuple[Message, Callable[[Any], int]]] = [
        (CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), lambda told: told.topics[0].error_code),
        (
            CreatePartitionsRequest(topics=[more], timeout_ms=timeout_ms, validate_only=False),
            lambda told: told.results[0].error_code,
        ),
        (
            DeleteTopicsRequest(topics=[DeleteTopicState(name="before")], timeout_ms=timeout_ms),
            lambda told: told.responses[0].error_code,
        ),
        (
            ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=timeout_ms),
            lambda told: told.error_code,
        ),
        (AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=timeout_ms), lambda told: told.error_code),
    ]
    with Wire(node.address) as wire:
        for request, code in cases:
            assert code(wire.call(request.versions[-1], request)) == ErrorCode.REQUEST_TIMED_OUT, request


def test_a_broker_that_dies_together_with_the_active_odin_is_missed_soon(realm: Cluster) -> None:
    """The next Odin never had a connection to it whose end it could notice, and does not wait for its session."""
    admin = admin_of(realm, 1)
    create(admin, "orders")
    eventually(lambda: leaders(admin, "orders") == {0: 0, 1: 1, 2: 2})
    gone = active(realm)
    realm.brokers[0].kill()
    gone.kill()
    eventually(lambda: leaders(admin, "orders")[0] == -1, "the dead broker leads nothing")


@pytest.mark.parametrize("role", ["broker", "controller"])
@pytest.mark.parametrize("way", ["SIGTERM", "end of input"])
def test_a_node_that_waits_for_its_quorum_can_be_stopped(tmp_path: Path, role: str, way: str) -> None:
    """Which it may do for ever, alone of three."""
    with ReservedPorts(3) as ports:
        voters = ",".join(f"{100 + index}@127.0.0.1:{port}" for index, port in enumerate(ports.numbers))
        settings = {
            "node.id": "100" if role == "controller" else "0",
            "process.roles": role,
            "listeners": f"CONTROLLER://127.0.0.1:{ports.numbers[0]}"
            if role == "controller"
            else "PLAINTEXT://127.0.0.1:0",
            "controller.quorum.voters": voters,
            "log.dirs": str(tmp_path),
        }
        options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        with subprocess.Popen(
            [sys.executable, "-m", "bifrost", "server", "--stop-on-eof", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        ) as process:
            try:
                eventually(lambda: lock_holder(tmp_path / ".lock") == process.pid, "it is on its way")
                if way == "SIGTERM":
                    process.terminate()
                    process.wait(PATIENCE_S)
                out, _ = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
    assert (process.returncode, out) == (0, b"")
