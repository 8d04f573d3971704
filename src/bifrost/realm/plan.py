"""Which nodes a cluster on one machine has: ids, names, addresses, directories, and the settings that follow from them.

Shared by `bifrost up` and by clusters in tests, so that both run the same. Decides only: takes no port, makes no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
FIRST_ODIN_ID: Final = 100
"""Brokers count from 0, as Kafka's do; nobody runs a hundred of them on one machine."""
ODINS_DEFAULT: Final = 3
ODINS: Final = (0, 1, 3, 5)
"""How many there can be. Four bear the loss of one, as three do, and every change waits for one more of them."""
ODIN_PORTS_AFTER: Final = 100
HTTP_PORTS_AFTER: Final = 552
"""Beyond the first broker's port: 9644, if that is 9092."""
REPLICAS_DEFAULT: Final = 3
"""Copies of a partition that does not say how many, where there are brokers enough."""

_EACH_ITS_OWN: Final = frozenset({"node.id", "process.roles", "listeners", "log.dirs", "http.listener"})
HEIMDALL: Final = "broker"
ODIN: Final = "controller"


@dataclass(frozen=True, slots=True)
class Shape:
    """How many nodes there are. No Odins: one node is broker and controller in one."""

    brokers: int
    odins: int

    @classmethod
    def of(cls, brokers: int, odins: int | None = None) -> Shape:
        """The shape that was asked for; ValueError says why there cannot be one."""
        if odins is None:
            odins = 0 if brokers == 1 else ODINS_DEFAULT
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        if brokers > FIRST_ODIN_ID:
            raise ValueError(f"at most {FIRST_ODIN_ID} brokers on one machine, not {brokers}")
        if odins < 0 or (odins == 0 and brokers > 1):
            raise ValueError("several brokers need at least one Odin; with three of them, one may fail")
        if odins not in ODINS:
            raise ValueError(f"{odins} Odins for the brokers: choose 1, 3 or 5; an even number bears no more failures")
        return cls(brokers, odins)

    @property
    def is_one_node(self) -> bool:
        return self.odins == 0

    def __str__(self) -> str:
        if self.is_one_node:
            return "one node"
        return f"{self.brokers} Heimdall and {self.odins} Odin"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """One node before it is started."""

    id: int
    name: str
    roles: tuple[str, ...]
    settings: Mapping[str, str]

    @property
    def is_broker(self) -> bool:
        return HEIMDALL in self.roles

    @property
    def address(self) -> str:
        """HOST:PORT of its listener, as planned."""
        return self.settings["listeners"].partition("://")[2]


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the nodes listen; 0 is any. No ports for HTTP: nobody serves it."""

    brokers: Sequence[int]
    odins: Sequence[int] = ()
    http: Sequence[int] = ()

    @classmethod
    def counted_from(cls, base: int, shape: Shape, *, http: bool) -> Ports:
        """Those that people can remember: 9092 and up, 9192 and up, 9644 and up."""
        return cls(
            range(base, base + shape.brokers),
            range(base + ODIN_PORTS_AFTER, base + ODIN_PORTS_AFTER + shape.odins),
            range(base + HTTP_PORTS_AFTER, base + HTTP_PORTS_AFTER + http * max(1, shape.odins)),
        )

    @classmethod
    def dealt(cls, numbers: Sequence[int], shape: Shape) -> Ports:
        """Out of those that were found free: for brokers first, then Odins, then HTTP, if any are left."""
        split = shape.brokers + shape.odins
        return cls(numbers[: shape.brokers], numbers[shape.brokers : split], numbers[split:])


def plan(shape: Shape, data: Path, ports: Ports) -> list[PlannedNode]:
    """Every node of the cluster, Odins first, since nobody is ready before they are."""
    http = [{"http.listener": f"{HOST}:{port}"} for port in ports.http] or [{}] * max(1, shape.odins)
    if shape.is_one_node:
        settings = {
            "node.id": "0",
            "listeners": f"PLAINTEXT://{HOST}:{ports.brokers[0]}",
            "log.dirs": str(data / "node-0"),
            **http[0],
        }
        return [PlannedNode(0, "node-0", (HEIMDALL, ODIN), settings)]
    ids = [FIRST_ODIN_ID + index for index in range(shape.odins)]
    voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in zip(ids, ports.odins, strict=True))
    shared = {"controller.quorum.voters": voters, **replica_settings(shape.brokers)}
    odins = [
        _planned(node_id, f"odin-{node_id}", ODIN, f"CONTROLLER://{HOST}:{port}", data, {**shared, **own})
        for node_id, port, own in zip(ids, ports.odins, http, strict=True)
    ]
    brokers = [
        _planned(index, f"heimdall-{index}", HEIMDALL, f"PLAINTEXT://{HOST}:{port}", data, shared)
        for index, port in zip(range(shape.brokers), ports.brokers, strict=True)
    ]
    return odins + brokers


def _planned(node_id: int, name: str, role: str, listener: str, data: Path, shared: Mapping[str, str]) -> PlannedNode:
    settings = {
        "node.id": str(node_id),
        "process.roles": role,
        "listeners": listener,
        "log.dirs": str(data / name),
        **shared,
    }
    return PlannedNode(node_id, name, (role,), settings)


def one_more(like: PlannedNode, broker: int, listener: str, data: Path, own: Mapping[str, str]) -> PlannedNode:
    """A broker that joins the cluster of a node that runs, with what all of its nodes have in common."""
    shared = {name: value for name, value in like.settings.items() if name not in _EACH_ITS_OWN}
    return _planned(broker, f"heimdall-{broker}", HEIMDALL, listener, data, {**shared, **own})


def replica_settings(brokers: int) -> dict[str, str]:
    """How often partitions are kept, those of users and those of the cluster itself. For Odins too: they decide."""
    copies = str(min(REPLICAS_DEFAULT, brokers))
    return {"default.replication.factor": copies, "offsets.topic.replication.factor": copies}
