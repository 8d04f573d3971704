"""Clients of other languages: a driver process per client, one JSON object a line in and out.

Decides how a call travels (bytes as base64) and how a driver is prepared: fetched and compiled once into the cache,
under a name that changes with its sources. The drivers themselves are in `java/`, `js/` and `go/`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.compat import cache, oracle
from tests.compat.clients.base import (
    TIMEOUT_S,
    Acked,
    AdminClient,
    ClientError,
    ClusterInfo,
    Codec,
    NewTopic,
    PartitionInfo,
    Record,
    Stored,
)

_HERE = Path(__file__).resolve().parents[1]


class DrivenClient(AdminClient):
    """An adapter whose work is done by a driver; one driver serves every broker of the test session."""

    _drivers: ClassVar[dict[str, subprocess.Popen[str]]] = {}

    @abstractmethod
    def _prepare(self) -> tuple[list[str], dict[str, str]]:
        """The driver's command line and environment; builds it on first use or raises `Unavailable`."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        driver = self._drivers.get(self.name)
        if driver is None or driver.poll() is not None:
            command, environment = self._prepare()
            self._drivers[self.name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment or None
            )

    @classmethod
    def stop_drivers(cls) -> None:
        """Ends every driver: they stop at the end of their input."""
        while cls._drivers:
            _, driver = cls._drivers.popitem()
            assert driver.stdin is not None
            assert driver.stdout is not None
            driver.stdin.close()
            try:
                driver.wait(10)
            except subprocess.TimeoutExpired:
                driver.kill()
                driver.wait()
            driver.stdout.close()

    def call(self, op: str, **arguments: Any) -> Any:
        """The driver's answer; its errors are raised."""
        driver = self._drivers[self.name]
        assert driver.stdin is not None
        assert driver.stdout is not None
        timeout_ms = int(TIMEOUT_S * 1000)
        driver.stdin.write(
            json.dumps({"op": op, "bootstrap": self.bootstrap, "timeout_ms": timeout_ms, **arguments}) + "\n"
        )
        driver.stdin.flush()
        answer = json.loads(driver.stdout.readline() or '{"error": {"code": null, "text": "the driver died"}}')
        if "timeout" in answer:
            raise TimeoutError(answer["timeout"])
        if "error" in answer:
            raise ClientError(answer["error"]["code"], answer["error"]["text"])
        return answer["ok"]

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: Codec = "none",
        acks: int = -1,
        idempotent: bool = False,
        max_bytes: int = 1_000_000,
        batch_bytes: int | None = None,
    ) -> list[Acked]:
        answers = self.call(
            "produce",
            topic=topic,
            codec=codec,
            acks=acks,
            idempotent=idempotent,
            max_bytes=max_bytes,
            batch_bytes=batch_bytes,
            records=[
                {
                    "key": _text(record.key),
                    "value": _text(record.value),
                    "headers": [[name, _text(value)] for name, value in record.headers],
                    "partition": record.partition,
                    "timestamp_ms": record.timestamp_ms,
                }
                for record in records
            ],
        )
        return [Acked(partition, offset if acks != 0 else None) for partition, offset in answers]

    def consume(self, topic: str, start: Mapping[int, int], count: int, *, max_bytes: int = 1_000_000) -> list[Stored]:
        found = self.call("consume", topic=topic, start=list(start.items()), count=count, max_bytes=max_bytes)
        return [
            Stored(
                partition=each["partition"],
                offset=each["offset"],
                timestamp_ms=each["timestamp_ms"],
                key=_bytes(each["key"]),
                value=_bytes(each["value"]),
                headers=tuple((name, _bytes(value)) for name, value in each["headers"]),
                append_time=each["append_time"],
            )
            for each in found
        ]

    def offsets(self, topic: str, partitions: Sequence[int], at: int) -> dict[int, int | None]:
        return dict(self.call("offsets", topic=topic, partitions=list(partitions), at=at))

    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        assignment = None if topic.assignment is None else [[p, list(ids)] for p, ids in topic.assignment.items()]
        self.call(
            "create_topic",
            topic=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=dict(topic.configs),
            assignment=assignment,
            validate_only=validate_only,
        )

    def delete_topic(self, topic: str) -> None:
        self.call("delete_topic", topic=topic)

    def create_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]] | None = None) -> None:
        lists = None if assignment is None else [list(each) for each in assignment]
        self.call("create_partitions", topic=topic, total=total, assignment=lists)

    def describe_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        rows = self.call("describe_topic", topic=topic)
        return tuple(PartitionInfo(p, leader, tuple(replicas), tuple(isr)) for p, leader, replicas, isr in sorted(rows))

    def list_topics(self) -> set[str]:
        return set(self.call("list_topics"))

    def describe_cluster(self) -> ClusterInfo:
        about = self.call("describe_cluster")
        brokers = tuple(sorted((node, host, port) for node, host, port in about["brokers"]))
        return ClusterInfo(about["cluster_id"], about["controller"], brokers)

    def describe_topic_configs(self, topic: str) -> dict[str, str | None]:
        return dict(self.call("describe_configs", kind="topic", name=topic))

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return dict(self.call("describe_configs", kind="broker", name=str(broker)))


class Java(DrivenClient):
    name = "java"

    def _prepare(self) -> tuple[list[str], dict[str, str]]:
        return self.command("Driver")

    @staticmethod
    def command(main: str) -> tuple[list[str], dict[str, str]]:
        """Runs one of our classes beside Kafka's."""
        libs = oracle.jars()

        def compile_driver(target: Path) -> None:
            javac = cache.tool("javac", "Debian: apt-get install openjdk-17-jdk-headless")
            paths = [str(_HERE / source) for source in sources]
            cache.run([javac, "-cp", f"{libs}/*", "-d", str(target), *paths], what="compiling the Java driver")

        sources = ("java/Driver.java", "java/Nodes.java", "java/Members.java", "java/Load.java")
        classes = cache.once(_keyed("java-driver", *sources), compile_driver)
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        log4j = f"-Dlog4j2.configurationFile={libs.parent / 'log4j2.xml'}"
        return [oracle.java(), *flags, log4j, "-cp", f"{classes}:{libs}/*", main], {}


class KafkaJs(DrivenClient):
    """Consumers of this client always join a group, so reading uses its own fetch call below the consumer."""

    name = "kafkajs"
    lacks = frozenset({"null-header-values"})

    def _prepare(self) -> tuple[list[str], dict[str, str]]:
        return self.command("driver.js")

    @staticmethod
    def command(script: str) -> tuple[list[str], dict[str, str]]:
        """Runs one of our scripts with kafkajs at hand."""
        node = cache.tool("node", "Debian: apt-get install nodejs")

        def install(target: Path) -> None:
            npm = cache.tool("npm", "Debian: apt-get install npm")
            shutil.copy(_HERE / "js" / "package.json", target)
            command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
            cache.run(command, what="npm install of kafkajs", cwd=target)

        modules = cache.once(_keyed("kafkajs", "js/package.json"), install) / "node_modules"
        environment = {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
        return [node, str(_HERE / "js" / script)], environment


class FranzGo(DrivenClient):
    name = "franz-go"

    def _prepare(self) -> tuple[list[str], dict[str, str]]:
        return self.command()

    @staticmethod
    def command(*arguments: str) -> tuple[list[str], dict[str, str]]:
        def build(target: Path) -> None:
            go = cache.tool("go", "see the Go project's downloads")
            command = [go, "build", "-o", str(target / "driver"), "."]
            cache.run(command, what="building the franz-go driver", cwd=_HERE / "go")

        sources = ("go/main.go", "go/admin.go", "go/members.go", "go/go.mod", "go/go.sum")
        return [str(cache.once(_keyed("franz-go", *sources), build) / "driver"), *arguments], {}


def _keyed(name: str, *sources: str) -> str:
    """A cache name that changes with the sources, so that an edited driver is built anew."""
    digest = hashlib.sha256(b"".join((_HERE / source).read_bytes() for source in sources))
    return f"{name}-{digest.hexdigest()[:12]}"


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
