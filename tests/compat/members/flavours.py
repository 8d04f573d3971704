"""The clients that can be members, by flavour: a client and the protocol its group speaks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.compat.clients.driven import FranzGo, Java, KafkaJs
from tests.compat.members.host import Host
from tests.compat.members.kcat_host import KcatHost
from tests.compat.members.spec import Protocol

_ROOT = Path(__file__).resolve().parents[3]


def _python(client: str) -> Host:
    return Host([sys.executable, "-m", "tests.compat.members.worker", client], folder=_ROOT)


HOSTS: dict[str, Callable[[], Host]] = {
    "confluent": lambda: _python("confluent"),
    "kafka-python": lambda: _python("kafka-python"),
    "aiokafka": lambda: _python("aiokafka"),
    "kcat": KcatHost,
    "kafkajs": lambda: Host(*KafkaJs.command("members.js")),
    "java": lambda: Host(*Java.command("Members")),
    "franz-go": lambda: Host(*FranzGo.command("members")),
}


@dataclass(frozen=True)
class Flavour:
    """What a test must know about a client before it asks something of it."""

    name: str
    client: str
    protocol: Protocol = "classic"
    lacks: frozenset[str] = frozenset()
    """What the client or its tool does not offer; a test that needs it leaves the client out."""

    def __str__(self) -> str:
        return self.name

    _shared: ClassVar[dict[str, Host]] = {}

    def make_host(self) -> Host:
        return HOSTS[self.client]()

    def shared_host(self) -> Host:
        """The host of this test session, for members that end with their test."""
        host = self._shared.get(self.client)
        if host is None or not host.is_alive():
            host = self._shared[self.client] = self.make_host()
        return host

    @classmethod
    def stop_hosts(cls) -> None:
        while cls._shared:
            cls._shared.popitem()[1].stop()


FLAVOURS = {
    each.name: each
    for each in (
        Flavour("confluent", "confluent"),
        Flavour("confluent-848", "confluent", "consumer", frozenset({"cooperative"})),
        Flavour("kafka-python", "kafka-python", lacks=frozenset({"later-topics"})),
        Flavour("aiokafka", "aiokafka", lacks=frozenset({"cooperative"})),
        Flavour("kcat", "kcat", lacks=frozenset({"manual-commit", "exact-times"})),
        Flavour("kafkajs", "kafkajs", lacks=frozenset({"static", "cooperative", "later-topics"})),
        Flavour("java", "java"),
        Flavour("java-848", "java", "consumer", frozenset({"cooperative"})),
        Flavour("franz-go", "franz-go"),
        Flavour("franz-go-848", "franz-go", "consumer", frozenset({"cooperative"})),
    )
}
