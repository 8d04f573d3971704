"""Three processes that are broker and controller in one: the loss of one takes a leader of partitions and the leader of
the quorum at the same moment, and neither role may wait for the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.client.descriptions import Quorum
from bifrost.client.wire.connection import Address
from bifrost.client.wire.quorum import ask_controller
from bifrost.realm.ports import ReservedPorts
from bifrost.testing.process import ProcessNode
from tests.integration.steady_writer import SteadyWriter
from tests.waiting import PATIENCE_S, eventually

TOPIC = "orders"
NODES = (1, 2, 3)
_ANSWER_S = 5.0
_MORE = 2_000
"""So many writes show that they go on."""


class Trio:
    """The three, each with a door for clients and one for the quorum."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self._doors = dict(zip(NODES, ports[:3]))
        quorum = dict(zip(NODES, ports[3:]))
        self.nodes = {
            each: ProcessNode(
                {
                    "node.id": str(each),
                    "process.roles": "broker,controller",
                    "listeners": f"PLAINTEXT://127.0.0.1:{self._doors[each]},CONTROLLER://127.0.0.1:{quorum[each]}",
                    "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{quorum[one]}" for one in NODES),
                    "log.dirs": str(folder / f"node-{each}"),
                    "default.replication.factor": "3",
                    "min.insync.replicas": "2",
                    "offsets.topic.replication.factor": "3",
                    # Whoever is fenced here was missed, and not waited for.
                    "broker.session.timeout.ms": "600000",
                }
            )
            for each in NODES
        }
        self._quorum = {each: Address("127.0.0.1", port) for each, port in quorum.items()}

    def start(self) -> None:
        """All at once: two have to be there for any to be ready."""
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(lambda node: node.start(), self.nodes.values()))

    def end(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{self._doors[node_id]}"

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, NODES))

    def active(self) -> tuple[int, int]:
        """Which of those that run leads the quorum, and in which epoch; waits for it."""
        found: list[Quorum] = []

        def look() -> bool:
            running = [each for each in NODES if self.nodes[each].is_running]
            told = {each: ask_controller(self._quorum[each], _ANSWER_S) for each in running}
            found[:] = [one for each, one in told.items() if one is not None and one.leader == each]
            return bool(found)

        eventually(look, "one of them decides")
        newest = max(found, key=lambda one: one.epoch)
        return newest.leader, newest.epoch

    def partitions(self, through: int) -> dict[int, tuple[int, list[int]]]:
        """Leader and replicas in sync of each, as this node tells it."""
        admin = AdminClient({"bootstrap.servers": self.address(through), "log_level": 0})
        told = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
        return {index: (one.leader, sorted(one.isrs)) for index, one in told.items()}


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    with ReservedPorts(2 * len(NODES)) as ports:
        trio = Trio(tmp_path, ports.numbers)
        try:
            trio.start()
            yield trio
        finally:
            trio.end()


def create(trio: Trio, through: int) -> None:
    admin = AdminClient({"bootstrap.servers": trio.address(through), "log_level": 0})
    (done,) = admin.create_topics([NewTopic(TOPIC, 3, 3)]).values()
    done.result(PATIENCE_S)


def write_one(bootstrap: str, value: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.produce(TOPIC, str(value).encode())
    assert producer.flush(PATIENCE_S) == 0


def whole(trio: Trio, through: int) -> bool:
    return all(leader > 0 and isr == [*NODES] for leader, isr in trio.partitions(through).values())


def lose_the_active(trio: Trio, writer: SteadyWriter) -> None:
    """Kill whoever leads the quorum and partitions, too: others lead both, writes go on, and it comes back."""
    dies, epoch = trio.active()
    led = [index for index, (leader, _) in trio.partitions(dies).items() if leader == dies]
    assert led, "leaders stand in rotation, so it leads partitions, too"
    trio.nodes[dies].kill()
    active, later = trio.active()
    assert active != dies
    assert later > epoch
    eventually(
        lambda: all(trio.partitions(active)[index][0] not in (-1, dies) for index in led), "others lead what it led"
    )
    reached = len(writer.acknowledged)
    eventually(lambda: len(writer.acknowledged) > reached + _MORE, "writes go on")
    trio.nodes[dies].start()
    eventually(lambda: all(whole(trio, each) for each in NODES), "it is in sync again, as everybody sees it")


def test_who_is_controller_and_leader_in_one_can_be_killed(trio: Trio) -> None:
    active, _ = trio.active()
    create(trio, through=next(each for each in NODES if each != active))
    eventually(lambda: all(whole(trio, each) for each in NODES), "everybody is in sync")
    for each in NODES:
        write_one(trio.address(each), -each)
    with SteadyWriter(trio.bootstrap, TOPIC) as writer:
        lose_the_active(trio, writer)
        lose_the_active(trio, writer)  # one that was elected when another had died
    writer.acknowledged |= {-each for each in NODES}
    writer.verify()
