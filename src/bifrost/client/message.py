"""A message as a consumer gives it out: where it lies in the log, and what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from bifrost.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

Headers = list[tuple[str, bytes | None]]

SHOWN_CHARACTERS: Final = 80
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Source(Protocol):
    """What a message is read from: librdkafka's message, or one made by hand."""

    def topic(self) -> Any: ...
    def partition(self) -> Any: ...
    def offset(self) -> Any: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Any: ...
    def leader_epoch(self) -> Any: ...


# A view, because a loop looks at key and value and seldom at the rest: reading everything of every message would double
# the price of reading. The garbage collector does not track it: it would walk every message of a batch again and again.
class Message(msgspec.Struct, Generic[K, V], frozen=True, gc=False, eq=False):
    """One message of a topic: key and value as the consumer was told to read them, the rest as it was stored.

    Consumers make them; `Message.of()` makes one by hand, for tests.

    >>> message = Message.of("readings", 0, 17, key="garden", value={"celsius": 21.5}, timestamp_ms=1_700_000_000_000)
    >>> message.value["celsius"]
    21.5
    >>> message.timestamp
    datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc)
    >>> message
    <Message readings-0@17 2023-11-14T22:13:20.000Z key='garden' value={'celsius': 21.5}>
    """

    _source: Source
    key: K
    value: V

    @classmethod
    def of(
        cls,
        topic: str,
        partition: int,
        offset: int,
        *,
        key: K,
        value: V,
        timestamp_ms: int = -1,
        headers: Sequence[tuple[str, bytes | None]] = (),
        leader_epoch: int | None = None,
    ) -> Message[K, V]:
        """A message that no consumer has read."""
        return Message(_Made(topic, partition, offset, timestamp_ms, list(headers), leader_epoch), key, value)

    @property
    def topic(self) -> str:
        return self._source.topic()  # type: ignore[no-any-return]  # only librdkafka's errors have none

    @property
    def partition(self) -> int:
        return self._source.partition()  # type: ignore[no-any-return]

    @property
    def offset(self) -> int:
        return self._source.offset()  # type: ignore[no-any-return]

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970, set by the producer or by the broker, as the topic has it; -1 if neither did."""
        return self._source.timestamp()[1]

    @property
    def timestamp(self) -> datetime:
        """`timestamp_ms` as a point in time, in UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp_ms)

    @property
    def headers(self) -> Headers:
        return self._source.headers() or []

    @property
    def leader_epoch(self) -> int | None:
        return self._source.leader_epoch()  # type: ignore[no-any-return]

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one value, as `seek()`, `pause()` and `commit()` take it."""
        return TopicPartition(self.topic, self.partition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self._fields()

    def __repr__(self) -> str:
        parts = [f"{self.topic}-{self.partition}@{self.offset}"]
        if self.timestamp_ms >= 0:
            parts.append(self.timestamp.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.timestamp_ms % 1000:03}Z")
        parts += [f"key={_short(self.key)}", f"value={_short(self.value)}"]
        if self.headers:
            parts.append(f"headers={_short(self.headers)}")
        return f"<Message {' '.join(parts)}>"

    def _fields(self) -> tuple[Any, ...]:
        place = (self.topic, self.partition, self.offset)
        return (*place, self.key, self.value, self.timestamp_ms, self.headers, self.leader_epoch)


class _Made(msgspec.Struct, frozen=True):
    """The part of librdkafka's message that a message made by hand needs."""

    of_topic: str
    of_partition: int
    at: int
    timestamp_ms: int
    all_headers: Headers
    epoch: int | None

    def topic(self) -> str:
        return self.of_topic

    def partition(self) -> int:
        return self.of_partition

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.timestamp_ms

    def headers(self) -> Headers:
        return self.all_headers

    def leader_epoch(self) -> int | None:
        return self.epoch


def _rebuild(
    topic: str,
    partition: int,
    offset: int,
    key: Any,
    value: Any,
    timestamp_ms: int,
    headers: Headers,
    epoch: int | None,
) -> Message[Any, Any]:
    return Message(_Made(topic, partition, offset, timestamp_ms, headers, epoch), key, value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
