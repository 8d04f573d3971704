"""The clusters under measurement: three brokers and three controllers, each node a process with its stock settings.

Three copies of everything, two of them needed for acks=all. Bifrost has three Heimdall and three Odin processes, as
`bifrost up` arranges them. Kafka comes in two arrangements, and each question names the one it meets: three nodes that
are broker and controller at once (fewer processes, so more of a small machine is left for the work), and three
controllers beside three brokers (whose controllers can be weighed and killed by themselves). Only processes started
here are ever signalled, by their own handle.
"""

from __future__ import annotations

import base64
import collections
import concurrent.futures
import dataclasses
import functools
import pathlib
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable
from typing import ClassVar

from bench import cluster_wire, kafka_jars, procfs
from bench.admin import Admin, PeerError
from bench.cluster_wire import Led, Quorum
from bench.peers import (
    JVM_OPTIONS,
    LOG4J,
    START_SECONDS_MAX,
    STOP_SECONDS_MAX,
    Bifrost,
    Durability,
    Peer,
    flushed_topic,
    free_port,
)
from bifrost.realm.plan import FIRST_ODIN_ID, Ports, Shape, plan

NODES = 3
REPLICAS = 3
MIN_IN_SYNC = 2
ACKS_ALL = -1
RETRY_SECONDS = 0.005


@dataclasses.dataclass(slots=True, eq=False)
class Node:
    """One process of a cluster."""

    id: int
    port: int
    is_broker: bool
    is_controller: bool
    command: list[str]
    output: pathlib.Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self.process is None, "already started"
        with self.output.open("ab") as output:
            # a session of its own: Ctrl-C reaches the harness alone, which then stops its peers in order
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def end(self, number: signal.Signals) -> None:
        """Sends the signal, and returns when the process has ended; kills what does not heed it."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def pids(self) -> list[int]:
        return procfs.process_tree(self.process.pid) if self.process is not None else []


class Cluster(Peer):
    """A peer of several nodes. Its `port` and its `admin` are those of the first broker."""

    acks: ClassVar[int] = ACKS_ALL

    def __init__(self, home: pathlib.Path, durability: Durability = Durability.OS) -> None:
        super().__init__(home, durability)
        self.nodes: list[Node] = []
        self._admins: dict[int, Admin] = {}
        self._leader_ports: dict[str, list[int]] = {}

    def build(self) -> list[Node]:
        """The nodes, with all that they need on disk to be started; the first broker listens on `port`."""
        raise NotImplementedError

    # The nodes

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes if node.is_broker]

    @property
    def controllers(self) -> list[Node]:
        return [node for node in self.nodes if node.is_controller]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.brokers)

    def node(self, node_id: int) -> Node:
        return next(node for node in self.nodes if node.id == node_id)

    def admin_of(self, node: Node) -> Admin:
        """A connection to that very broker; given up when it has died."""
        if node.id not in self._admins:
            self._admins[node.id] = Admin(node.port, self.died)
        return self._admins[node.id]

    def pids(self) -> list[int]:
        return [pid for node in self.nodes for pid in node.pids()]

    # Its life

    def start(self) -> float:
        assert not any(node.process for node in self.nodes), "already started"
        self.home.mkdir(parents=True, exist_ok=True)
        if not self._prepared:
            self.nodes = self.build()
            self._prepared = True
        started = time.monotonic()
        for node in self.nodes:
            node.start()
        return started

    def stop(self) -> bool:
        """Ends it at once: nobody measures how a cluster stops, and all it wrote is thrown away."""
        for admin in (self.admin, *self._admins.values()):
            admin.close()
        clean = self.died() is None
        for node in self.nodes:
            node.end(signal.SIGKILL)
        return clean

    def discard(self) -> None:
        super().discard()
        self.nodes = []
        self._admins.clear()
        self._leader_ports.clear()

    def revive(self, nodes: Iterable[Node]) -> None:
        """Starts nodes again whose process has ended, and returns when they take part in everything again."""
        deadline = time.monotonic() + START_SECONDS_MAX
        for node in nodes:
            node.end(signal.SIGKILL)
            node.start()
        self.await_quorum(deadline=deadline)

    def await_quorum(self, *, deadline: float) -> Quorum:
        """Until every controller holds what one of them leads."""
        wanted = self.describe_quorum(deadline=deadline)
        end = wanted.ends[wanted.leader]
        while min(wanted.ends.values()) < end or len(wanted.ends) < len(self.controllers):
            if time.monotonic() > deadline:
                raise PeerError(f"{self.kind}: the controllers do not come together: {wanted}")
            time.sleep(RETRY_SECONDS)
            wanted = self.describe_quorum(deadline=deadline)
        return wanted

    def died(self) -> str | None:
        running = [node for node in self.nodes if node.process is not None and node.process.poll() is None]
        if len(running) * 2 > len(self.nodes):
            return None
        return f"{self.kind} is not running\n{self.output_tail()}"

    def output_tail(self) -> str:
        return "\n".join(node.output.read_text(errors="replace")[-500:] for node in self.nodes if node.output.exists())

    # What it is asked

    def describe_quorum(self, *, deadline: float) -> Quorum:
        found: list[Quorum] = []

        def ask() -> bool:
            found.append(cluster_wire.read_quorum(self.admin.ask(cluster_wire.describe_quorum())))
            return True

        self.admin.until(ask, deadline, "describe the quorum")
        return found[-1]

    def new_topic(self, partitions: int, durability: Durability) -> str:
        """A topic that all brokers know, with every copy in sync."""
        topic = f"bench{next(self._topic_numbers):05d}"
        deadline = time.monotonic() + START_SECONDS_MAX
        configs = self.topic_configs(durability)
        self.admin.create_topics([topic], partitions, configs, deadline=deadline, replicas=REPLICAS)
        led = self.await_copies(topic, partitions, deadline=deadline)
        by_leader = collections.defaultdict(list)
        for partition, each in enumerate(led):
            by_leader[each.leader].append(partition)
        for leader, theirs in by_leader.items():
            self.admin_of(self.node(leader)).await_leaders(topic, theirs, deadline=deadline)
        self._leader_ports[topic] = [self.node(each.leader).port for each in led]
        return topic

    def await_copies(self, topic: str, partitions: int, *, deadline: float) -> list[Led]:
        """What brokers tell of the topic, once every one of them tells of as many copies as there should be."""
        found: list[Led] = []

        def ask(admin: Admin) -> bool:
            found[:] = cluster_wire.read_metadata(admin.ask(cluster_wire.metadata(topic)))
            return len(found) == partitions and all(each.leader >= 0 and each.in_sync == REPLICAS for each in found)

        for broker in self.brokers:
            admin = self.admin_of(broker)
            admin.until(functools.partial(ask, admin), deadline, f"copies of {topic}")
        return found

    def leader_ports(self, topic: str) -> list[int]:
        return self._leader_ports.get(topic, [])


class BifrostCluster(Cluster):
    """Three Heimdall and three Odin, as `bifrost up` would run them."""

    kind = "bifrost"

    def build(self) -> list[Node]:
        shape = Shape(NODES, NODES)
        odins, http = ([free_port() for _ in range(NODES)] for _ in ("quorum", "http"))
        ports = Ports([self.port, *(free_port() for _ in range(NODES - 1))], odins, http)
        chosen = {
            "flush.policy": self.durability.value,
            "min.insync.replicas": str(MIN_IN_SYNC),
            "log.segment.delete.delay.ms": "100",
            **dict(setting.split("=", 1) for setting in Bifrost.extra_settings),
        }
        nodes = []
        for planned in plan(shape, self.data, ports):
            settings = {**planned.settings, **chosen}
            options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
            command = [sys.executable, "-m", "bifrost", "server", *options]
            port = int(planned.address.rpartition(":")[2])
            roles = (planned.is_broker, not planned.is_broker)
            nodes.append(Node(planned.id, port, *roles, command, self.home / f"{planned.name}.txt"))
        return nodes


class KafkaCluster(Cluster):
    """Apache Kafka, defaults except addresses, factors and prompt deletion."""

    kind = "kafka"
    policy_per_topic = True

    def roles(self) -> list[tuple[int, str]]:
        """The id of each node, and what it is."""
        raise NotImplementedError

    def topic_configs(self, durability: Durability) -> dict[str, str]:
        return flushed_topic(durability)

    def build(self) -> list[Node]:
        libs, java = kafka_jars.ensure_jars(), kafka_jars.java()
        (self.home / "log4j2.xml").write_text(LOG4J)
        roles = self.roles()
        ports = [self.port, *(free_port() for _ in range(NODES - 1))]  # of brokers
        quorum = {node_id: free_port() for node_id, role in roles if "controller" in role}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in quorum.items())
        nodes = []
        for node_id, role in roles:
            listeners = {"CONTROLLER": quorum.get(node_id)}
            if "broker" in role:
                listeners["PLAINTEXT"] = ports.pop(0)
            config = self.home / f"node-{node_id}.properties"
            properties = self._properties(node_id, role, listeners, voters)
            config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
            logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.xml'}"
            command = [java, *JVM_OPTIONS, logging, "-cp", f"{libs}/*", "kafka.Kafka", str(config)]
            port = listeners.get("PLAINTEXT") or quorum[node_id]
            is_ = ("broker" in role, "controller" in role)
            nodes.append(Node(node_id, port, *is_, command, self.home / f"node-{node_id}.txt"))
        tool = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", "kafka.tools.StorageTool", "format"]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        configs = [str(self.home / f"node-{node.id}.properties") for node in nodes]
        with concurrent.futures.ThreadPoolExecutor(NODES) as pool:
            runs = [[*tool, f"--cluster-id={cluster}", "-c", config] for config in configs]
            list(pool.map(lambda run: subprocess.run(run, capture_output=True, check=True), runs))
        return nodes

    def _properties(self, node_id: int, role: str, listeners: dict[str, int | None], voters: str) -> dict[str, str]:
        own = {name: port for name, port in listeners.items() if port is not None}
        addresses = [f"{name}://127.0.0.1:{port}" for name, port in own.items()]
        factors = {
            f"{topic}.replication.factor": str(REPLICAS)
            for topic in ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        }
        properties = {
            "process.roles": role,
            "node.id": str(node_id),
            "listeners": ",".join(addresses),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data / f"node-{node_id}"),
            "min.insync.replicas": str(MIN_IN_SYNC),
            "log.segment.delete.delay.ms": "100",
            "log.initial.task.delay.ms": "100",
            **factors,
        }
        if "PLAINTEXT" in own:
            properties["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{own['PLAINTEXT']}"
            properties["inter.broker.listener.name"] = "PLAINTEXT"
        return properties


class CombinedKafka(KafkaCluster):
    """Three nodes, each a broker and a controller."""

    def roles(self) -> list[tuple[int, str]]:
        return [(node_id, "broker,controller") for node_id in range(NODES)]


class SeparateKafka(KafkaCluster):
    """Three brokers, and three controllers beside them, as Kafka's documentation advises for production."""

    def roles(self) -> list[tuple[int, str]]:
        controllers = [(FIRST_ODIN_ID + index, "controller") for index in range(NODES)]
        return [*controllers, *((index, "broker") for index in range(NODES))]


SEPARATE: dict[str, type[Peer]] = {"kafka": SeparateKafka, "bifrost": BifrostCluster}
COMBINED: dict[str, type[Peer]] = {"kafka": CombinedKafka, "bifrost": BifrostCluster}


def cluster_of(peer: Peer) -> Cluster:
    """The peers of these questions are clusters."""
    assert isinstance(peer, Cluster)
    return peer
