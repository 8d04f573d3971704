"""`bifrost.testing.Cluster` with several nodes: in threads and as processes, that die, hang and come back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.client.wire.connection import Address
from bifrost.client.wire.quorum import ask_controller
from bifrost.testing import Cluster
from tests.waiting import eventually


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def brokers(admin: AdminClient) -> list[int]:
    return sorted(admin.list_topics(timeout=30).brokers)


def create(admin: AdminClient, name: str) -> None:
    (done,) = admin.create_topics([NewTopic(name, 3, 1)]).values()
    done.result(30)


@pytest.mark.parametrize("processes", [False, True])
def test_every_node_can_die_and_come_back_on_its_port(processes: bool) -> None:
    with Cluster(brokers=2, odins=3, processes=processes) as cluster:
        admin = admin_of(cluster)
        assert brokers(admin) == [0, 1]
        assert [node.id for node in cluster.odins] == [100, 101, 102]
        addresses = [node.address for node in (*cluster.brokers, *cluster.odins)]
        assert len(set(addresses)) == 5
        create(admin, "before")

        first = cluster.active_odin()
        assert first in cluster.odins
        cluster.kill(first.id)
        eventually(lambda: cluster.active_odin() not in {None, first}, "another Odin")
        cluster.kill(1)
        eventually(lambda: brokers(admin) == [0], "the broker is fenced")
        create(admin, "meanwhile")

        cluster.restart(1)
        cluster.restart(first.id)
        eventually(lambda: brokers(admin) == [0, 1], "the broker is back")
        assert [node.address for node in (*cluster.brokers, *cluster.odins)] == addresses
        assert {"before", "meanwhile"} <= set(admin.list_topics(timeout=30).topics)
        assert first.is_running


def test_one_broker_is_one_node_and_its_own_odin(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        assert (len(cluster.brokers), cluster.odins) == (1, ())
        assert cluster.active_odin() is cluster.brokers[0] is cluster.node(0)
        cluster.restart(0)
        assert cluster.active_odin() is cluster.brokers[0]
    assert os.listdir(tmp_path) == ["node-0"]


def test_one_broker_may_have_odins_of_its_own(tmp_path: Path) -> None:
    with Cluster(brokers=1, odins=1, data_dir=tmp_path) as cluster:
        create(admin_of(cluster), "orders")
        assert cluster.active_odin() is cluster.odins[0]
        assert cluster.node_dir(100).name == "odin-100"
    assert sorted(os.listdir(tmp_path)) == ["heimdall-0", "odin-100"]
    with Cluster(brokers=1, odins=1, data_dir=tmp_path) as cluster:
        assert "orders" in admin_of(cluster).list_topics(timeout=30).topics


def test_a_paused_odin_is_passed_over_and_steps_down_when_it_wakes() -> None:
    with Cluster(
        brokers=1, odins=3, processes=True, odin_settings={"controller.quorum.fetch.timeout.ms": 500}
    ) as cluster:
        first = cluster.active_odin()
        assert first is not None
        cluster.pause(first.id)
        assert not first.is_running
        eventually(lambda: cluster.active_odin() not in {None, first}, "another Odin")
        cluster.resume(first.id)
        host, port = first.address.rsplit(":")
        eventually(lambda: ask_controller(Address(host, int(port)), 5) is None, "it knows that it does not lead")
        create(admin_of(cluster), "after")


def test_settings_can_be_given_for_each_role() -> None:
    with Cluster(
        brokers=1,
        odins=1,
        num_partitions=2,
        broker_settings={"broker_rack": "north"},
        odin_settings={"num.partitions": 5},
    ) as cluster:
        admin = admin_of(cluster)
        (done,) = admin.create_topics([NewTopic("orders", -1, -1)]).values()
        done.result(30)
        assert len(admin.list_topics("orders", timeout=30).topics["orders"].partitions) == 5, "Odin decides"
        assert admin.describe_cluster().result(30).nodes[0].rack == "north"


@pytest.mark.parametrize("processes", [False, True])
def test_a_node_that_cannot_start_ends_the_others(processes: bool) -> None:
    cluster = Cluster(brokers=2, odins=1, processes=processes, broker_settings={"num.partitions": "many"})
    with pytest.raises((ValueError, RuntimeError)), cluster:
        pass
    assert not any(node.is_running for node in (*cluster.brokers, *cluster.odins))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        Cluster(brokers=0)
    with pytest.raises(ValueError, match="need at least one Odin"):
        Cluster(brokers=3, odins=0)
    with Cluster() as cluster, pytest.raises(RuntimeError, match="only a process can be paused"):
        cluster.pause(0)
