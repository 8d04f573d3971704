"""Writes through a broker that does not lead, while leaders move and die: nothing doubled, reordered or lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.client.wire.client import WireClient
from bifrost.client.wire.replica_admin import ReplicaAdmin
from bifrost.errors import ErrorCode
from bifrost.testing import Cluster
from bifrost.types import TopicPartition
from tests.integration.pipelined_writer import PipelinedWriter
from tests.waiting import eventually

T0 = TopicPartition("t", 0)
ASKED = 3
"""The broker that the writer knows, which has no replica at first."""
SOME = 100


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=4, odins=1, leader_imbalance_check_interval_seconds=3_600) as made:
        asking = AdminClient({"bootstrap.servers": made.bootstrap})
        placed = NewTopic("t", 1, replica_assignment=[[0, 1, 2]], config={"min.insync.replicas": "2"})
        (done,) = asking.create_topics([placed]).values()
        done.result(20)
        yield made


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[ReplicaAdmin]:
    with WireClient(cluster.bootstrap, {"request.timeout.ms": 30_000}) as client:
        eventually(lambda: T0 in client.replicas.layout().places)
        yield client.replicas


def lead(admin: ReplicaAdmin, *replicas: int) -> None:
    """Move the partition to these brokers, and let the first of them lead it."""
    admin.move({T0: replicas})

    def settled() -> bool:
        place = admin.layout().places[T0]
        return place.replicas == replicas and set(place.isr) == set(replicas) and not place.is_moving

    eventually(settled, f"replicas on {replicas}, all in sync")
    admin.elect_preferred([T0])
    eventually(lambda: admin.layout().places[T0].leader == replicas[0], f"{replicas[0]} leads")


def goes_on(writer: PipelinedWriter) -> None:
    before = len(writer.acknowledged)
    eventually(lambda: writer.has_written(before + SOME), "writing goes on")


def test_an_idempotent_writer_does_not_notice_that_leaders_move(cluster: Cluster, admin: ReplicaAdmin) -> None:
    address = cluster.node(ASKED).address
    with PipelinedWriter(address, T0) as writer:
        goes_on(writer)
        for replicas in ((1, 2, 0), (2, 0, 1), (0, 1, 2)):
            lead(admin, *replicas)
            goes_on(writer)
        lead(admin, ASKED, 1, 2)  # it stays where it is, and others stop passing on
        goes_on(writer)
        lead(admin, 1, 2, 0)
        goes_on(writer)
    writer.verify(address)


def test_an_idempotent_writer_does_not_notice_that_leaders_die(cluster: Cluster, admin: ReplicaAdmin) -> None:
    address = cluster.node(ASKED).address
    with PipelinedWriter(address, T0) as writer:
        goes_on(writer)
        for _ in range(2):
            leader = admin.layout().places[T0].leader
            assert leader is not None
            cluster.kill(leader)
            goes_on(writer)
            cluster.restart(leader)
            eventually(lambda: set(admin.layout().places[T0].isr) == {0, 1, 2}, "all are in sync again")
            goes_on(writer)
    assert writer.refusals.keys() & {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER}, "it was noticed"
    writer.verify(address)
