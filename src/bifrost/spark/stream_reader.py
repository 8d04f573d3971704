"""`spark.readStream.format("bifrost")`: tells Spark how far each batch goes, plans it, and reads a range in each task.

The state below lives in one process on the driver for as long as the query runs. Tasks get a pickled copy, made before
any of it exists.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from bifrost.spark.admission import Patience, limit_rate
from bifrost.spark.limits import AtEdge, AtOffsets, Limit
from bifrost.spark.locator import Locator
from bifrost.spark.losses import bear, still_there
from bifrost.spark.offsets import LATEST, Offsets, from_spark, to_spark
from bifrost.spark.range_reader import plan_tasks
from bifrost.spark.ranges import OffsetRange
from bifrost.spark.read_options import ReadOptions
from bifrost.spark.rows import check_schema, read_rows
from bifrost.spark.stream_plan import plan_batch, plan_first_batch

if TYPE_CHECKING:
    import pyarrow as pa

SparkOffsets = dict[str, dict[str, int]]


class BifrostStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One for each source of each running query."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options
        self._schema = schema
        self._located: Locator | None = None
        self._initial: Offsets | None = None
        """Where a query without a finished batch starts. Spark asks several times, and must always hear the same."""
        self._is_new = True
        """No batch was asked for in this run: one that is planned now was asked for in an earlier one."""
        self._was_planned = False
        self._latest: Offsets | None = None
        self._until: Offsets | None = None
        """Under Trigger.AvailableNow: where the topics ended when the query began."""
        self._available_now = False
        self._committed: Offsets | None = None
        least = options.min_offsets_per_trigger
        self._patience = None if least is None else Patience(least, options.max_trigger_delay_ms)

    def initialOffset(self) -> SparkOffsets:  # noqa: N802 - Spark's name
        """Asked only by a query without a finished batch in its checkpoint."""
        if self._initial is None:
            self._initial = self._locator.resolve(self._options.start, "startingOffsets")
        return to_spark(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._available_now = True

    def latestOffset(self, start: SparkOffsets, limit: ReadLimit) -> SparkOffsets:  # noqa: N802 - Spark's name
        """Where the next batch ends; where it starts, if there is to be none."""
        begin = from_spark(start)
        self._tell_group(begin)
        was_new, self._is_new = self._is_new, False
        if was_new and begin == self._initial and _moves(self._options.start):
            # Spark runs this batch although it is empty, and so the checkpoint knows where the query began. Without
            # that, a query that dies in its first batch would begin anew at a later end, and skip what lies between.
            return start
        self._latest = self._available(begin)
        return to_spark(self._admitted(begin, self._latest, limit))

    def reportLatestOffset(self) -> SparkOffsets | None:  # noqa: N802 - Spark's name
        """For the query's progress: how far the topics reach, whatever the last batch took of it."""
        return to_spark(self._latest) if self._latest else None

    def partitions(self, start: SparkOffsets, end: SparkOffsets) -> list[InputPartition]:
        """On the driver, for each batch; also for one that an earlier run has planned and not finished."""
        begin, until = from_spark(start), from_spark(end)
        if begin == until:
            return []
        if self._is_new and begin == self._initial:
            plan = plan_first_batch(begin, until)
        else:
            plan = plan_batch(begin, until, self._locator.earliest(until.keys() - begin.keys()))
        ranges, losses = self._unexpired(plan.ranges)
        bear([*plan.losses, *losses], fail=self._options.fail_on_data_loss)
        return plan_tasks(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task."""
        return read_rows(self._options, partition, self._schema)

    def commit(self, end: SparkOffsets) -> None:
        """Everything before `end` is done with. Spark says so only when it plans the next batch."""
        self._tell_group(from_spark(end))

    def stop(self) -> None:
        """The client stays with the process, which Spark may use again."""

    def _tell_group(self, done: Offsets) -> None:
        """Where a batch may start, all before it is done: others may see that in the group, if the program wishes.

        Spark asks for the end of a next batch also when there is none, as at the end of Trigger.AvailableNow.
        """
        group = self._options.commit_group
        if group is None or done == self._committed or not done:
            return
        from bifrost.spark.brokers import commit_offsets

        commit_offsets(self._options, group, done)
        self._committed = done

    def _unexpired(self, ranges: list[OffsetRange]) -> tuple[list[OffsetRange], list[str]]:
        """Of the first batch of a run: a query that was away for long finds out here and not in its tasks."""
        if self._was_planned:
            return ranges, []
        self._was_planned = True
        return still_there(ranges, self._locator.earliest(each.partition for each in ranges))

    @property
    def _locator(self) -> Locator:
        if self._located is None:
            from bifrost.spark.brokers import open_brokers

            self._located = Locator(open_brokers(self._options), self._options)
        return self._located

    def _available(self, begin: Offsets) -> Offsets:
        if not self._available_now:
            return self._locator.latest(begin)
        if self._until is None:
            self._until = self._locator.latest(begin)
        return self._until

    def _admitted(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return latest
        # Who waits for more under Trigger.AvailableNow waits for what will not come.
        if self._patience is not None and not self._available_now and self._patience.waits(begin, latest, _now_ms()):
            return begin
        if not isinstance(limit, ReadMaxRows):
            return latest
        new = self._locator.earliest(latest.keys() - begin.keys())
        return limit_rate(limit.max_rows, {**new, **begin}, latest)


def _moves(start: Limit) -> bool:
    """Whether asking again later gives another answer."""
    if isinstance(start, AtEdge):
        return start.edge == LATEST
    if isinstance(start, AtOffsets):
        return LATEST in start.offsets.values()
    return start.or_latest


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
