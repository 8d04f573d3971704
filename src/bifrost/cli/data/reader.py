"""Reads messages for the commands: from given places without a group, or as a member of one.

Stands on confluent_kafka's consumer itself, since it needs the events at the end of partitions and hands out whole
batches. Without a group nothing is committed. With one, an offset is stored only once its message has been written out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from bifrost.cli.data.cluster import Trouble, check_partitions, metadata, partition_counts
from bifrost.cli.data.ends import Ends
from bifrost.cli.data.formats import Received
from bifrost.client.clusters import Connection
from bifrost.client.errors import BifrostError, from_kafka
from bifrost.client.options import client_options
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka import TopicPartition as Place

_TICK_S = 0.2
_BATCH = 1000
_ASK_S = 15.0
_LOST_S = 10.0
EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read. `start` is EARLIEST, LATEST, an offset, or a negative number: so many before the end."""

    topics: Sequence[str] = ()
    pattern: str | None = None
    group: str | None = None
    partitions: Sequence[int] = ()
    start: str | int = LATEST
    since_ms: int | None = None
    until_ms: int | None = None
    follow: bool = True


class Reader:
    """`for messages in reader.batches(...)`: an empty list when nothing came for a moment; ends where the plan ends."""

    def __init__(self, connection: Connection, plan: Plan, settings: Mapping[str, object]) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._connection = connection
        self._plan = plan
        self._ends: Ends | None = None
        self.assigned_s: float | None = None
        """When it was first known what to read; None while a group has not said so."""
        self.trouble = Trouble()
        defaults = {
            "group.id": plan.group or "bifrost-without-a-group",  # librdkafka insists on a name
            "enable.auto.commit": plan.group is not None,
            "enable.auto.offset.store": False,
            "auto.offset.reset": EARLIEST if plan.start == EARLIEST or not plan.group else LATEST,
            "enable.partition.eof": not plan.follow or plan.until_ms is not None,
            # By default, librdkafka rests for a second once enough messages wait, however soon they are used up.
            "fetch.queue.backoff.ms": 10,
            "error_cb": self.trouble,
        }
        try:
            self._consumer = Consumer(client_options(connection, defaults, settings))
        except KafkaException as error:
            raise from_kafka(error, bootstrap=str(connection)) from error
        try:
            self._begin()
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the group, if any, after a commit of what was written."""
        self._consumer.close()

    def batches(self, limit: Callable[[], int]) -> Iterator[list[Message]]:
        """Up to `limit()` messages at a time, as they come."""
        quiet_since = time.monotonic()
        while not self._done():
            first = self._consumer.poll(_TICK_S)
            self._look_around(quiet_since)
            if first is None:
                yield []
                continue
            more = self._consumer.consume(max(0, min(_BATCH, limit()) - 1), 0) if limit() > 1 else []
            if messages := [message for message in [first, *more] if self._is_wanted(message)]:
                quiet_since = time.monotonic()
                self.trouble.all_down = False
                yield messages

    def written(self, messages: Sequence[Message]) -> None:
        """These need not be read again by the group."""
        if self._plan.group is None:
            return
        from confluent_kafka import KafkaException

        last = {(message.topic(), message.partition()): message for message in messages}
        for message in last.values():
            try:
                self._consumer.store_offsets(message)
            except KafkaException:
                pass  # the partition has moved to another member, which will read the message again

    def _begin(self) -> None:
        plan = self._plan
        if plan.pattern is not None:
            metadata(self._consumer, self._connection, None, self.trouble)
            names = [plan.pattern if plan.pattern.startswith("^") else f"^{plan.pattern}"]
        else:
            counts = partition_counts(self._consumer, self._connection, plan.topics, self.trouble)
            names = list(plan.topics)
        if plan.group is not None:
            if not plan.follow:
                self._ends = Ends({})
            self._consumer.subscribe(names, on_assign=self._on_assign, on_revoke=self._on_revoke)
            return
        for topic, count in counts.items():
            check_partitions(topic, plan.partitions, count)
        partitions = [
            TopicPartition(topic, each) for topic in counts for each in plan.partitions or range(counts[topic])
        ]
        places = self._places(partitions)
        if not plan.follow:
            self._ends = Ends(self._still_to_read(places))
        self.assigned_s = time.monotonic()
        self._consumer.assign(places)

    def _places(self, partitions: Sequence[TopicPartition]) -> list[Place]:
        """Where to start."""
        import confluent_kafka
        from confluent_kafka import TopicPartition as Place

        start, since_ms = self._plan.start, self._plan.since_ms
        if since_ms is not None:
            return [Place(*partition, offset) for partition, offset in self._offsets_at(partitions, since_ms).items()]
        if start == EARLIEST:
            return [Place(*partition, confluent_kafka.OFFSET_BEGINNING) for partition in partitions]
        return [Place(*partition, self._numbered(partition, start)) for partition in partitions]

    def _numbered(self, partition: TopicPartition, start: str | int) -> int:
        """The end is asked for now: librdkafka would look for it later, and skip what has come until then."""
        low, high = self._watermarks(partition)
        if isinstance(start, str):
            return high
        if start < 0:
            return max(low, high + start)
        if start > high:
            raise BifrostError(
                f"partition {partition.partition} of {partition.topic} has no offset {start} yet", f"It ends at {high}."
            )
        return max(start, low)

    def _still_to_read(self, places: Sequence[Place]) -> dict[TopicPartition, int | None]:
        """The end of each partition, now or as it was at `until_ms`, without those that have nothing to read."""
        import confluent_kafka

        found: dict[TopicPartition, int | None] = {}
        keys = [TopicPartition(place.topic, place.partition) for place in places]
        until_ms = self._plan.until_ms
        limits = {} if until_ms is None else self._offsets_at(keys, until_ms)
        for key, place in zip(keys, places):
            low, high = self._watermarks(key)
            end = min(high, limits[key]) if limits.get(key, -1) >= 0 else high
            starts = {confluent_kafka.OFFSET_BEGINNING: low, confluent_kafka.OFFSET_END: high}
            if starts.get(place.offset, place.offset) < end:
                found[key] = end
        return found

    def _offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offset with that timestamp or a later one; librdkafka's mark of the end where there is none."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            found = self._consumer.offsets_for_times(
                [Place(*each, max(0, timestamp_ms)) for each in partitions], _ASK_S
            )
        except KafkaException as error:
            raise from_kafka(error, bootstrap=str(self._connection)) from error
        return {TopicPartition(place.topic, place.partition): place.offset for place in found}

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            low, high = self._consumer.get_watermark_offsets(Place(*partition), timeout=_ASK_S)
        except KafkaException as error:
            raise from_kafka(
                error, topic=partition.topic, partition=partition.partition, bootstrap=str(self._connection)
            ) from error
        return low, high

    def _look_around(self, quiet_since: float) -> None:
        """Is there a reason to end?"""
        plan = self._plan
        if self._ends is None and plan.until_ms is not None and time.time() * 1000 >= plan.until_ms:
            self._stop_at_until()
        if self._ends is not None and self.trouble.all_down and time.monotonic() > quiet_since + _LOST_S:
            raise self.trouble.unreachable(self._connection)

    def _stop_at_until(self) -> None:
        places = self._consumer.position(self._consumer.assignment())
        self._ends = Ends(self._still_to_read([place for place in places if place.offset >= 0]))

    def _done(self) -> bool:
        return self.assigned_s is not None and self._ends is not None and self._ends.done

    def _is_wanted(self, message: Message) -> bool:
        """Runs for every message: no import and no object of ours here."""
        if message.error() is not None:
            self._on_event(message)
            return False
        if self._ends is None:
            return True
        return self._ends.admits((message.topic(), message.partition()), message.offset())  # type: ignore[arg-type]

    def _on_event(self, message: Message) -> None:
        from confluent_kafka import KafkaError

        error, topic, partition = message.error(), message.topic(), message.partition()
        assert error is not None
        if error.code() != KafkaError._PARTITION_EOF:
            raise from_kafka(error, topic=topic, group=self._plan.group, bootstrap=str(self._connection))
        if self._ends is not None and topic is not None and partition is not None:
            self._ends.at_end(TopicPartition(topic, partition))

    def _on_assign(self, _: object, places: list[Place]) -> None:
        if self.assigned_s is None:
            self.assigned_s = time.monotonic()
        if self._ends is not None:
            self._ends.add(TopicPartition(place.topic, place.partition) for place in places)

    def _on_revoke(self, _: object, places: list[Place]) -> None:
        if self._ends is not None:
            self._ends.drop(TopicPartition(place.topic, place.partition) for place in places)


def received(message: Message) -> Received:
    """The message as the formats know it."""
    kind, timestamp_ms = message.timestamp()
    return Received(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        kind,
        timestamp_ms,
        message.key(),
        message.value(),
        message.headers() or (),  # type: ignore[arg-type]
        message.leader_epoch(),
    )
