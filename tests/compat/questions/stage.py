"""What the questions are asked about: a few topics with known records on the broker under test.

Decides which values of an answer are accidents of a run (ids, ports, names) and replaces them by what they stand for,
so that two brokers can be compared. Everything else in an answer counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from tests.compat import batches, wire
from tests.compat.clients.base import Record
from tests.compat.wire import Answer, Wire

TIME_MS = 1_700_000_000_000
"""When the records on the stage say they were made; retention is off."""

_TEXTS = {"error_message", "batch_index_error_message", "documentation"}
_NODES = {"node_id", "leader_id", "leader", "broker_id", "controller_id"}
_NODE_LISTS = {"replica_nodes", "isr_nodes"}
_UNORDERED = {
    "configs": ("name",),
    "groups": ("group_id",),
    "results": ("group_id",),
    "members": ("member_id",),
    "topic_partitions": ("topic_id",),
    "active_producers": ("producer_epoch",),
}
"""Lists whose order is a hash map's, by what they are put in order here."""


class Ask(Protocol):
    """Sends the question's own API at the version under test."""

    version: int
    wire: Wire

    def __call__(self, **fields: Any) -> Answer: ...


@dataclass
class Stage:
    """Topics on one broker; names begin with a prefix of this run."""

    bootstrap: str
    prefix: str
    node: int = -1
    aliases: dict[str, str] = field(default_factory=dict)
    """What answers call the ids of groups and members, which are new in every run."""
    has_coordinators: bool = False
    _ids: dict[UUID, str] = field(default_factory=dict)

    def name(self, suffix: str) -> str:
        return f"{self.prefix}.{suffix}"

    def topic_id(self, suffix: str) -> UUID:
        """The id of a topic on the stage, remembered so that answers can be read."""
        name = self.name(suffix)
        for known, known_name in self._ids.items():
            if known_name == name:
                return known
        with Wire(self.bootstrap) as connection:
            found = wire.topic_id(connection, name)
        self._ids[found] = name
        return found

    def topics(self) -> dict[UUID, str]:
        """The topics whose ids have been asked for, as answers call them."""
        return {topic_id: name.replace(self.prefix, "T") for topic_id, name in self._ids.items()}

    def create(self, suffix: str, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        wire.create_topic(self.bootstrap, self.name(suffix), partitions, {"retention.ms": "-1", **(configs or {})})
        self.topic_id(suffix)
        return self.name(suffix)

    def set(self) -> None:
        """`filled` has ten records in two batches, one record, and nothing; `empty` has one partition."""
        with Wire(self.bootstrap) as connection:
            (broker,) = connection.ask("metadata", 9, topics=[])["brokers"]
            self.node = broker["node_id"]
        self.create("filled", 3)
        self.create("empty", 1)
        for partition, start, count in ((0, 0, 4), (0, 4, 6), (1, 0, 1)):
            self._fill(partition, start, count)

    def _fill(self, partition: int, start: int, count: int) -> None:
        records = [
            Record(f"value {number}".encode(), key=b"key", timestamp_ms=TIME_MS + number * 1000)
            for number in range(start, start + count)
        ]
        data = {"index": partition, "records": batches.encode(records)}
        with Wire(self.bootstrap) as connection:
            topics = [{"name": self.name("filled"), "partition_data": [data]}]
            answer = connection.ask("produce", 11, acks=-1, timeout=5000, topic_data=topics)
        (stored,) = answer["responses"][0]["partition_responses"]
        assert stored["error_code"] == "none", stored

    def read(self, value: Any, key: str = "") -> Any:
        """An answer with this run's accidents replaced."""
        if isinstance(value, dict):
            return {name: self.read(each, name) for name, each in value.items()}
        if isinstance(value, list):
            read = [self.read(each, key) for each in value]
            order = _UNORDERED.get(key)
            by = next((name for name in order or () if read and isinstance(read[0], dict) and name in read[0]), None)
            return read if by is None else sorted(read, key=lambda each: str(each[by]))
        if value is None:
            return None
        if key in _TEXTS:
            return "<text>" if value else value
        if (key in _NODES or key in _NODE_LISTS) and isinstance(value, int):
            return "<node>" if value == self.node else value
        special = _SPECIAL.get(key)
        if special is not None:
            return special(self, value)
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, str):
            return self.aliases.get(value) or value.replace(self.prefix, "T")
        return value


def _read_topic_id(stage: Stage, value: str) -> str:
    known = stage._ids.get(UUID(value))
    return "<id>" if known is None else f"<id of {known.replace(stage.prefix, 'T')}>"


def _read_records(_: Stage, value: bytes) -> Any:
    return {"bytes": len(value), "batches": batches.headers_of(value)}


def _read_host(stage: Stage, value: str) -> str:
    return "<host>" if value == stage.bootstrap.rsplit(":", 1)[0] else value


def _read_port(stage: Stage, value: int) -> Any:
    return "<port>" if value == int(stage.bootstrap.rsplit(":", 1)[1]) else value


_SPECIAL: dict[str, Callable[[Stage, Any], Any]] = {
    "topic_id": _read_topic_id,
    "records": _read_records,
    "host": _read_host,
    "port": _read_port,
    "cluster_id": lambda _, value: "<cluster>" if value else value,
    "session_id": lambda _, value: "<session>" if value else value,
    "producer_id": lambda _, value: "<producer>" if value >= 0 else value,
    "log_append_time": lambda _, value: "<now>" if value > TIME_MS else value,
    "resource_name": lambda stage, value: re.sub(rf"^{stage.node}$", "<node>", value.replace(stage.prefix, "T")),
}
