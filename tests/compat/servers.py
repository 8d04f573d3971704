"""The brokers under test behind one face, so that no test knows which of them it talks to.

Decides how each is started with the same settings and where each keeps a partition on disk. Knows nothing of clients.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, Protocol

from tests.compat import keeper, oracle

SETTINGS = {
    "node.id": str(oracle.NODE_ID),
    "num.partitions": "1",
    "default.replication.factor": "1",
    "auto.create.topics.enable": "true",
    # Groups that form at once and miss their dead within seconds; the tests would otherwise mostly wait.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


class Server(Protocol):
    """A broker that answers on `bootstrap`."""

    name: str

    @property
    def bootstrap(self) -> str: ...

    def log_dir(self, topic: str, partition: int) -> Path:
        """The directory that holds the partition's segments."""

    def stop(self) -> None:
        """Ends the broker cleanly; shared and foreign brokers are left running."""


class PrivateServer(Server, Protocol):
    """A broker that one test owns: it may be stopped, killed and started again on its data and address."""

    def start(self) -> None: ...

    def kill(self) -> None: ...


class KafkaServer:
    """An Apache Kafka node of one's own."""

    name = "kafka"

    def __init__(self, directory: Path, *, advertised_port: int | None = None, **settings: str) -> None:
        self._node = oracle.KafkaNode(directory, advertised_port=advertised_port, **_merged(settings))
        self._node.start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._node.port}"

    def log_dir(self, topic: str, partition: int) -> Path:
        return self._node.log_dirs / f"{topic}-{partition}"

    def start(self) -> None:
        self._node.start()

    def stop(self) -> None:
        self._node.stop()

    def kill(self) -> None:
        self._node.stop(signal.SIGKILL)


class SharedKafka:
    """The Apache Kafka node that all workers of a test run share."""

    name = "kafka"

    def __init__(self, shared: Path) -> None:
        self._lease = keeper.join(shared, _merged({}))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._lease.port}"

    def log_dir(self, topic: str, partition: int) -> Path:
        return self._lease.log_dirs / f"{topic}-{partition}"

    def stop(self) -> None:
        self._lease.release()


class BifrostServer:
    """One Bifrost node as a process of its own."""

    name = "bifrost"

    def __init__(self, directory: Path, *, advertised_port: int | None = None, **settings: str) -> None:
        from bifrost.testing import Cluster

        if advertised_port is not None:
            settings["listeners"] = f"PLAINTEXT://127.0.0.1:{oracle.free_port()}"
            settings["advertised_listeners"] = f"PLAINTEXT://127.0.0.1:{advertised_port}"
        self._cluster: Any = Cluster(brokers=1, processes=True, data_dir=str(directory), **_merged(settings))
        self._cluster.__enter__()
        self.bootstrap: str = settings.get("listeners", self._cluster.bootstrap).removeprefix("PLAINTEXT://")

    def log_dir(self, topic: str, partition: int) -> Path:
        folder: Path = self._cluster.node_dir(0)
        return folder / f"{topic}-{partition}"

    def start(self) -> None:
        self._cluster.restart(0)

    def stop(self) -> None:
        self._cluster.stop(0)

    def kill(self) -> None:
        self._cluster.kill(0)


class ForeignServer:
    """A broker somebody else runs, named by its address only."""

    name = "foreign"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def log_dir(self, topic: str, partition: int) -> Path:
        raise FileNotFoundError(f"the files of {topic}-{partition} at {self.bootstrap} are out of reach")

    def stop(self) -> None:
        """Not ours to stop."""


def start_private(name: str, directory: Path, *, advertised_port: int | None = None, **settings: str) -> PrivateServer:
    """A broker for one test or one module; settings as keywords, underscores for dots."""
    kind: type[KafkaServer] | type[BifrostServer] = KafkaServer if name == "kafka" else BifrostServer
    return kind(directory, advertised_port=advertised_port, **settings)


def _merged(settings: dict[str, str]) -> dict[str, str]:
    common = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    return {**common, **settings}
