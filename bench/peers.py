"""The brokers under measurement, each as a process of its own with its stock settings.

A peer knows how it is started, stopped and found (its port and its process tree), how a durability is asked of it, and
nothing about questions. `Durability` names the flush policy that a row compares: `os` leaves an acknowledged write in
the page cache, `ack` has it on disk. Kafka takes the policy per topic (`flush.messages`), Bifrost per node
(`flush.policy`). Only processes started here are ever signalled, by their own handle.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import enum
import itertools
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from typing import ClassVar

from bench import kafka_jars, procfs
from bench.admin import Admin, PeerError

START_SECONDS_MAX = 120.0  # also for thousands of partitions on a busy machine
STOP_SECONDS_MAX = 60.0
DELETE_SECONDS_MAX = 30.0


class Durability(enum.Enum):
    """What an acknowledgement means."""

    OS = "os"
    ACK = "ack"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Peer:
    """A broker process, or one that can be started; subclasses say with which command."""

    kind: ClassVar[str]
    policy_per_topic: ClassVar[bool] = False
    acks: ClassVar[int] = 1  # what a writer asks for who wants every copy there is
    _topic_numbers = itertools.count()

    def __init__(self, home: pathlib.Path, durability: Durability = Durability.OS) -> None:
        self.home = home
        self.durability = durability
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.admin = Admin(self.port, self.died)
        self._prepared = False

    @property
    def data(self) -> pathlib.Path:
        return self.home / "data"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """What an administrator does once before the first start; not part of any measured time."""

    def topic_configs(self, durability: Durability) -> dict[str, str]:
        """What a topic needs so that its acknowledgements mean that; empty where the whole node was started so."""
        assert durability is self.durability
        return {}

    def start(self) -> float:
        """Spawns the process and returns the moment (`time.monotonic`) just before; does not wait for it to serve."""
        assert self.process is None, "already started"
        self.home.mkdir(parents=True, exist_ok=True)
        if not self._prepared:
            self.prepare()
            self._prepared = True
        with (self.home / "output.txt").open("ab") as output:
            started = time.monotonic()
            # a session of its own: Ctrl-C reaches the harness alone, which then stops its peers in order
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        return started

    def stop(self) -> bool:
        """Asks for a clean shutdown, and kills what does not heed it; True if it was clean."""
        self.admin.close()
        if self.process is None:
            return False
        clean = self.process.poll() is None
        if clean:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                clean = False
                self.process.kill()
                self.process.wait()
        self.process = None  # forgotten only now: an interruption above must still find it
        return clean

    def crash(self) -> None:
        """Kills it with all its processes: what is on disk stays as it is at this moment."""
        self.admin.close()
        assert self.process is not None, "not started"
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def discard(self) -> None:
        """Stops it and forgets all it wrote; it may be started again as new."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
        self._prepared = False

    def pids(self) -> list[int]:
        return procfs.process_tree(self.process.pid) if self.process is not None else []

    def new_topic(self, partitions: int, durability: Durability) -> str:
        """A topic under a name of fixed length (so answers have one size), ready to be written and read."""
        topic = f"bench{next(self._topic_numbers):05d}"
        configs = self.topic_configs(durability)
        deadline = time.monotonic() + START_SECONDS_MAX
        self.admin.create_topics([topic], partitions, configs, deadline=deadline)
        self.admin.await_leaders(topic, list(range(partitions)), deadline=deadline)
        return topic

    def leader_ports(self, topic: str) -> list[int]:
        """Where each partition is led; empty where one node leads everything."""
        del topic
        return []

    def drop_topic(self, topic: str) -> None:
        """Deletes and waits for the files to go: dirty pages that nobody writes back cannot disturb what follows."""
        deadline = time.monotonic() + DELETE_SECONDS_MAX
        self.admin.delete_topics([topic], deadline=deadline)
        while any(self.data.glob(f"**/{topic}-*")):
            if time.monotonic() > deadline:
                raise PeerError(f"{self.kind} kept the files of a deleted topic for {DELETE_SECONDS_MAX:.0f} s")
            time.sleep(0.02)

    def output_tail(self) -> str:
        with contextlib.suppress(OSError):
            return (self.home / "output.txt").read_text(errors="replace")[-1500:]
        return ""

    def died(self) -> str | None:
        if self.process is not None and self.process.poll() is None:
            return None
        return f"{self.kind} is not running\n{self.output_tail()}"


# The options of kafka-server-start.sh and kafka-run-class.sh, which a user of the distribution gets unasked.
JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)

LOG4J = """<Configuration status="ERROR"><Appenders><Console name="out">
<PatternLayout pattern="%d{ISO8601} %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


# Of both: groups that form at once, and session timeouts short enough to be waited for.
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}


def flushed_topic(durability: Durability) -> dict[str, str]:
    """How a topic of Kafka is told to sync before it acknowledges."""
    return {"flush.messages": "1"} if durability is Durability.ACK else {}


class Kafka(Peer):
    """Apache Kafka, one combined broker and controller, defaults except addresses, factors and prompt deletion."""

    kind = "kafka"
    policy_per_topic = True

    def prepare(self) -> None:
        self._libs = kafka_jars.ensure_jars()
        self._java = kafka_jars.java()
        (self.home / "log4j2.xml").write_text(LOG4J)
        controller_port = free_port()
        one = "127.0.0.1"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{one}:{self.port},CONTROLLER://{one}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{one}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": f"{one}:{controller_port}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **GROUP_SETTINGS,
            "log.segment.delete.delay.ms": "100",
            "log.initial.task.delay.ms": "100",
        }
        if self.durability is Durability.ACK:
            properties["log.flush.interval.messages"] = "1"
        config = self.home / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        tool = [self._java, "-cp", f"{self._libs}/*", "kafka.tools.StorageTool"]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        format_ = [*tool, "format", "--standalone", f"--cluster-id={cluster}", "-c", str(config)]
        subprocess.run(format_, capture_output=True, check=True)

    def command(self) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.xml'}"
        main = ["kafka.Kafka", str(self.home / "server.properties")]
        return [self._java, *JVM_OPTIONS, logging, "-cp", f"{self._libs}/*", *main]

    def topic_configs(self, durability: Durability) -> dict[str, str]:
        return flushed_topic(durability)


class Bifrost(Peer):
    """Bifrost through its command line, one node."""

    kind = "bifrost"
    extra_settings: ClassVar[list[str]] = []

    def command(self) -> list[str]:
        groups = [f"{name}={value}" for name, value in GROUP_SETTINGS.items()]
        settings = [f"flush.policy={self.durability.value}", "log.segment.delete.delay.ms=100", *groups]
        settings += self.extra_settings
        chosen = [part for setting in settings for part in ("--set", setting)]
        where = ["--data", str(self.data), "--port", str(self.port)]
        return [sys.executable, "-m", "bifrost", "up", "--brokers", "1", *where, *chosen]


class NullSink(Peer):
    """A server that only answers: what the client reaches against it is the client's own ceiling."""

    kind = "null"
    policy_per_topic = True

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.nullsink", str(self.port)]

    def new_topic(self, partitions: int, durability: Durability) -> str:
        del partitions, durability
        deadline = time.monotonic() + START_SECONDS_MAX
        while (reason := self.died()) is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return f"bench{next(self._topic_numbers):05d}"
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        raise PeerError(f"null sink: {reason or 'does not listen'}")

    def drop_topic(self, topic: str) -> None:
        """There is nothing to drop."""


KINDS: dict[str, type[Peer]] = {peer.kind: peer for peer in (Kafka, Bifrost, NullSink)}


@dataclasses.dataclass(frozen=True, slots=True)
class Contender:
    """A peer together with the durability that a row asks of it."""

    peer: Peer
    durability: Durability

    def new_topic(self, partitions: int) -> str:
        return self.peer.new_topic(partitions, self.durability)


class Stable:
    """The peers of one run, started when first asked for, all stopped when the run ends however it ends."""

    def __init__(self, root: pathlib.Path, kinds: Mapping[str, type[Peer]]) -> None:
        self._root = root
        self._kinds = kinds
        self._numbers = itertools.count()
        self._shared: dict[tuple[int, Durability], Peer] = {}
        self._all: list[Peer] = []

    def fresh(self, kind: str, durability: Durability) -> Contender:
        """A peer nobody else uses, not started; the caller discards it."""
        peer = self._kinds[kind](self._root / f"{kind}-{next(self._numbers)}", durability)
        self._all.append(peer)
        return Contender(peer, durability)

    def shared(self, side: int, kind: str, durability: Durability) -> Contender:
        """The running peer of that side (0 reference, 1 subject); two sides may be of one kind."""
        per_topic = self._kinds[kind].policy_per_topic
        key = (side, Durability.OS if per_topic else durability)
        if key not in self._shared or self._shared[key].died() is not None:
            self._shared[key] = self.fresh(kind, key[1]).peer
            self._shared[key].start()
        return Contender(self._shared[key], durability)

    def stop_shared(self) -> None:
        for peer in self._shared.values():
            peer.discard()
        self._shared.clear()

    def close(self) -> None:
        for peer in self._all:
            peer.discard()
        shutil.rmtree(self._root, ignore_errors=True)
