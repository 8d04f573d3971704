"""The first question to a cluster: is it there, has it the topic, how many partitions?

librdkafka would try an unreachable address for as long as one lets it. Here the first word that nobody is there ends
the command, with the reason that librdkafka gave.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from bifrost.client.clusters import Connection
from bifrost.client.errors import TimedOutError, UnknownPartitionError, UnknownTopicError, UnreachableError, from_kafka
from bifrost.client.options import client_options

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin._metadata import ClusterMetadata

PATIENCE_S = 15.0
_ASK_S = 0.5
_NAMES_MAX = 3


class Client(Protocol):
    """A producer or a consumer of confluent_kafka."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata: ...
    def poll(self, timeout: float = -1) -> object: ...


class Trouble:
    """librdkafka's `error_cb`: keeps what it has to say about connections."""

    def __init__(self) -> None:
        self.reason = ""
        self.all_down = False

    def __call__(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        else:
            self.reason = _short(error.str())

    def unreachable(self, connection: Connection) -> UnreachableError:
        reason = f" ({self.reason})" if self.reason else ""
        return UnreachableError(
            f"no broker answers at {connection}{reason}",
            "Is it running, and is the address right? `bifrost up` starts one here.",
        )


def partition_counts(
    client: Client, connection: Connection, topics: Iterable[str], trouble: Trouble, *, created: bool = False
) -> dict[str, int]:
    """How many partitions each topic has. With `created`, asking may make the topic: ask until it is there."""
    found: dict[str, int] = {}
    for topic in topics:
        deadline = time.monotonic() + PATIENCE_S
        while topic not in found:
            described = metadata(client, connection, topic, trouble).topics[topic]
            if described.error is None:
                found[topic] = len(described.partitions)
            elif not created or time.monotonic() > deadline:
                raise _unknown(client, connection, topic, trouble, described.error)
            else:
                client.poll(0.1)
    return found


def metadata(client: Client, connection: Connection, topic: str | None, trouble: Trouble) -> ClusterMetadata:
    """What the cluster says of one topic or of all; UnreachableError as soon as it is clear that nobody answers."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return client.list_topics(topic, timeout=_ASK_S)
        except KafkaException as error:
            client.poll(0)
            if trouble.all_down:
                raise trouble.unreachable(connection) from error
            if time.monotonic() > deadline:
                made = from_kafka(error, topic=topic, bootstrap=str(connection))
                raise trouble.unreachable(connection) if isinstance(made, TimedOutError) else made from error


def leaders_awaited(connection: Connection, topics: Iterable[str]) -> str | None:
    """Which partitions have no leader, as the cluster tells a client of its own, which any thread may ask with."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient(client_options(connection))  # type: ignore[arg-type]
    awaited: list[str] = []
    for topic in topics:
        try:
            found = client.list_topics(topic, timeout=_ASK_S * 4).topics[topic].partitions
        except KafkaException:
            return None
        awaited += [f"{topic}-{number}" for number, one in sorted(found.items()) if one.leader < 0]
    if not awaited:
        return None
    more = f" and {len(awaited) - _NAMES_MAX} more" if len(awaited) > _NAMES_MAX else ""
    return f"a leader of {', '.join(awaited[:_NAMES_MAX])}{more}"


def check_partitions(topic: str, wanted: Iterable[int], count: int) -> None:
    for partition in wanted:
        if not 0 <= partition < count:
            raise UnknownPartitionError(f"topic {topic} has no partition {partition}", partitions_hint(count))


def partitions_hint(count: int) -> str:
    return "It has only partition 0." if count == 1 else f"It has partitions 0 to {count - 1}."


def _unknown(client: Client, connection: Connection, topic: str, trouble: Trouble, error: KafkaError) -> Exception:
    """With the name that was probably meant."""
    from difflib import get_close_matches

    made = from_kafka(error, topic=topic, bootstrap=str(connection))
    if not isinstance(made, UnknownTopicError):
        return made
    near = get_close_matches(topic, metadata(client, connection, None, trouble).topics, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}? " if near else ""
    return UnknownTopicError(f"topic {topic} does not exist", f"{hint}Create it: `bifrost topic create {topic}`.")


def _short(text: str) -> str:
    """librdkafka's `host:port/bootstrap: Connect to ipv4#1.2.3.4:9092 failed: Connection refused (after 0ms in …)`."""
    return text.partition(" (after ")[0].rpartition(": ")[2]
