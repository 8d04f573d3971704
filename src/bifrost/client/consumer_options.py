"""What a consumer can be told, checked before anything is connected, and the same in librdkafka's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from bifrost.client.clusters import Connection
from bifrost.client.errors import ConfigError, SerializationError, UnsupportedError, from_kafka, nearest
from bifrost.client.message import Message
from bifrost.client.options import ADDRESS_NAMES, client_options, refuse_names
from bifrost.client.serialization import Format
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RawConsumer

    from bifrost.client.async_consumer import AsyncConsumer
    from bifrost.client.consumer import Consumer

Delivery = Literal["at_least_once", "at_most_once", "exactly_once"]
GroupProtocol = Literal["classic", "consumer"]
Rebalanced = Callable[["Consumer", list[TopicPartition]], object]
"""Called with the consumer and the partitions that it got or lost."""
AsyncRebalanced = Callable[["AsyncConsumer", list[TopicPartition]], object]
"""The same; what it returns is awaited if it can be."""
BadMessage = Callable[[Message[bytes | None, bytes | None], SerializationError], object]
"""Called with a message as bytes, and why its key or value could not be read."""

LOOK_EVERY_S: Final = 10.0
"""How long a new topic that a pattern matches may go unnoticed, and a new partition."""
NO_GROUP: Final = "bifrost.reader"
"""librdkafka wants a group's name even from a consumer that joins none and commits nothing."""


class AsyncConsumerOptions(TypedDict, total=False):
    """The keyword arguments of `AsyncConsumer`, which are those of `Consumer`; that explains them."""

    bootstrap: str | Sequence[str] | None
    cluster: str | None
    group: str | None
    pattern: str | None
    from_beginning: bool
    until_end: bool
    timeout_s: float | None
    key: Format | Callable[[bytes], Any]
    value: Format | Callable[[bytes], Any]
    on_bad_message: BadMessage | None
    delivery: Delivery
    auto_commit: bool
    commit_interval_s: float
    group_protocol: GroupProtocol
    instance_id: str | None
    on_assigned: AsyncRebalanced | None
    on_revoked: AsyncRebalanced | None
    on_lost: AsyncRebalanced | None
    request_timeout_s: float
    config: Mapping[str, object] | None


_OWN: Final[dict[str, str]] = {
    "auto.offset.reset": "from_beginning=",
    "auto.commit.interval.ms": "commit_interval_s=",
    **ADDRESS_NAMES,
    "enable.auto.commit": "auto_commit=",
    "enable.auto.offset.store": "delivery=",
    "enable.partition.eof": "until_end=",
    "group.id": "group=",
    "group.instance.id": "instance_id=",
    "group.protocol": "group_protocol=",
}


def check(
    *, group: str | None, delivery: str, auto_commit: bool, group_protocol: str, config: Mapping[str, object] | None
) -> None:
    """Refuse what makes no sense, with the option's name and what to say instead."""
    if delivery == "exactly_once":
        raise UnsupportedError(
            'delivery="exactly_once" needs transactions, which are not there yet',
            'Use "at_least_once", and let the handling of a message bear a repetition.',
        )
    _one_of("delivery", delivery, ("at_least_once", "at_most_once"))
    _one_of("group_protocol", group_protocol, ("classic", "consumer"))
    if delivery == "at_most_once" and group is None:
        raise ConfigError(
            'delivery="at_most_once" without a group', "Give group=: only a group remembers what was read."
        )
    if delivery == "at_most_once" and not auto_commit:
        raise ConfigError(
            'delivery="at_most_once" with auto_commit=False',
            "Leave auto_commit out: every message is committed before it is given out.",
        )
    if group is not None and not group:
        raise ConfigError("the group's name is empty", "Name it, or leave group= out to read without one.")
    refuse_names(config, _OWN)


def librdkafka_options(
    connection: Connection,
    *,
    group: str | None,
    from_beginning: bool,
    until_end: bool,
    group_protocol: str,
    instance_id: str | None,
    config: Mapping[str, object] | None,
) -> dict[str, object]:
    """What to open librdkafka's consumer with. It commits nothing by itself: we know what was handled."""
    own: dict[str, object] = {
        "group.id": group or NO_GROUP,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": until_end,
        # librdkafka would hand out what a disk has spoilt as if it had been written so; other clients look by default.
        "check.crcs": True,
        "topic.metadata.refresh.interval.ms": round(LOOK_EVERY_S * 1000),
        # When enough is fetched ahead, librdkafka rests for a second, and a fast reader waits for most of it.
        "fetch.queue.backoff.ms": 10,
    }
    if group is not None:
        own["group.protocol"] = group_protocol
    if instance_id is not None:
        own["group.instance.id"] = instance_id
    return client_options(connection, own, config)


def open_raw(options: dict[str, object], bootstrap: str) -> RawConsumer:
    """librdkafka's consumer; a setting that it refuses is a ConfigError."""
    from confluent_kafka import Consumer as RawConsumer
    from confluent_kafka import KafkaException

    try:
        return RawConsumer(options)
    except KafkaException as error:
        raise from_kafka(error, bootstrap=bootstrap) from error


def is_cooperative(group_protocol: str, config: Mapping[str, object] | None) -> bool:
    """Whether partitions come and go one by one (KIP-429) rather than all at once."""
    strategy = str((config or {}).get("partition.assignment.strategy", ""))
    return group_protocol == "consumer" or "cooperative" in strategy


def _one_of(option: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        hint = nearest(str(given), known) or f"There are {', '.join(known)}."
        raise ConfigError(f"{option}={given!r} is unknown", hint)
