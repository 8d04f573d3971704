"""Three Odins and three Heimdalls in one process: who leads is decided without a word of configuration more, any broker
answers for all, and a death is noticed at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.testing.embedded import EmbeddedNode
from bifrost.testing.ports import ReservedPorts
from tests.waiting import eventually


class Realm:
    """A cluster of nodes that have one role each."""

    def __init__(self, folder: Path) -> None:
        ports = ReservedPorts(3)
        self._ports = ports
        voters = ",".join(f"{100 + index}@127.0.0.1:{port}" for index, port in enumerate(ports.numbers))
        shared = {"controller.quorum.voters": voters, "flush.policy": "os"}
        self.odins = [
            EmbeddedNode(
                {
                    **shared,
                    "node.id": str(100 + index),
                    "process.roles": "controller",
                    "listeners": f"CONTROLLER://127.0.0.1:{port}",
                    "log.dirs": str(folder / f"odin-{index}"),
                }
            )
            for index, port in enumerate(ports.numbers)
        ]
        self.brokers = [
            EmbeddedNode(
                {
                    **shared,
                    "node.id": str(index),
                    "process.roles": "broker",
                    "log.dirs": str(folder / f"broker-{index}"),
                }
            )
            for index in range(3)
        ]

    def start(self) -> None:
        nodes = [*self.odins, *self.brokers]
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(EmbeddedNode.start, nodes))
        self._ports.release()

    def stop(self) -> None:
        for node in (*self.brokers, *self.odins):
            node.kill()

    def admin(self, broker: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.brokers[broker].address})

    def active(self) -> list[EmbeddedNode]:
        """The controllers that think they are the active one."""
        running = [odin for odin in self.odins if odin._node is not None]
        return [odin for odin in running if odin._node._odin.controller.is_active]  # type: ignore[union-attr]


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Realm]:
    realm = Realm(tmp_path)
    realm.start()
    yield realm
    realm.stop()


def create(admin: AdminClient, name: str, partitions: int = 3) -> None:
    for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        done.result(20)


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {index: partition.leader for index, partition in partitions.items()}


def test_any_broker_answers_and_leaders_stand_in_rotation(realm: Realm) -> None:
    create(realm.admin(1), "orders")
    for broker in range(3):
        admin = realm.admin(broker)
        eventually(lambda admin=admin: leaders(admin, "orders") == {0: 0, 1: 1, 2: 2})  # type: ignore[misc]
    producer = Producer({"bootstrap.servers": realm.brokers[2].address, "enable.idempotence": True})
    for number in range(300):
        producer.produce("orders", b"x", key=b"%d" % number)
    assert producer.flush(20) == 0
    assert len(realm.active()) == 1


def test_another_odin_takes_over_and_nothing_is_forgotten(realm: Realm) -> None:
    admin = realm.admin(0)
    create(admin, "before")
    (first,) = realm.active()
    first.kill()
    eventually(lambda: bool(realm.active()))
    create(admin, "after")
    eventually(lambda: {"before", "after"} <= set(admin.list_topics(timeout=10).topics))
    first.start()
    (second,) = realm.active()
    second.kill()
    eventually(lambda: bool(realm.active()))
    create(admin, "last")


def test_a_dead_broker_is_fenced_at_once_and_leads_again_when_it_is_back(realm: Realm) -> None:
    admin = realm.admin(1)
    create(admin, "orders")
    eventually(lambda: leaders(admin, "orders") == {0: 0, 1: 1, 2: 2})
    realm.brokers[0].kill()
    eventually(lambda: leaders(admin, "orders") == {0: -1, 1: 1, 2: 2})
    assert sorted(admin.list_topics(timeout=10).brokers) == [1, 2]
    realm.brokers[0].start()
    eventually(lambda: leaders(admin, "orders") == {0: 0, 1: 1, 2: 2})


def test_without_a_majority_nothing_changes_and_reads_go_on(realm: Realm) -> None:
    admin = realm.admin(0)
    create(admin, "before")
    (active,) = realm.active()
    others = [odin for odin in realm.odins if odin is not active]
    for odin in others:
        odin.kill()
    request = admin.create_topics([NewTopic("alone", 1, 1)], operation_timeout=1, request_timeout=4)["alone"]
    with pytest.raises(KafkaException):
        request.result(20)
    other = realm.admin(1)  # whose connection does not wait for the answer to that
    assert "before" in other.list_topics(timeout=10).topics
    others[0].start()
    create(other, "together")


def test_more_than_one_replica_is_refused_while_nothing_replicates(realm: Realm) -> None:
    admin = realm.admin(0)
    (refused,) = admin.create_topics([NewTopic("safe", 1, 2)]).values()
    with pytest.raises(KafkaException, match="one replica each"):
        refused.result(20)
