"""Which task reads what: ranges of offsets, cut as Spark's Kafka connector cuts them (KafkaOffsetRangeCalculator)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bifrost.types import TopicPartition

WORTH_A_TASK: Final = 1_000
"""So many records. A task takes Spark and Python some 30 ms however few it reads; these take a millisecond."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The records of one partition from `start` up to, without, `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets, which is records if none were compacted away."""
        return self.end - self.start


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """One range for each partition of `end`, in order; those without a record are left out."""
    ranges = [OffsetRange(partition, start[partition], end[partition]) for partition in sorted(end)]
    return [each for each in ranges if each.size > 0]


def cut(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Smaller ranges: none over `max_records`, then as many more as it takes for about `min_partitions` of them."""
    kept = [each for each in ranges if each.size > 0]
    if max_records is not None:
        kept = [piece for each in kept for piece in _divide(each, math.ceil(each.size / max_records))]
    if min_partitions is not None and min_partitions > len(kept):
        kept = _divide_large(kept, min_partitions)
    return kept


def gather(ranges: Iterable[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
    """What each task reads: neighbours that are small go together, as long as they are small together."""
    shares: list[list[OffsetRange]] = []
    room = 0
    for each in ranges:
        if each.size > room:
            shares.append([])
            room = WORTH_A_TASK
        shares[-1].append(each)
        room -= each.size
    return [tuple(share) for share in shares]


def _divide_large(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Splits by size. Ranges too small to be split are set aside first, so that they do not count in the shares."""
    total = sum(each.size for each in ranges)
    small = [each for each in ranges if _share(each.size, total, min_partitions) == 1]
    unsplit = {each.partition for each in small}
    large_total = total - sum(each.size for each in small)
    large_parts = max(min_partitions - len(small), 1)
    return [
        piece
        for each in ranges
        for piece in _divide(each, 1 if each.partition in unsplit else _share(each.size, large_total, large_parts))
    ]


def _share(size: int, total: int, parts: int) -> int:
    """Its proportion of the parts, at least one; halves go up, as in Java."""
    return max(math.floor(size / total * parts + 0.5), 1)


def _divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Into parts of equal size; what does not divide goes to the last ones."""
    pieces = []
    start = whole.start
    for left in range(parts, 0, -1):
        end = start + (whole.end - start) // left
        pieces.append(OffsetRange(whole.partition, start, end))
        start = end
    return [piece for piece in pieces if piece.size > 0]
