"""Apache Kafka 4.3 as the oracle: one real node, or a few, run from its Maven jars.

Decides how the node is configured, when it counts as ready and how it stops. Never decides what a right answer is:
the tests ask this node and Bifrost the same questions.
"""

from __future__ import annotations

import collections
import functools
import os
import shutil
import signal
import socket
import subprocess
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat import cache

VERSION = "4.3.0"
CLUSTER_ID = "CWZDGqcuQ2OPWwEuuMuPpA"
NODE_ID = 1
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 30
_A_DAY_MS = 24 * 60 * 60 * 1000

_DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ("org.apache.logging.log4j", "log4j-1.2-api", "2.24.3"),
    ("org.apache.logging.log4j", "log4j-core", "2.24.3"),
)

_LOG4J = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d{HH:mm:ss.SSS} %-5p %c{1} %m%n"/></Console></Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
  </Loggers>
</Configuration>
"""


class StartFailedError(RuntimeError):
    """The node ended before it served; carries the end of its log."""


def java() -> str:
    return cache.tool("java", "Debian: apt-get install openjdk-17-jre-headless")


def jars() -> Path:
    """The folder with Kafka's jars, downloaded through Maven on first use."""
    java()

    def download(target: Path) -> None:
        mvn = cache.tool("mvn", "Debian: apt-get install maven")
        (target / "pom.xml").write_text(_pom())
        (target / "log4j2.xml").write_text(_LOG4J)
        cache.run(
            [mvn, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={target / 'libs'}"],
            what="Maven download of Apache Kafka",
            cwd=target,
            timeout_s=600,
        )

    return cache.once(f"kafka-{VERSION}", download) / "libs"


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in _DEPENDENCIES
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>oracle</groupId><artifactId>oracle</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def java_command(main_class: str, *arguments: str, heap: Sequence[str] = _JVM) -> list[str]:
    """A command line that runs one of the classes in Kafka's jars."""
    libs = jars()
    log4j = libs.parent / "log4j2.xml"
    return [java(), *heap, f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{libs}/*", main_class, *arguments]


def dump_log_segments(*arguments: str) -> str:
    """What Kafka's own segment reader says; it prints its complaints on stdout, its crashes on stderr."""
    done = subprocess.run(
        java_command("org.apache.kafka.tools.DumpLogSegments", *arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert "load main class" not in said, said
    return said


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _formatted(log_dirs: Path, node_id: int) -> None:
    """Gives a data directory its identity by copying one that Kafka's StorageTool has formatted (saves a JVM start).

    The quorum is named in the node's settings, so that the formatted files hold no ports.
    """

    def format_once(target: Path) -> None:
        properties = target / "format.properties"
        properties.write_text(_properties(target / "data", 1, 2, None, {}))
        command = java_command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
        cache.run(command, what="Kafka's StorageTool")

    template = cache.once(f"kafka-{VERSION}-formatted", format_once)
    shutil.copytree(template / "data", log_dirs)
    identity = log_dirs / "meta.properties"
    # The directory's own id is left out: Kafka makes one up when it starts.
    kept = [line for line in identity.read_text().splitlines() if not line.startswith(("node.id=", "directory.id="))]
    identity.write_text("\n".join([*kept, f"node.id={node_id}", ""]))


def _properties(
    log_dirs: Path, port: int, controller_port: int, advertised_port: int | None, settings: Mapping[str, str]
) -> str:
    values = {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{advertised_port or port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        "log.dirs": str(log_dirs),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A group changes its protocol while it is empty only; Kafka can also convert it with its members in it.
        "group.consumer.migration.policy": "disabled",
        # Tests write times of long ago, and retention would take the records from under their hands.
        "log.initial.task.delay.ms": str(_A_DAY_MS),
        "log.retention.check.interval.ms": str(_A_DAY_MS),
        **settings,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


@functools.cache
def _shared_classes() -> str:
    """Makes the JVM map Kafka's classes as an earlier node had loaded them (JEP 350): it starts a third sooner."""

    def load_and_keep(target: Path) -> None:
        node = KafkaNode(target / "node", jvm=[f"-XX:ArchiveClassesAtExit={target / 'classes.jsa'}"])
        node.start()
        node.stop()
        shutil.rmtree(target / "node")

    release = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    kept = cache.once(f"kafka-{VERSION}-classes-{zlib.crc32(release.encode()):08x}", load_and_keep)
    return f"-XX:SharedArchiveFile={kept / 'classes.jsa'}"


class KafkaNode:
    """One Apache Kafka node, broker and controller in one process, on ports that the system chose."""

    def __init__(
        self,
        directory: Path,
        *,
        advertised_port: int | None = None,
        jvm: Sequence[str] = (),
        joins: KafkaNode | None = None,
        **settings: str,
    ) -> None:
        """Settings carry Kafka's names with underscores for dots. One that joins another node is a broker only."""
        self.directory = directory
        self.port = free_port()
        self.controller_port = free_port() if joins is None else joins.controller_port
        self.node_id = NODE_ID if joins is None else joins.node_id + 1
        self.process: subprocess.Popen[str] | None = None
        self.lines: collections.deque[str] = collections.deque(maxlen=200)
        self._drainer: threading.Thread | None = None
        self._advertised_port = advertised_port
        self._jvm = jvm
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        if joins is not None:
            own = {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{self.port}"}
            self._settings = {**own, "node.id": str(self.node_id), **self._settings}
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def log_dirs(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        """Returns once the node serves; safe to call again after `stop`, on the same port and data."""
        if not self.log_dirs.exists():
            _formatted(self.log_dirs, self.node_id)
        properties = self.directory / "server.properties"
        properties.write_text(
            _properties(self.log_dirs, self.port, self.controller_port, self._advertised_port, self._settings)
        )
        self.process = subprocess.Popen(
            java_command("kafka.Kafka", str(properties), heap=(*_JVM, *(self._jvm or (_shared_classes(),)))),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, "LOG_DIR": str(self.directory)},
        )
        started = threading.Event()
        self._drainer = threading.Thread(target=self._drain, args=(self.process, started), daemon=True)
        self._drainer.start()
        if not started.wait(_START_TIMEOUT_S) or self.process.poll() is not None:
            self.stop(signal.SIGKILL)
            raise StartFailedError("Apache Kafka did not start:\n" + "".join(list(self.lines)[-40:]))

    def _drain(self, process: subprocess.Popen[str], started: threading.Event) -> None:
        """Keeps the pipe empty and the last lines at hand; sets `started` also at the end of the output."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.lines.append(line)
                if "Kafka Server started" in line:
                    started.set()
        started.set()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGTERM is Kafka's clean shutdown: indexes are trimmed and the clean marker is written."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._drainer is not None:
            self._drainer.join()
