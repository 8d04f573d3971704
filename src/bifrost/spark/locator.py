"""Finds, on the driver, which partitions there are and where they begin and end.

Knows the wire client only by the three questions it asks of it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from bifrost.client.errors import TimedOutError, UnknownPartitionError, UnreachableError
from bifrost.spark.failures import OptionError, first_contact, told_of
from bifrost.spark.limits import AtEdge, AtOffsets, AtTimestamp, Limit
from bifrost.spark.offsets import EARLIEST, LATEST, Offsets
from bifrost.spark.read_options import ReadOptions
from bifrost.types import INTERNAL_TOPICS, TopicPartition

_log = logging.getLogger(__name__)
_Found = TypeVar("_Found")


class Found(Protocol):
    """An answer to where a partition has something."""

    @property
    def offset(self) -> int: ...


class Brokers(Protocol):
    """What is asked of the cluster."""

    def topics(self) -> Iterable[str]: ...

    def partitions(self, topic: str) -> Iterable[int]: ...

    def list_offsets(
        self, questions: Mapping[tuple[str, int], int], isolation: str
    ) -> Mapping[tuple[str, int], Found | None]: ...


class Locator:
    """Answers for one query. Partitions may be remembered for a while; offsets never are."""

    def __init__(self, brokers: Brokers, options: ReadOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._brokers = brokers
        self._options = options
        self._now = now
        self._partitions: list[TopicPartition] = []
        self._partitions_until = float("-inf")
        self._was_heard = False
        """Whether anybody has answered yet."""

    def partitions(self) -> list[TopicPartition]:
        """All that the query subscribes to, as of now, or as of at most `partition.metadata.cache.ttl.ms` ago."""
        if self._now() >= self._partitions_until:
            self._partitions = self._retried(self._find_partitions)
            self._partitions_until = self._now() + self._options.metadata_cache_ms / 1_000
        return self._partitions

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where these begin; those that do not exist are left out."""
        existing = set(self.partitions())
        return self._ask({partition: EARLIEST for partition in partitions if partition in existing})

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """Where each partition ends.

        `known` are offsets that were read already. A broker that has just become leader may not know yet how far
        it has come (KAFKA-7703), so an end before them is asked for again before it is believed.
        """
        questions = dict.fromkeys(self.partitions(), LATEST)
        for attempt in range(1, self._options.offset_attempts + 1):
            found = self._ask(questions)
            behind = [each for each, offset in found.items() if offset < (known or {}).get(each, 0)]
            if not behind or attempt == self._options.offset_attempts:
                break
            _log.warning("ends before what was read: %s; asking again", ", ".join(map(str, behind)))
            time.sleep(self._options.offset_retry_ms / 1_000)
        return found

    def at_timestamp(self, timestamp_ms: int) -> Offsets:
        """The first record of each partition that is not older; partitions without one are left out."""
        return self._ask(dict.fromkeys(self.partitions(), timestamp_ms))

    def resolve(self, limit: Limit, option: str) -> Offsets:
        """Offsets for where the program said to start or end; `option` is how it said so."""
        partitions = self.partitions()
        if isinstance(limit, AtEdge):
            return self._ask(dict.fromkeys(partitions, limit.edge))
        if isinstance(limit, AtOffsets):
            _check_complete(option, limit.offsets, partitions)
            edges = {each: offset for each, offset in limit.offsets.items() if offset < 0}
            return {**limit.offsets, **(self._ask(edges) if edges else {})}
        if isinstance(limit, AtTimestamp):
            questions = dict.fromkeys(partitions, limit.timestamp_ms)
        else:
            _check_complete(f"{option}ByTimestamp", limit.timestamps_ms, partitions)
            questions = limit.timestamps_ms
        return self._at_timestamps(questions, or_latest=limit.or_latest)

    def _at_timestamps(self, questions: Offsets, *, or_latest: bool) -> Offsets:
        found = self._ask(questions)
        without = {partition: LATEST for partition in questions if partition not in found}
        if without and not or_latest:
            partition = min(without)
            raise OptionError(
                f"{partition} has no record from the time {questions[partition]} on",
                "Start earlier, or set startingOffsetsByTimestampStrategy=latest to read what comes from now on.",
            )
        return {**found, **(self._ask(without) if without else {})}

    def _find_partitions(self) -> list[TopicPartition]:
        wanted = self._options.subscription
        if wanted.pattern is not None:
            found = [topic for topic in self._brokers.topics() if re.search(wanted.pattern, topic)]
            topics = sorted(topic for topic in found if topic not in INTERNAL_TOPICS)
        else:
            topics = sorted({*wanted.topics, *(each.topic for each in wanted.partitions)})
        with told_of(wanted.option):
            existing = [
                TopicPartition(topic, number) for topic in topics for number in sorted(self._brokers.partitions(topic))
            ]
        if not wanted.partitions:
            return existing
        missing = sorted(set(wanted.partitions) - set(existing))
        if missing:
            raise UnknownPartitionError(
                f"assign: there is no partition {', '.join(map(str, missing))}",
                f"There are {', '.join(map(str, existing))}.",
            )
        return list(wanted.partitions)

    def _ask(self, questions: Mapping[TopicPartition, int]) -> Offsets:
        """Only those that have an answer: a time may lie behind the last record."""
        if not questions:
            return {}
        asked = {(partition.topic, partition.partition): question for partition, question in questions.items()}
        answers = self._retried(lambda: self._brokers.list_offsets(asked, self._options.isolation))
        return {
            TopicPartition(*partition): answer.offset for partition, answer in answers.items() if answer is not None
        }

    def _retried(self, question: Callable[[], _Found]) -> _Found:
        """The client has tried for a while by itself: only who has answered before is asked again."""
        if not self._was_heard:
            with first_contact():
                found = question()
            self._was_heard = True
            return found
        for attempt in range(1, self._options.offset_attempts):
            try:
                return question()
            except (UnreachableError, TimedOutError) as error:
                _log.warning("attempt %s of %s to get offsets: %s", attempt, self._options.offset_attempts, error)
                time.sleep(self._options.offset_retry_ms / 1_000)
        return question()


def _check_complete(option: str, given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]) -> None:
    missing = sorted(set(partitions) - given.keys())
    strange = sorted(given.keys() - set(partitions))
    if missing:
        raise OptionError(
            f"{option} says nothing about {', '.join(map(str, missing))}",
            "Name every partition that is read; in offsets -2 is earliest and -1 latest.",
        )
    if strange:
        raise OptionError(
            f"{option} names {', '.join(map(str, strange))}, which the query does not read",
            f"It reads {', '.join(map(str, partitions))}.",
        )
