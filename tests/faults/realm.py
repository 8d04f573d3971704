"""A cluster of processes that faults are done to: three Heimdalls and three Odins, whose logs are kept and read."""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.client.wire.connection import Address
from bifrost.client.wire.quorum import ask_controller
from bifrost.protocol.messages.cluster import MetadataRequest
from bifrost.realm.ports import ReservedPorts
from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode
from tests.faults.links import Links
from tests.faults.namespaces import Namespaces
from tests.integration.wire import Wire
from tests.waiting import eventually

BROKERS = (0, 1, 2)
ODINS = (100, 101, 102)
METADATA = "__cluster_metadata-0"
SETTINGS: dict[str, object] = {
    "flush.policy": "ack",
    # So that a paused or cut-off broker is missed within seconds; well above the pauses of a busy machine.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 4000,
    "replica.socket.timeout.ms": 3000,
    "replica.fetch.backoff.ms": 100,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.heartbeat.interval.ms": 500,
}
_ALARMS = ("Traceback", "AssertionError", "CRITICAL", "unexpected")
"""What a log says when something was met that nobody has thought of."""
_ANSWER_S = 5.0
_NO_DISKS: Mapping[int, Path] = {}

Described = dict[str, tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]]
"""Topics as a broker describes them: leader, replicas and replicas in sync of each partition."""


class Realm:
    """The cluster, and what can be done to it. Faults are counted, for the report."""

    def __init__(
        self,
        folder: Path,
        *,
        links: str = "",
        on_disk: Mapping[int, Path] = _NO_DISKS,
        **settings: object,
    ) -> None:
        """Links that can be cut are either a "proxy" between nodes, or the kernel's between "namespaces" that they
        have each. `on_disk` says which nodes keep their data elsewhere."""
        self.cluster = Cluster(
            brokers=len(BROKERS), odins=len(ODINS), processes=True, data_dir=folder / "data", **{**SETTINGS, **settings}
        )
        self.faults = 0
        self.down: set[int] = set()
        """Nodes that were killed or stopped on purpose."""
        self._silent: set[int] = set()
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True)
        for node_id in (*BROKERS, *ODINS):
            self.node(node_id).log = self.log_path(node_id)
        for node_id, path in on_disk.items():
            self.node(node_id).settings["log.dirs"] = str(path)
        self.links: Links | Namespaces | None = None
        if links:
            self.links = Links(self._pids) if links == "proxy" else Namespaces((*BROKERS, *ODINS))
        self._ports = ReservedPorts(len(BROKERS) if links == "proxy" else 0)

    def __enter__(self) -> Realm:
        if self.links is not None:
            self.links.__enter__()
            if isinstance(self.links, Namespaces):
                self._put_apart(self.links)
            else:
                self._put_links_between(self.links)
        try:
            self.cluster.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """At once: nobody wants the data any more."""
        for node_id in (*ODINS, *BROKERS):
            self.node(node_id).kill()
        self.cluster.close()
        if self.links is not None:
            self.links.__exit__(None, None, None)
        self._ports.release()

    # Who is who.

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def node(self, node_id: int) -> ProcessNode:
        node = self.cluster.node(node_id)
        assert isinstance(node, ProcessNode)
        return node

    def log_path(self, node_id: int) -> Path:
        return self._logs / f"{node_id}.log"

    def active_odin(self) -> int:
        """The one that decides; waits for it."""
        found: list[int] = []

        def look() -> bool:
            active = self.cluster.active_odin()
            found[:] = [active.id] if active is not None else []
            return bool(found)

        eventually(look, "an active Odin")
        return found[0]

    def odins_that_lead(self) -> list[int]:
        """As they themselves say: never two for long."""
        found = []
        for node_id in ODINS:
            host, port = self.node(node_id).address.rsplit(":", 1)
            told = ask_controller(Address(host, int(port)), _ANSWER_S) if self.node(node_id).is_running else None
            if told is not None and told.leader == node_id:
                found.append(node_id)
        return found

    def leader(self, topic: str, partition: int = 0) -> int:
        """Waits until there is one."""
        found: list[int] = []

        def look() -> bool:
            described = self.describe(next(iter(self.running(BROKERS))))
            found[:] = [described[topic][partition][0]] if topic in described else []
            return bool(found) and found[0] >= 0

        eventually(look, f"a leader of {topic}-{partition}")
        return found[0]

    def in_sync(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        return self.describe(next(iter(self.running(BROKERS))))[topic][partition][2]

    def running(self, node_ids: tuple[int, ...]) -> Iterator[int]:
        return (node_id for node_id in node_ids if self.node(node_id).is_running and node_id not in self._silent)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0})

    def create(self, topic: str, partitions: int = 3, replicas: int = 3, **configs: str) -> None:
        config = {name.replace("_", "."): value for name, value in configs.items()}
        admin = self.admin()  # which has to live as long as its futures
        (done,) = admin.create_topics([NewTopic(topic, partitions, replicas, config=config)]).values()
        try:
            done.result(20)
        except KafkaException as error:
            # No test makes a topic twice: an answer was late, and the client's own repetition finds what it has made.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        eventually(lambda: self.is_whole(topic, replicas), f"all replicas of {topic}")

    def describe(self, broker: int) -> Described:
        """By this very broker: a real client might ask another one."""
        with Wire(self.node(broker).address) as wire:
            told = wire.call(12, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        return {
            topic.name: tuple(
                (one.leader_id, tuple(one.replica_nodes), tuple(sorted(one.isr_nodes)))
                for one in sorted(topic.partitions, key=lambda one: one.partition_index)
            )
            for topic in told.topics
        }

    def is_whole(self, topic: str, replicas: int = 3) -> bool:
        """Every partition has a leader and all its replicas in sync, as every broker sees it."""
        for broker in self.running(BROKERS):
            described = self.describe(broker).get(topic, ())
            if not described or any(leader < 0 or len(isr) < replicas for leader, _, isr in described):
                return False
        return True

    # What is done to it.

    def kill(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.faults += 1
            self.down.add(node_id)
            self.cluster.kill(node_id)

    def stop(self, node_id: int) -> None:
        self.down.add(node_id)
        self.cluster.stop(node_id)

    def start(self, *node_ids: int) -> None:
        """All at once: Odins may need each other to begin."""
        with ThreadPoolExecutor(len(node_ids)) as pool:
            list(pool.map(lambda node_id: self.node(node_id).start(), node_ids))
        self.down -= set(node_ids)

    @contextmanager
    def paused(self, *node_ids: int) -> Iterator[None]:
        """They hang for the length of the block."""
        for node_id in node_ids:
            self.faults += 1
            self.cluster.pause(node_id)
        try:
            yield
        finally:
            for node_id in node_ids:
                self.cluster.resume(node_id)

    @contextmanager
    def parted(self, some: tuple[int, ...], others: tuple[int, ...] = (*BROKERS, *ODINS)) -> Iterator[None]:
        """Nothing passes between the two for the length of the block."""
        assert self.links is not None
        self.faults += 1
        self.links.part(some, others)
        try:
            yield
        finally:
            self.links.heal()

    @contextmanager
    def unreachable(self, node_id: int) -> Iterator[None]:
        """For the length of the block it is not asked anything: whoever tried would hang."""
        self._silent.add(node_id)
        try:
            yield
        finally:
            self._silent.discard(node_id)

    def lose_disk(self, node_id: int) -> None:
        """Of a node that does not run: nothing is left on it."""
        self.faults += 1
        shutil.rmtree(self.cluster.node_dir(node_id))

    def limit_files(self, node_id: int, size_bytes: int) -> None:
        """From now on, no file of the node can be written beyond this size: its disk fails such writes."""
        self.faults += 1
        resource.prlimit(self.node(node_id).pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    # What it looks like.

    def said(self, node_ids: Iterable[int], words: str) -> list[str]:
        """Lines of the logs of these nodes."""
        paths = [self.log_path(node_id) for node_id in node_ids]
        lines = [line for path in paths if path.exists() for line in path.read_text(errors="replace").splitlines()]
        return [line for line in lines if words in line]

    def from_now_on(self, *node_ids: int) -> Callable[[str], list[str]]:
        """Lines of the logs of these nodes that are not there yet; what they said before does not count."""
        before = {node_id: len(self.said([node_id], "")) for node_id in node_ids}

        def said_since(words: str) -> list[str]:
            return [
                line for node_id, count in before.items() for line in self.said([node_id], "")[count:] if words in line
            ]

        return said_since

    def ended(self) -> list[int]:
        """Nodes that are not there although nobody ended them."""
        return [
            node_id
            for node_id in (*BROKERS, *ODINS)
            if node_id not in self.down and self.node(node_id).exit_code is not None
        ]

    def alarms(self, expected: tuple[str, ...] = ()) -> list[str]:
        """What nodes said that no node should ever say, but for the words that the test gives reason for."""
        return [
            f"node {node_id}: {line.strip()}"
            for node_id in (*BROKERS, *ODINS)
            for line in self.said([node_id], "")
            if any(alarm in line for alarm in _ALARMS if alarm not in expected)
        ]

    def settle(self, *topics: str, patience_s: float = 60.0) -> None:
        """Wait until everybody is back: one Odin leads, replicas are in sync, and all brokers say the same."""
        deadline = time.monotonic() + patience_s
        eventually(lambda: len(self.odins_that_lead()) == 1, "one active Odin", deadline - time.monotonic())
        for topic in topics:
            eventually(
                lambda topic=topic: self.is_whole(topic), f"all replicas of {topic}", deadline - time.monotonic()
            )  # type: ignore[misc]
        eventually(self.agree, "brokers that agree", max(1.0, deadline - time.monotonic()))

    def agree(self) -> bool:
        described = [self.describe(broker) for broker in self.running(BROKERS)]
        return all(each == described[0] for each in described)

    # Inside.

    def _pids(self) -> Mapping[int, int]:
        return {node_id: self.node(node_id).pid for node_id in (*BROKERS, *ODINS) if self.node(node_id).has_process}

    def _put_apart(self, network: Namespaces) -> None:
        """Every node at an address of its own, on the port that it would have had."""
        for node_id in (*BROKERS, *ODINS):
            node = self.node(node_id)
            node.enter = network.enter(node_id)
            node.settings["listeners"] = node.settings["listeners"].replace("127.0.0.1", network.address(node_id))
            voters = [voter.split("@127.0.0.1:") for voter in node.settings["controller.quorum.voters"].split(",")]
            node.settings["controller.quorum.voters"] = ",".join(
                f"{voter}@{network.address(int(voter))}:{port}" for voter, port in voters
            )

    def _put_links_between(self, links: Links) -> None:
        """Brokers tell each other an address that clients are not told; voters are known by the links' doors."""
        ports = {odin: int(self.node(odin).settings["listeners"].rsplit(":", 1)[1]) for odin in ODINS}
        for node_id in (*BROKERS, *ODINS):
            doors = {odin: links.door(odin, ports[odin], source=node_id) for odin in ODINS}
            voters = ",".join(f"{odin}@127.0.0.1:{door}" for odin, door in doors.items())
            self.node(node_id).settings["controller.quorum.voters"] = voters
        for broker, port in zip(BROKERS, self._ports.numbers, strict=True):
            own: dict[str, Any] = self.node(broker).settings
            door = links.door(broker, port)
            own["listeners"] = f"{own['listeners']},INTERNAL://127.0.0.1:{port}"
            own["advertised.listeners"] = f"INTERNAL://127.0.0.1:{door}"
            own["listener.security.protocol.map"] = "INTERNAL:PLAINTEXT"
            own["inter.broker.listener.name"] = "INTERNAL"
