"""Questions that a consumer asks the cluster: which partitions there are, and where they start and end.

Every question has an end: a cluster that does not answer in time is an error that says so. librdkafka lets no signal
through while it waits, so it is asked again and again for a short time each, and Ctrl-C gets its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, TypeVar

from bifrost.client.errors import BifrostError, UnknownPartitionError, UnknownTopicError, from_kafka
from bifrost.client.trouble import UNREACHABLE_AFTER_S, Trouble, unreachable
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RawConsumer
    from confluent_kafka import TopicPartition as RawPartition

T = TypeVar("T")

START: Final = -2
END: Final = -1
"""What ListOffsets takes in place of a timestamp."""

_NO_ANSWER: Final = frozenset(
    {"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD", "_TIMED_OUT_QUEUE"}
)
_FIRST_WAIT_S: Final = 2.0
"""Longer than brokers hold a fetch back: answers come in order, and giving up on one closes its connection."""
_NEW_TOPIC_S: Final = 1.0
"""How long a topic may be unknown after it was created: brokers learn of it one after the other."""


class Lookups:
    """Asks through librdkafka's consumer."""

    def __init__(self, raw: RawConsumer, bootstrap: str, timeout_s: float, trouble: Trouble) -> None:
        self._raw = raw
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._trouble = trouble
        self._answered = False

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; UnknownTopicError if it is not there."""
        grace = monotonic() + min(_NEW_TOPIC_S, self._timeout_s)
        while True:
            found = self._ask(lambda wait: self._raw.list_topics(topic, timeout=wait)).topics[topic]
            if found.error is None:
                return len(found.partitions)
            error = from_kafka(found.error, topic=topic, bootstrap=self._bootstrap)
            if not isinstance(error, UnknownTopicError) or monotonic() > grace:
                raise error
            sleep(0.1)

    def all_topics(self) -> dict[str, int]:
        """Every topic and its number of partitions."""
        topics = self._ask(lambda wait: self._raw.list_topics(timeout=wait)).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """All partitions of these topics."""
        return [TopicPartition(topic, index) for topic in topics for index in range(self.partition_count(topic))]

    def check_partition(self, partition: TopicPartition) -> None:
        """UnknownPartitionError if the topic has no such partition."""
        count = self.partition_count(partition.topic)
        if not 0 <= partition.partition < count:
            has = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
            raise UnknownPartitionError(
                f"topic {partition.topic} has no partition {partition.partition}", f"It has {has}."
            )

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset at or after a time in ms, START or END. What lies after the last message is the end."""
        if not times:
            return {}
        found = self._list_offsets(times)
        late = {partition: END for partition, offset in found.items() if offset < 0}
        return found | (self._list_offsets(late) if late else {})

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """What the group has committed; partitions without are left out."""
        if not partitions:
            return {}
        raw = _raw(dict.fromkeys(partitions, 0))
        answers = self._ask(lambda wait: self._raw.committed(raw, timeout=wait))
        return {partition: offset for partition, offset in self._read(answers).items() if offset >= 0}

    def _list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        raw = _raw(times)
        return self._read(self._ask(lambda wait: self._raw.offsets_for_times(raw, timeout=wait)))

    def _read(self, answers: list[RawPartition]) -> dict[TopicPartition, int]:
        for answer in answers:
            if answer.error is not None:
                raise from_kafka(
                    answer.error, topic=answer.topic, partition=answer.partition, bootstrap=self._bootstrap
                )
        return {TopicPartition(answer.topic, answer.partition): answer.offset for answer in answers}

    def _ask(self, question: Callable[[float], T]) -> T:
        from confluent_kafka import KafkaException

        started = monotonic()
        deadline = started + self._timeout_s
        wait = _FIRST_WAIT_S
        while True:
            try:
                answer = question(max(0.01, min(wait, deadline - monotonic())))
            except KafkaException as error:
                made = from_kafka(error, bootstrap=self._bootstrap)
                if made.code not in _NO_ANSWER:
                    raise made from error
                if monotonic() >= deadline or (self._is_cut_off() and monotonic() - started >= UNREACHABLE_AFTER_S):
                    raise self._no_answer(made) from error
                wait *= 2
            else:
                self._answered = True
                self._trouble.clear()
                return answer

    def _is_cut_off(self) -> bool:
        """Whether nobody has ever been there."""
        if self._answered:
            return False
        self._raw.poll(0)  # or librdkafka would not tell of the trouble; nothing can be assigned yet
        return bool(self._trouble.reason)

    def _no_answer(self, error: BifrostError) -> BifrostError:
        """Whoever never answered is not there; whoever did may only be slow."""
        if self._answered:
            return error
        return unreachable(self._bootstrap, self._trouble.reason, code=error.code)


def _raw(offsets: Mapping[TopicPartition, int]) -> list[RawPartition]:
    from confluent_kafka import TopicPartition as RawPartition

    return [RawPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
