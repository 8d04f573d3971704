"""Messages that were fetched and are not yet given out.

Fetching many at a time is what makes reading one at a time fast. The price is this store: messages of a partition that
is paused, sought or taken away must not come out of it any more. Pure: knows neither librdkafka's consumer nor time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from bifrost.client.message import Message
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message as RawMessage


class Inbox:
    """The fetched messages in the order in which they came, those of paused partitions aside."""

    def __init__(self) -> None:
        self.ready: deque[Message[Any, Any]] = deque()
        """The first of them, decoded; whoever gives one out takes it from here. The same object for ever."""
        self._queue: deque[RawMessage] = deque()
        self._decoded = 0
        """How many of the queue were decoded; as many as are no longer ready were given out since."""
        self._aside: dict[TopicPartition, list[RawMessage]] = {}
        """Exactly the paused partitions; librdkafka goes on after these messages when it resumes."""

    @property
    def queue(self) -> deque[RawMessage]:
        """What can be given out."""
        for _ in range(self._decoded - len(self.ready)):
            self._queue.popleft()
        self._decoded = len(self.ready)
        return self._queue

    @property
    def paused(self) -> Collection[TopicPartition]:
        return self._aside.keys()

    def add(self, messages: Iterable[RawMessage]) -> None:
        if not self._aside:
            self._queue.extend(messages)
            return
        for message in messages:
            self._aside.get(_partition(message), self._queue).append(message)

    def decoded(self, messages: Iterable[Message[Any, Any]]) -> None:
        """These are the first messages of the queue, ready to be given out."""
        assert not self.ready
        self.ready.extend(messages)
        self._decoded = len(self.ready)

    def keep(self) -> None:
        """What is ready is not given out after all, or not yet."""
        _ = self.queue
        self.ready.clear()
        self._decoded = 0

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        fresh: dict[TopicPartition, list[RawMessage]] = {}
        for partition in partitions:
            if partition not in self._aside:
                fresh[partition] = self._aside[partition] = []
        self._sift(fresh)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._queue.extend(self._aside.pop(partition, ()))

    def drop(self, partitions: Collection[TopicPartition], *, unpause: bool) -> None:
        """Forget the messages of these partitions, and with `unpause` also that they were paused."""
        gone = set(partitions)
        for partition in gone & self._aside.keys():
            if unpause:
                del self._aside[partition]
            else:
                self._aside[partition].clear()
        self._sift({partition: [] for partition in gone})

    def first_offsets(self) -> dict[TopicPartition, int]:
        """The offset of the first message of each partition here."""
        found: dict[TopicPartition, int] = {}
        for message in (*self.queue, *(each for heap in self._aside.values() for each in heap)):
            found.setdefault(_partition(message), message.offset() or 0)
        return found

    def _sift(self, heaps: dict[TopicPartition, list[RawMessage]]) -> None:
        """Move what belongs to a heap out of the queue and onto it."""
        self.keep()
        if not heaps or not self._queue:
            return
        kept: list[RawMessage] = []
        for message in self._queue:
            heaps.get(_partition(message), kept).append(message)
        self._queue.clear()
        self._queue.extend(kept)


def _partition(message: Any) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())
