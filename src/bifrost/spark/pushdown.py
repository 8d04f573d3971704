"""Filters of a batch query that need not read what they would throw away.

What is known of topic, partition and offset before reading narrows the ranges exactly, and Spark need not look again. A
lower bound on the timestamp narrows them too, since brokers find the first record that is not older; Spark still
filters the rest. An upper bound cannot: a record that was written later may bear an older timestamp.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from bifrost.spark.ranges import OffsetRange
from bifrost.types import TopicPartition

_Kind = TypeVar("_Kind", str, int)
_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


@dataclass(slots=True)
class Pushed:
    """What the filters of a query leave to be read; everything that is not said is left."""

    topics: set[str] | None = None
    partitions: set[int] | None = None
    start: int = 0
    end: int | None = None
    timestamp_ms: int | None = None
    """No record that is older is wanted."""
    left: list[Filter] = field(default_factory=list)
    """Those that Spark has to apply itself."""

    def admits(self, partition: TopicPartition) -> bool:
        """Whether anything of the partition is wanted."""
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def narrow(self, ranges: Iterable[OffsetRange], not_older: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        """`not_older` has the first offset that is young enough; a partition that is not in it has none."""
        narrowed = []
        for each in ranges:
            if not self.admits(each.partition):
                continue
            start = max(each.start, self.start)
            if self.timestamp_ms is not None:
                start = max(start, not_older.get(each.partition, each.end))
            end = each.end if self.end is None else min(each.end, self.end)
            if start < end:
                narrowed.append(OffsetRange(each.partition, start, end))
        return narrowed


def push(filters: Iterable[Filter]) -> Pushed:
    """Takes what it can of filters that must all hold."""
    pushed = Pushed()
    for each in filters:
        if not _take(pushed, each):
            pushed.left.append(each)
    return pushed


def _take(pushed: Pushed, wanted: Filter) -> bool:
    """Whether the filter is now wholly accounted for."""
    match wanted:
        case IsNotNull((name,)):
            return name in _NEVER_NULL
        case EqualTo(("topic",), str(topic)):
            pushed.topics = _both(pushed.topics, {topic})
        case In(("topic",), topics):
            pushed.topics = _both(pushed.topics, {topic for topic in topics if isinstance(topic, str)})
        case EqualTo(("partition",), int(number)):
            pushed.partitions = _both(pushed.partitions, {number})
        case In(("partition",), numbers):
            pushed.partitions = _both(pushed.partitions, {number for number in numbers if isinstance(number, int)})
        case EqualTo(("offset",), int(offset)):
            _between(pushed, offset, offset + 1)
        case GreaterThan(("offset",), int(offset)):
            _between(pushed, offset + 1, None)
        case GreaterThanOrEqual(("offset",), int(offset)):
            _between(pushed, offset, None)
        case LessThan(("offset",), int(offset)):
            _between(pushed, 0, offset)
        case LessThanOrEqual(("offset",), int(offset)):
            _between(pushed, 0, offset + 1)
        case (
            EqualTo(("timestamp",), datetime.datetime() as moment)
            | GreaterThan(("timestamp",), datetime.datetime() as moment)
            | GreaterThanOrEqual(("timestamp",), datetime.datetime() as moment)
        ):
            first_ms = _milliseconds(moment)
            pushed.timestamp_ms = first_ms if pushed.timestamp_ms is None else max(pushed.timestamp_ms, first_ms)
            return False
        case _:
            return False
    return True


def _both(known: set[_Kind] | None, wanted: set[_Kind]) -> set[_Kind]:
    return wanted if known is None else known & wanted


def _between(pushed: Pushed, start: int, end: int | None) -> None:
    pushed.start = max(pushed.start, start)
    if end is not None:
        pushed.end = end if pushed.end is None else min(pushed.end, end)


def _milliseconds(moment: datetime.datetime) -> int:
    """Rounded down: a record of that very millisecond is looked at, and Spark decides."""
    aware = moment if moment.tzinfo is not None else moment.astimezone()
    return max(0, (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1))
