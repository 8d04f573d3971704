"""Reads a topic for a test: from its beginning or from given offsets, in no group, until there is enough.

Never commits, so that no test sees what another has read.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from bifrost.client.errors import from_kafka
from bifrost.testing.clients import CONFIG, Clients, read_record
from bifrost.testing.record import Record

_log = logging.getLogger(__name__)
_BATCH = 500
_POLL_S = 0.1
_MORE_PATIENCE_S = 10.0
"""Beyond the time that a test gives, for what was in the topic when it began to read."""

_READER = {
    **CONFIG,
    "group.id": "bifrost-testing",  # never joined; librdkafka insists on a name
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,  # the end of a partition is known when a fetch comes back empty
}


class Reader:
    """What has been read of a topic so far, and ways to read on."""

    def __init__(self, clients: Clients, topic: str, since: Mapping[int, int] | None, deadline: float) -> None:
        self.topic = topic
        self.deadline = deadline
        self.there: dict[int, list[Record]] = defaultdict(list)
        """What has been read, by partition."""
        self.count = 0
        partitions = clients.await_topic(topic, deadline)
        self._at_end: set[int] = set()
        self._was_at_end = False
        self._partitions = set(partitions)
        self._bootstrap = clients.bootstrap
        self._consumer = Consumer({**_READER, "bootstrap.servers": clients.bootstrap}, logger=_log)
        # Asked for by number: librdkafka waits half a second before it looks up what "the beginning" is.
        start = {**clients.start_offsets(topic, partitions), **(since or {})}
        self._consumer.assign([TopicPartition(topic, each, start[each]) for each in partitions])

    @property
    def at_end(self) -> bool:
        """Whether all there was has been read, when it was last looked at."""
        return self._at_end >= self._partitions

    @property
    def late(self) -> bool:
        """Whether the time is up. What was there already is read first, also on a machine that is slow."""
        patience_s = 0.0 if self._was_at_end else _MORE_PATIENCE_S
        return time.monotonic() >= self.deadline + patience_s

    def records(self) -> list[Record]:
        """What has been read, by partition and offset."""
        return [record for partition in sorted(self.there) for record in self.there[partition]]

    def step(self) -> None:
        """Waits a moment for more."""
        left_s = max(0.0, self.deadline - time.monotonic()) if self._was_at_end else _POLL_S
        first = self._consumer.poll(min(_POLL_S, left_s))
        if first is not None:
            self._take(first)
            for message in self._consumer.consume(_BATCH, 0):
                self._take(message)

    def _take(self, message: Message) -> None:
        error = message.error()
        partition = message.partition()
        if error is None:
            assert partition is not None
            self._at_end.discard(partition)
            self.there[partition].append(read_record(message))
            self.count += 1
        elif error.code() == KafkaError._PARTITION_EOF:
            assert partition is not None
            self._at_end.add(partition)
            self._was_at_end = self._was_at_end or self.at_end
        elif not error.retriable():
            raise from_kafka(error, topic=self.topic, bootstrap=self._bootstrap)

    def read_to_end(self) -> None:
        """Reads until every partition has been read to its end, or the time is up."""
        while not self.at_end and not self.late:
            self.step()

    def read_at_least(self, count: int) -> None:
        """Reads until there are so many, then on to the end, or until the time is up."""
        while self.count < count and not self.late:
            self.step()
        self.read_to_end()

    def watch(self, seconds: float, count: int) -> None:
        """Reads on for that long, or until there are more than so many."""
        self.deadline = time.monotonic() + seconds
        while self.count <= count and not self.late:
            self.step()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()
