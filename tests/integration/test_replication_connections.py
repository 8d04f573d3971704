"""One connection from a broker to another carries all partitions that it follows there, as the kernel counts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode
from tests.waiting import eventually

TOPIC = "orders"
PARTITIONS = 48
BROKERS = (0, 1, 2)
PAIRS = [(follower, leader) for follower in BROKERS for leader in BROKERS if follower != leader]
_ESTABLISHED = "01"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Of processes, so that it is known whose connections they are."""
    with Cluster(brokers=len(BROKERS), odins=1, processes=True) as cluster:
        yield cluster


def test_one_connection_between_two_brokers_carries_all_their_partitions(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (made,) = admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(BROKERS))]).values()
    made.result(30)
    write_to_every_partition(cluster)
    partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
    for leader in BROKERS:
        assert sum(partition.leader == leader for partition in partitions) >= PARTITIONS / len(BROKERS) / 2
    assert all(sorted(partition.isrs) == list(BROKERS) for partition in partitions), "all of them are followed"
    before = connections(cluster)
    write_to_every_partition(cluster)
    after = connections(cluster)
    assert {pair: len(found) for pair, found in after.items()} == dict.fromkeys(PAIRS, 1)
    assert after == before, "and the same one all the time"


def write_to_every_partition(cluster: Cluster) -> None:
    """Until every replica in sync has every one of them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    failed: list[object] = []
    for partition in range(PARTITIONS):
        producer.produce(
            TOPIC, b"x", partition=partition, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(60) == 0
    assert failed == []
    eventually(lambda: all(has_all(cluster, broker) for broker in BROKERS), "every replica has its record")


def has_all(cluster: Cluster, broker: int) -> bool:
    logs = cluster.node_dir(broker).glob(f"{TOPIC}-*/*.log")
    return sum(log.stat().st_size > 0 for log in logs) == PARTITIONS


def connections(cluster: Cluster) -> dict[tuple[int, int], set[str]]:
    """Those that one broker has opened to the listener of another, by both."""
    inodes = {broker: sockets_of(node(cluster, broker).pid) for broker in BROKERS}
    ports = {broker: int(node(cluster, broker).address.rsplit(":", 1)[1]) for broker in BROKERS}
    found: dict[tuple[int, int], set[str]] = {pair: set() for pair in PAIRS}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        remote, state, inode = fields[2], fields[3], fields[9]  # addresses have their port in hexadecimal
        for follower, leader in PAIRS:
            if state == _ESTABLISHED and remote.endswith(f":{ports[leader]:04X}") and inode in inodes[follower]:
                found[follower, leader].add(inode)
    return found


def sockets_of(pid: int) -> set[str]:
    """As the kernel's table of connections names them."""
    links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    return {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}


def node(cluster: Cluster, broker: int) -> ProcessNode:
    found = cluster.node(broker)
    assert isinstance(found, ProcessNode)
    return found
