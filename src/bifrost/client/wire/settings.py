"""Settings of the wire client, under the names that Kafka's clients give them.

Java's and librdkafka's names are both understood where they differ, since settings come from both worlds. A name of
either that means nothing here is ignored: the same settings may serve several clients. Any other name is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bifrost.client.errors import ConfigError, nearest
from bifrost.client.wire.known_names import KNOWN_NAMES
from bifrost.client.wire.security import Security, read_security

READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"
ISOLATION_LEVELS: Final = {READ_UNCOMMITTED: 0, READ_COMMITTED: 1}


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Everything that can be set; times in milliseconds."""

    client_id: str = "bifrost"
    request_timeout_ms: int = 30_000
    """For one answer of one broker."""
    api_timeout_ms: int = 60_000
    """For a call with all its attempts, and for how long a fetch goes without any answer."""
    connect_timeout_ms: int = 10_000
    """For a connection to be there, and for the first answer of a cluster that nobody has heard of yet."""
    delivery_timeout_ms: int = 120_000
    """From `append` to the acknowledgement."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000
    """Below the ten minutes after which brokers hang up."""
    receive_bytes_max: int = 256 << 20
    """An answer that claims to be larger is not one."""
    fetch_bytes: int = 8 << 20
    """Of a partition, at a time."""
    fetch_bytes_max: int = 2**31 - 1
    """Of all partitions of a request, which here has one: the smaller of the two counts."""
    fetch_wait_ms: int = 500
    isolation_level: str = READ_UNCOMMITTED
    buffer_bytes: int = 64 << 20
    """What a producer may hold before `append` waits."""
    request_bytes: int = 4 << 20
    """Batches are sent together up to this size; a larger one goes alone."""
    security: Security = field(default_factory=Security)


def read_settings(given: Mapping[str, object]) -> WireSettings:
    """Settings from a mapping. ConfigError names what is wrong."""
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name in _FIELDS:
            attribute, read = _FIELDS[name]
            changes[attribute] = read(name, value)
        elif name not in KNOWN_NAMES:
            raise ConfigError(
                f"no client of Kafka has a setting {name}",
                nearest(name, _FIELDS.keys() | KNOWN_NAMES) or "Leave it out, or check its name.",
            )
    return replace(WireSettings(), **changes, security=read_security(given))


def isolation_number(name: str) -> int:
    """What an isolation level is called on the wire."""
    if name not in ISOLATION_LEVELS:
        raise ConfigError(f"no isolation level {name!r}", nearest(str(name), ISOLATION_LEVELS) or "Use read_committed.")
    return ISOLATION_LEVELS[name]


def _number(minimum: int) -> Callable[[str, object], int]:
    def read(name: str, value: object) -> int:
        try:
            number = int(str(value))
        except ValueError:
            raise ConfigError(f"{name} is {value!r}", "Give it a whole number.") from None
        if number < minimum:
            raise ConfigError(f"{name} is {number}", f"Give it at least {minimum}.")
        return number

    return read


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {value!r}", "Give it a text.")
    return value


def _isolation(_name: str, value: object) -> str:
    isolation_number(str(value))
    return str(value)


_FIELDS: Final[dict[str, tuple[str, Callable[[str, object], Any]]]] = {
    "client.id": ("client_id", _text),
    "request.timeout.ms": ("request_timeout_ms", _number(1)),
    "default.api.timeout.ms": ("api_timeout_ms", _number(1)),
    "socket.connection.setup.timeout.ms": ("connect_timeout_ms", _number(1)),
    "delivery.timeout.ms": ("delivery_timeout_ms", _number(1)),
    "message.timeout.ms": ("delivery_timeout_ms", _number(1)),
    "retry.backoff.ms": ("retry_backoff_ms", _number(1)),
    "retry.backoff.max.ms": ("retry_backoff_max_ms", _number(1)),
    "metadata.max.age.ms": ("metadata_max_age_ms", _number(0)),
    "connections.max.idle.ms": ("connections_max_idle_ms", _number(0)),
    "receive.message.max.bytes": ("receive_bytes_max", _number(1_000)),
    "max.partition.fetch.bytes": ("fetch_bytes", _number(1)),
    "fetch.message.max.bytes": ("fetch_bytes", _number(1)),
    "fetch.max.bytes": ("fetch_bytes_max", _number(1)),
    "fetch.max.wait.ms": ("fetch_wait_ms", _number(0)),
    "fetch.wait.max.ms": ("fetch_wait_ms", _number(0)),
    "isolation.level": ("isolation_level", _isolation),
    "buffer.memory": ("buffer_bytes", _number(1)),
    "max.request.size": ("request_bytes", _number(1)),
}
