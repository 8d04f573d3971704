"""What a batch of a stream reads, from its start and end, and what is missing in between.

Spark names both ends, from its checkpoint; meanwhile partitions may have come, gone, or begun anew under the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bifrost.spark.ranges import OffsetRange, ranges_between
from bifrost.types import TopicPartition


@dataclass(slots=True)
class StreamPlan:
    """What is read, and in words what may be lost; what to do about a loss is not decided here."""

    ranges: list[OffsetRange]
    losses: list[str] = field(default_factory=list)


def plan_batch(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    first_of_new: Mapping[TopicPartition, int],
) -> StreamPlan:
    """`first_of_new` has where those partitions begin that are in `end` but not in `start`, as far as they exist."""
    losses = []
    new = sorted(end.keys() - start.keys())
    vanished = [partition for partition in new if partition not in first_of_new]
    if vanished:
        losses.append(f"{_names(vanished)} appeared and vanished again before anything was read")
    losses += [
        f"{partition} is new but starts at offset {first_of_new[partition]}, so records before it were missed"
        for partition in new
        if first_of_new.get(partition, 0) > 0
    ]
    gone = sorted(start.keys() - end.keys())
    if gone:
        losses.append(f"{_names(gone)} can no longer be found")
    known = {**first_of_new, **start}
    for partition in sorted(end.keys() & known.keys()):
        if end[partition] < known[partition]:
            losses.append(
                f"{partition} was read up to offset {known[partition]} but ends at {end[partition]} now: "
                "was the topic deleted and made anew?"
            )
    return StreamPlan(ranges_between(known, {each: end[each] for each in end if each in known}), losses)


def plan_first_batch(initial: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> StreamPlan:
    """The first batch of a query, where the start was asked for just now and not read from a checkpoint.

    If an earlier run has planned this batch already and not finished it, `end` is from then and `initial` is younger:
    it may lie behind `end`, and know partitions that `end` does not. Neither is a loss. A partition that starts at or
    behind its end has nothing to be read here, and the next batch starts from `end`.
    """
    shared = {partition: offset for partition, offset in end.items() if partition in initial}
    losses = []
    gone = sorted(end.keys() - initial.keys())
    if gone:
        losses.append(f"{_names(gone)} can no longer be found")
    return StreamPlan(ranges_between(initial, shared), losses)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
