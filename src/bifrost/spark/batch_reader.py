"""`spark.read.format("bifrost")`: plans ranges on the driver, reads one in each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from bifrost.spark.failures import DataLossError
from bifrost.spark.limits import AtOffsets
from bifrost.spark.locator import Locator
from bifrost.spark.losses import bear, still_there, up_to
from bifrost.spark.offsets import Offsets
from bifrost.spark.pushdown import Pushed, push
from bifrost.spark.range_reader import plan_tasks
from bifrost.spark.ranges import ranges_between
from bifrost.spark.read_options import ReadOptions
from bifrost.spark.rows import check_schema, read_rows

if TYPE_CHECKING:
    import pyarrow as pa


class BifrostReader(DataSourceReader):
    """Pickled to every task, so it holds nothing but what was asked for."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options
        self._schema = schema
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """On the driver, once: where everything starts and ends as of now."""
        options = self._options
        locator = _locator(options)
        start = locator.resolve(options.start, "startingOffsets")
        end = self._end(locator)
        both = {partition: offset for partition, offset in end.items() if partition in start}
        _check_order(start, both)
        ranges = self._pushed.narrow(ranges_between(start, both), self._not_older(locator))
        if isinstance(options.start, AtOffsets):
            ranges, losses = still_there(ranges, locator.earliest(each.partition for each in ranges))
            bear(losses, fail=options.fail_on_data_loss)
        return plan_tasks(ranges, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task. Where there is nothing to be read Spark makes up a partition of its own."""
        return read_rows(self._options, partition, self._schema)

    def _end(self, locator: Locator) -> Offsets:
        """A task would wait for what lies behind the end of a partition until its patience is over."""
        end = locator.resolve(self._options.end, "endingOffsets")
        if isinstance(self._options.end, AtOffsets):
            end, losses = up_to(end, locator.latest())
            bear(losses, fail=self._options.fail_on_data_loss)
        return end

    def _not_older(self, locator: Locator) -> Offsets:
        if self._pushed.timestamp_ms is None:
            return {}
        return locator.at_timestamp(self._pushed.timestamp_ms)


class PushdownReader(BifrostReader):
    """The same with filters. A class of its own: Spark refuses readers that could take filters while it offers none."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """On the driver, before `partitions`."""
        self._pushed = push(filters)
        return self._pushed.left


def _check_order(start: Offsets, end: Offsets) -> None:
    """A start that was given may lie behind an end that was found."""
    for partition in sorted(end):
        if start[partition] > end[partition]:
            raise DataLossError(
                f"{partition} is to be read from offset {start[partition]} but ends at {end[partition]}",
                "Check startingOffsets; was the topic made anew?",
            )


def _locator(options: ReadOptions) -> Locator:
    from bifrost.spark.brokers import open_brokers

    return Locator(open_brokers(options), options)
