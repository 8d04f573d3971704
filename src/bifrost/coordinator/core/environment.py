"""What a coordinator's core may reach of the world: a journal to write to, the time, the topics, a source of chance.

A core decides, writes down what it decided (`Journal.append`) and only then believes it. What it has written may still
be lost with the power, so every answer leaves through a `Respond` that the driver holds back until all that was written
before it is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from bifrost.coordinator.core.deadlines import Deadlines

R = TypeVar("R")

Respond = Callable[[R], None]
"""Gives a client its answer, now or later, exactly once."""


class LogRecord(NamedTuple):
    """One record of the coordinator's log; a value of None takes the key's last value back."""

    key: bytes
    value: bytes | None


class Journal(Protocol):
    """The log partition that this part of the coordinator lives in."""

    def append(self, records: Sequence[LogRecord]) -> None:
        """All of them in one batch, or an `ApiError` with the code for the client, and then none of them."""
        ...


class Topics(Protocol):
    """The topics of the cluster as they are now."""

    def partitions(self, name: str) -> int | None:
        """How many the topic has; None if there is no such topic."""
        ...

    def topic_id(self, name: str) -> UUID | None: ...

    def name(self, topic_id: UUID) -> str | None: ...

    def names(self) -> Iterable[str]: ...


class Client(NamedTuple):
    """Who asks, as groups are described to administrators."""

    client_id: str
    host: str
    """With a slash before the address, as Java prints it."""


def _no_configs(_group_id: str) -> Mapping[str, str]:
    return {}


@dataclass(slots=True)
class Environment:
    """One for each shard."""

    journal: Journal
    deadlines: Deadlines
    topics: Topics
    monotonic_ms: Callable[[], int]
    """For durations: it never goes back."""
    now_ms: Callable[[], int]
    """For timestamps that others read."""
    new_id: Callable[[], str]
    """A random UUID as text, for the ids of members."""
    configs_of: Callable[[str], Mapping[str, str]] = _no_configs
    """What somebody has set for one group."""
