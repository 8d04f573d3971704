"""Records that a query was to read and that are not there: in words, and what becomes of the query.

Tasks find out by themselves too (`range_reader`). What the driver finds out ends the query before a task has begun.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from bifrost.spark.failures import DataLossError
from bifrost.spark.offsets import Offsets
from bifrost.spark.ranges import OffsetRange
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)


def bear(losses: Iterable[str], *, fail: bool) -> None:
    """Ends the query or, by `failOnDataLoss`, lets it go on with a line in the log for each."""
    for loss in losses:
        if fail:
            raise data_loss(loss)
        _log.warning("%s; failOnDataLoss is false, going on", loss)


def data_loss(what: str) -> DataLossError:
    return DataLossError(what, "Retention may have overtaken the query. failOnDataLoss=false reads what is left.")


def still_there(
    ranges: Iterable[OffsetRange], first: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[str]]:
    """What is left of ranges whose partitions begin at `first` by now, and what is lost of them."""
    left, losses = [], []
    for each in ranges:
        begin = max(each.start, first.get(each.partition, 0))
        if begin > each.start:
            lost_end = min(begin, each.end)
            losses.append(
                f"{each.partition} no longer has the offsets {each.start} to {lost_end}: it begins at {begin}"
            )
        if begin < each.end:
            left.append(OffsetRange(each.partition, begin, each.end))
    return left, losses


def up_to(end: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> tuple[Offsets, list[str]]:
    """Ends that are no further than what there is, and which of them were."""
    losses = [
        f"endingOffsets: {partition} is to be read up to offset {offset} but ends at {latest[partition]}"
        for partition, offset in sorted(end.items())
        if offset > latest.get(partition, offset)
    ]
    return {partition: min(offset, latest.get(partition, offset)) for partition, offset in end.items()}, losses
