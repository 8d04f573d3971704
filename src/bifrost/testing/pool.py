"""The clusters of one run of pytest: which cluster a test gets, and when they end.

A cluster is started when the first test needs it and serves every later test that asks for the same. They all end with
the run: one costs far less to keep than to start a thousand times. A run against somebody else's cluster starts none,
and a test that needs settings which that cluster does not have is skipped, never run against the wrong ones.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bifrost.testing.clients import Clients
from bifrost.testing.foreign import ForeignCluster
from bifrost.testing.topic import Topic

if TYPE_CHECKING:
    from bifrost.testing.cluster import Cluster

DEFAULTS = {
    # Kafka lets the first member of a group wait for others, which no test has time for.
    "group.initial.rebalance.delay.ms": "0",
}
_NAME_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Wish:
    """What a test asks of its cluster."""

    brokers: int = 1
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, marks: Iterable[Mapping[str, object]]) -> Wish:
        """The wish of all marks on a test, the closest last; ValueError says what makes no sense."""
        brokers: object = 1
        settings: dict[str, str] = {}
        for mark in marks:
            if unknown := sorted(set(mark) - {"brokers", "settings"}):
                raise ValueError(f"knows brokers and settings, but not {', '.join(unknown)}")
            brokers = mark.get("brokers", brokers)
            given = mark.get("settings", {})
            if not isinstance(given, Mapping):
                raise ValueError(f'settings is a dictionary such as {{"num.partitions": 4}}, not {given!r}')
            settings.update({str(name).replace("_", "."): text(value) for name, value in given.items()})
        if not isinstance(brokers, int) or brokers < 1:
            raise ValueError(f"brokers is how many there are to be, not {brokers!r}")
        return cls(brokers, tuple(sorted(settings.items())))

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in self.settings]
        return ",".join([f"brokers={self.brokers}", *named] if self.brokers != 1 else named) or "default"


class CannotGrantError(Exception):
    """The wish makes no sense, or cannot be granted by this version."""


class NotTheseError(Exception):
    """The cluster of this run is not one that the test can run on."""


class Pool:
    """Grants wishes."""

    def __init__(
        self, *, existing: str | None = None, shared: str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """`existing` serves every test of the run; `shared` serves those that ask for nothing special."""
        self._existing = existing
        self._shared = shared
        self._settings = {**DEFAULTS, **(settings or {})}
        self._granted: dict[Wish, Cluster | ForeignCluster] = {}
        self._clients: dict[str, Clients] = {}

    def get(self, wish: Wish) -> Cluster | ForeignCluster:
        """A running cluster as wished."""
        if wish not in self._granted:
            self._granted[wish] = self._grant(wish)
        return self._granted[wish]

    def _grant(self, wish: Wish) -> Cluster | ForeignCluster:
        if self._existing is not None:
            self._check_existing(wish)
            return ForeignCluster(self._existing)
        if self._shared is not None and wish == Wish():
            return ForeignCluster(self._shared)
        return self._start(wish)

    def _start(self, wish: Wish) -> Cluster:
        from bifrost.testing.cluster import Cluster

        try:
            settings: dict[str, Any] = {**self._settings, **dict(wish.settings)}
            return Cluster(wish.brokers, **settings).__enter__()
        except ValueError as error:
            raise CannotGrantError(f"no cluster with {wish}: {error}") from None

    def _check_existing(self, wish: Wish) -> None:
        assert self._existing is not None
        clients = self.clients(self._existing)
        ids = clients.broker_ids()
        if len(ids) < wish.brokers:
            raise NotTheseError(f"needs {wish.brokers} brokers, {self._existing} has {len(ids)}")
        if wish.settings:
            there = clients.broker_settings(ids[0])
            other = [f"{name}={value}" for name, value in wish.settings if there.get(name) != value]
            if other:
                raise NotTheseError(f"needs a cluster with {', '.join(other)}; {self._existing} has other settings")

    def clients(self, bootstrap: str) -> Clients:
        """The helpers' own clients of that cluster."""
        if bootstrap not in self._clients:
            self._clients[bootstrap] = Clients(bootstrap)
        return self._clients[bootstrap]

    def new_topic(
        self, bootstrap: str, stem: str, *, partitions: int | None = None, config: Mapping[str, object] | None = None
    ) -> Topic:
        """A topic that nobody else uses, whichever worker or run they belong to."""
        readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", stem).strip("-")[:_NAME_LENGTH_MAX]
        topic = Topic(f"{readable}-{uuid.uuid4().hex[:12]}", self.clients(bootstrap))
        self.clients(bootstrap).create_topic(topic.name, partitions, config or {})
        return topic

    def delete_topic(self, topic: Topic) -> None:
        self.clients(topic.bootstrap).delete_topic(topic.name)

    def close(self) -> None:
        """Clients first: they complain about brokers that are gone."""
        for clients in self._clients.values():
            clients.close()
        self._clients.clear()
        for cluster in self._granted.values():
            if not isinstance(cluster, ForeignCluster):
                cluster.close()
        self._granted.clear()


def text(value: object) -> str:
    """A setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
