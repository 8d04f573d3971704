"""Streams in and out of topics whose leaders move while they run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.oracle import KafkaNode
from tests.spark.conftest import Tables
from tests.spark.records import consume, produce
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2


class Pair:
    """Two nodes of one Kafka cluster; the second leads until it stops."""

    def __init__(self, first: KafkaNode, second: KafkaNode) -> None:
        self.bootstrap = f"127.0.0.1:{first.port}"
        self.first, self.second = first, second
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str) -> None:
        replicas = [[self.second.node_id, self.first.node_id]] * PARTITIONS
        for created in self._admin.create_topics([NewTopic(topic, PARTITIONS, replica_assignment=replicas)]).values():
            created.result()

    def leaders(self, topic: str) -> set[int]:
        partitions = self._admin.list_topics(topic, timeout=30).topics[topic].partitions
        return {partition.leader for partition in partitions.values()}

    def elect_second(self, *topics: str) -> None:
        """Moves leadership from one node that lives to another; the second is preferred once it is in sync."""

        def elected() -> bool:
            partitions = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
            self._admin.elect_leaders(ElectionType.PREFERRED, partitions).result()
            return all(self.leaders(topic) == {self.second.node_id} for topic in topics)

        eventually(elected, "the second node leads again")

    def write(self, topic: str, first: int, end: int) -> None:
        produce(
            self.bootstrap,
            topic,
            [{"value": str(each), "partition": each % PARTITIONS} for each in range(first, end)],
        )


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    first = KafkaNode(tmp_path / "first")
    second = KafkaNode(tmp_path / "second", joins=first)
    try:
        first.start()
        second.start()
        yield Pair(first, second)
    finally:
        second.stop()
        first.stop()


@pytest.mark.oracle
@pytest.mark.thorough
def test_a_stream_goes_on_when_the_leaders_of_both_topics_move(spark: SparkSession, pair: Pair, tmp_path: Path) -> None:
    for topic in ("numbers", "copies"):
        pair.create(topic)
    pair.write("numbers", 0, 1000)
    tables = Tables(spark, pair.bootstrap)
    query: Any = (
        tables.stream(subscribe="numbers", startingOffsets="earliest")
        .load()
        .select("value", "partition")
        .writeStream.format("bifrost")
        .options(**tables.options(topic="copies", checkpointLocation=tmp_path / "checkpoint"))
        .start()
    )
    try:
        eventually(lambda: copied(query) >= 1000, "the first rows are copied")
        assert pair.leaders("numbers") == pair.leaders("copies") == {pair.second.node_id}
        pair.second.stop()
        assert pair.leaders("numbers") == pair.leaders("copies") == {pair.first.node_id}
        pair.write("numbers", 1000, 2000)
        eventually(lambda: copied(query) >= 2000, "rows that the survivor took are copied")
        pair.second.start()
        pair.elect_second("numbers", "copies")
        pair.write("numbers", 2000, 3000)
        eventually(lambda: copied(query) >= 3000, "rows that the second took are copied, with the first still there")
    finally:
        query.stop()
    seen = consume(pair.bootstrap, "copies")
    for partition in range(PARTITIONS):
        numbers = [int(record.value or b"") for record in seen if record.partition == partition]
        assert numbers == list(range(partition, 3000, PARTITIONS))


def copied(query: Any) -> int:
    assert query.exception() is None
    return sum(progress["numInputRows"] for progress in query.recentProgress)
