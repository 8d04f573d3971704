"""The stream reader as Spark calls it, with a cluster that answers from a table."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from bifrost.spark.failures import DataLossError
from bifrost.spark.locator import Locator
from bifrost.spark.option_table import Use
from bifrost.spark.range_reader import Share
from bifrost.spark.ranges import OffsetRange
from bifrost.spark.read_options import read_options
from bifrost.spark.schema import topic_schema
from bifrost.spark.stream_reader import BifrostStreamReader
from bifrost.types import TopicPartition
from tests.unit.spark.test_locator import Table

ALL = ReadAllAvailable()


def reader(table: Table, **given: str) -> BifrostStreamReader:
    options = read_options({"kafka.bootstrap.servers": "x:1", "subscribe": "b", **given}, Use.STREAM_READ)
    made = BifrostStreamReader(options, topic_schema(options.columns))
    made._located = Locator(table, options)
    return made


def test_it_travels_to_tasks() -> None:
    options = read_options({"kafka.bootstrap.servers": "x:1", "subscribe": "b"}, Use.STREAM_READ)
    arrived = pickle.loads(pickle.dumps(BifrostStreamReader(options, topic_schema(options.columns))))
    assert (arrived._options, arrived._schema) == (options, topic_schema(options.columns))


def test_limits_are_told_as_spark_knows_them() -> None:
    assert reader(Table()).getDefaultReadLimit() == ALL
    assert reader(Table(), maxoffsetspertrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(Table(), minoffsetspertrigger="5").getDefaultReadLimit() == ReadMinRows(5)
    assert reader(Table(), minOffsetsPerTrigger="5", maxOffsetsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)


def test_a_query_from_the_beginning() -> None:
    made = reader(Table(), startingOffsets="earliest")
    start = made.initialOffset()
    assert start == {"b": {"0": 10}}
    end = made.latestOffset(start, ReadMaxRows(30))
    assert end == {"b": {"0": 40}}
    assert made.reportLatestOffset() == {"b": {"0": 100}}
    assert made.partitions(start, end) == [Share((OffsetRange(TopicPartition("b", 0), 10, 40),))]
    assert made.latestOffset(end, ALL) == {"b": {"0": 100}}, "Spark may ask for all, whatever the option says"


def test_a_query_from_the_end_pins_where_that_was() -> None:
    table = Table(ends=[100, 105, 110])
    made = reader(table)
    start = made.initialOffset()
    assert made.latestOffset(start, ALL) == start == {"b": {"0": 100}}
    assert made.initialOffset() == start, "Spark asks again when it plans"
    assert made.partitions(start, start) == []
    assert made.latestOffset(start, ALL) == {"b": {"0": 105}}


def test_a_first_batch_of_an_earlier_run_is_planned_again() -> None:
    """Its end was written down then; the start is asked for anew and lies behind it by now."""
    made = reader(Table())
    start = made.initialOffset()
    assert made.partitions(start, {"b": {"0": 90}}) == []


def test_losses_end_the_query_or_not() -> None:
    before, after = {"b": {"0": 50}, "gone": {"0": 5}}, {"b": {"0": 60}}
    with pytest.raises(DataLossError, match="gone-0 can no longer be found"):
        reader(Table()).partitions(before, after)
    forgiving = reader(Table(), failOnDataLoss="false")
    assert forgiving.partitions(before, after) == [Share((OffsetRange(TopicPartition("b", 0), 50, 60),))]


def test_what_expired_while_the_query_was_away_is_found_on_the_driver() -> None:
    before, after, later = {"b": {"0": 4}}, {"b": {"0": 60}}, {"b": {"0": 70}}
    with pytest.raises(DataLossError, match="b-0 no longer has the offsets 4 to 10: it begins at 10"):
        reader(Table()).partitions(before, after)
    forgiving = reader(Table(), failOnDataLoss="false")
    b0 = TopicPartition("b", 0)
    assert forgiving.partitions(before, after) == [Share((OffsetRange(b0, 10, 60),))]
    assert forgiving.partitions(before, later) == [Share((OffsetRange(b0, 4, 70),))], "later the tasks will find out"


def test_available_now_ends_where_the_topics_ended_when_it_began() -> None:
    made = reader(Table(ends=[100, 200, 300]), startingOffsets='{"b":{"0":10}}', minOffsetsPerTrigger="1000000")
    made.prepareForTriggerAvailableNow()
    start = made.initialOffset()
    assert made.latestOffset(start, ReadMaxRows(60)) == {"b": {"0": 70}}
    assert made.latestOffset({"b": {"0": 70}}, ReadMaxRows(60)) == {"b": {"0": 100}}, "and waits for no more"
    assert made.latestOffset({"b": {"0": 100}}, ReadMaxRows(60)) == {"b": {"0": 100}}


def test_too_little_is_waited_for() -> None:
    made = reader(Table(ends=[100, 105]), startingOffsets="earliest", minOffsetsPerTrigger="50")
    made._initial = {}
    assert made.latestOffset({"b": {"0": 10}}, ReadMinRows(50)) == {"b": {"0": 100}}
    assert made.latestOffset({"b": {"0": 100}}, ReadMinRows(50)) == {"b": {"0": 100}}


def test_many_small_tasks() -> None:
    made = reader(Table(), minPartitions="3")
    planned = made.partitions({"b": {"0": 40}}, {"b": {"0": 70}})
    assert [(each.start, each.end) for share in planned for each in share.ranges] == [(40, 50), (50, 60), (60, 70)]
