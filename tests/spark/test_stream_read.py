"""`spark.readStream.format("bifrost")`: limits, restarts, partitions that come, records that go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.compat import wire
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.servers import Server
from tests.spark.conftest import BIFROST_ONLY, KAFKA_ONLY, RunOnce, Tables
from tests.spark.records import produce
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def numbers(bootstrap: str, topic: str, first: int, end: int, partitions: int = 1) -> None:
    produce(bootstrap, topic, [{"value": str(each), "partition": each % partitions} for each in range(first, end)])


def values(rows: list[object]) -> list[int]:
    return sorted(int(row.value) for row in rows)  # type: ignore[attr-defined]


def recorded(checkpoint: Path, batch: int) -> dict[str, dict[str, int]]:
    """The end of a batch, as the checkpoint has it: the last line of its file."""
    last = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
    offsets: dict[str, dict[str, int]] = json.loads(last)
    return offsets


def test_batches_of_limited_size_and_a_restart(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, run_once: RunOnce, tmp_path: Path
) -> None:
    topic = new_topic(2)
    numbers(broker.bootstrap, topic, 0, 100, 2)
    frame = tables.stream(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=60,
        columns="value",
        commitOffsets="true",
        kafka_group_id=topic,
    ).load()

    assert values(run_once(frame)) == list(range(100))
    assert recorded(tmp_path / "checkpoint", 0) == {topic: {"0": 30, "1": 30}}
    assert recorded(tmp_path / "checkpoint", 1) == {topic: {"0": 50, "1": 50}}

    numbers(broker.bootstrap, topic, 100, 110, 2)
    assert values(run_once(frame)) == list(range(100, 110)), "what was read is not read again"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=30)
    consumer.close()
    assert [each.offset for each in committed] == [55, 55], "the group sees what is done"


def write_kafka_checkpoint(folder: Path, began: dict[str, int], ended: dict[str, int], topic: str, done: bool) -> None:
    """What Spark and its Kafka connector have written when one batch is planned, and perhaps done."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"6c31ab1e-55b8-4d4b-9e4e-4ba8a2d2fd2c"}')
    facts = {
        "batchWatermarkMs": 0,
        "batchTimestampMs": 1700000000000,
        "conf": {"spark.sql.streaming.multipleWatermarkPolicy": "min", "spark.sql.shuffle.partitions": "200"},
    }
    start, end = (json.dumps({topic: each}, separators=(",", ":")) for each in (began, ended))
    # The zero byte is for the Spark of long ago.
    (folder / "sources" / "0" / "0").write_bytes(f"\0v1\n{start}".encode())
    (folder / "offsets" / "0").write_text(f"v1\n{json.dumps(facts)}\n{end}")
    if done:
        (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')


@BIFROST_ONLY
def test_a_checkpoint_of_the_kafka_connector_goes_on_here(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, run_once: RunOnce, tmp_path: Path
) -> None:
    """With a new partition on top of it, which is read from its beginning."""
    topic = new_topic(3)
    numbers(broker.bootstrap, topic, 0, 30, 3)
    write_kafka_checkpoint(tmp_path / "checkpoint", {"1": 0, "0": 0}, {"1": 9, "0": 8}, topic, done=True)

    rows = run_once(tables.stream(subscribe=topic).load())

    assert values(rows) == sorted([24, 27, 28, *range(2, 30, 3)])
    assert run_once(tables.stream(subscribe=topic).load()) == []


@BIFROST_ONLY
def test_a_checkpoint_of_the_kafka_connector_without_a_finished_batch(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, run_once: RunOnce, tmp_path: Path
) -> None:
    """Its start is in a file of the connector's, from where the recipe in docs/spark.md takes it."""
    topic = new_topic()
    numbers(broker.bootstrap, topic, 0, 10)
    checkpoint = tmp_path / "checkpoint"
    write_kafka_checkpoint(checkpoint, {"0": 4}, {"0": 7}, topic, done=False)

    start = (checkpoint / "sources" / "0" / "0").read_text().splitlines()[-1]
    assert values(run_once(tables.stream(subscribe=topic, startingOffsets=start).load())) == list(range(4, 10))


@BIFROST_ONLY
def test_a_partition_that_comes_later(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, run_once: RunOnce
) -> None:
    topic = new_topic()
    numbers(broker.bootstrap, topic, 0, 5)
    frame = tables.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=1000).load()
    assert values(run_once(frame)) == list(range(5))

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    eventually(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 2)
    produce(broker.bootstrap, topic, [{"value": str(each), "partition": 1} for each in range(5, 10)])
    assert values(run_once(frame)) == list(range(5, 10))


@BIFROST_ONLY
def test_topics_that_come_while_a_query_runs_are_read_from_their_beginning(
    tables: Tables, broker: Server, tmp_path: Path
) -> None:
    """Also by one that has found none at all when it began."""
    prefix = unique_name("coming")
    seen: list[int] = []
    query = (
        tables.stream(subscribePattern=f"^{prefix}-", startingOffsets="earliest")
        .load()
        .writeStream.foreachBatch(lambda batch, _: seen.extend(values(batch.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for number in range(2):
            name = f"{prefix}-{number}"
            wire.create_topic(broker.bootstrap, name)
            numbers(broker.bootstrap, name, number * 10, number * 10 + 5)
            eventually(lambda: query.exception() or len(seen) >= 5 * (number + 1), "the rows of the new topic")  # noqa: B023
    finally:
        query.stop()
    assert seen == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


@BIFROST_ONLY
def test_a_query_that_starts_at_the_end_and_dies_at_once_misses_nothing(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, run_once: RunOnce, tmp_path: Path
) -> None:
    """The first batch is empty and pins the start. Without it, the second run would start at a later end."""
    topic = new_topic()
    numbers(broker.bootstrap, topic, 0, 5)
    frame = tables.stream(subscribe=topic).load()
    assert run_once(frame) == []
    assert recorded(tmp_path / "checkpoint", 0) == {topic: {"0": 5}}
    for path in (tmp_path / "checkpoint" / "commits").iterdir():
        path.unlink()  # as if it had died before its first batch was done

    numbers(broker.bootstrap, topic, 5, 8)
    assert values(run_once(frame)) == [5, 6, 7]


def test_records_that_retention_took(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, run_once: RunOnce
) -> None:
    topic = new_topic()
    numbers(broker.bootstrap, topic, 0, 10)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    frame = tables.stream(**options).load()
    assert len(run_once(frame)) == 10

    numbers(broker.bootstrap, topic, 10, 40)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 25)]).values():
        future.result()
    with pytest.raises(Exception, match=rf"{topic}-0 no longer has the offsets 10 to 25.*failOnDataLoss=false"):
        run_once(frame)
    assert values(run_once(tables.stream(**options, failOnDataLoss="false").load())) == list(range(25, 40))


@KAFKA_ONLY
@pytest.mark.parametrize("forgiving", [False, True])
def test_retention_overtakes_a_query_that_runs(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, tmp_path: Path, forgiving: bool
) -> None:
    """While its first batch is worked on, what its second one will want goes: a task is the first to know."""
    topic = new_topic()
    numbers(broker.bootstrap, topic, 0, 40)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    seen: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        seen.extend(values(batch.collect()))
        if number == 0:
            for future in admin.delete_records([TopicPartition(topic, 0, 25)]).values():
                future.result()

    frame = tables.stream(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10, failOnDataLoss=str(not forgiving)
    ).load()
    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if forgiving:
        query.awaitTermination()
        assert seen == [*range(10), *range(25, 40)]
    else:
        with pytest.raises(Exception, match=rf"{topic}-0 no longer has the offsets 10 to 20.*failOnDataLoss=false"):
            query.awaitTermination()
        assert seen == list(range(10))


@KAFKA_ONLY
def test_a_topic_that_was_made_anew(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, run_once: RunOnce
) -> None:
    topic = new_topic()
    numbers(broker.bootstrap, topic, 0, 10)
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "0"}
    frame = tables.stream(**options).load()
    assert len(run_once(frame)) == 10

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in admin.list_topics().topics)
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    eventually(lambda: topic in admin.list_topics().topics)
    numbers(broker.bootstrap, topic, 0, 3)
    with pytest.raises(Exception, match=rf"{topic}-0 was read up to offset 10 but ends at 3 now"):
        run_once(frame)
    forgiving = tables.stream(**options, failOnDataLoss="false").load()
    assert run_once(forgiving) == []
    numbers(broker.bootstrap, topic, 3, 6)
    assert values(run_once(forgiving)) == [3, 4, 5]


@BIFROST_ONLY
def test_bad_options_fail_on_the_driver(tables: Tables, new_topic: NewTopicFunction, run_once: RunOnce) -> None:
    topic = new_topic()
    with pytest.raises(Exception, match="endingOffsets has no place in a streaming read"):
        run_once(tables.stream(subscribe=topic, endingOffsets="latest").load(), "a")
    with pytest.raises(Exception, match="Is maxOffsetsPerTrigger meant"):
        tables.stream(subscribe=topic, maxOffsetPerTrigger="5").load()
    poisoned = tables.stream(subscribe=topic, valueFormat="json", deadLetterTopic=f"{topic}-not").schema("n INT").load()
    with pytest.raises(Exception, match=f"deadLetterTopic: topic {topic}-not does not exist"):
        run_once(poisoned, "b")


@BIFROST_ONLY
def test_a_target_that_does_not_exist_is_told_before_any_task_runs(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, tmp_path: Path
) -> None:
    topic = new_topic()
    numbers(broker.bootstrap, topic, 0, 1)
    frame = tables.stream(subscribe=topic, startingOffsets="earliest").load().select("value")
    given = tables.options(topic=f"{topic}-not", checkpointLocation=tmp_path / "checkpoint")
    query = frame.writeStream.format("bifrost").options(**given).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=f"topic: topic {topic}-not does not exist") as raised:
        query.awaitTermination()
    assert "Stage" not in str(raised.value), "a task, and not the driver, has noticed"
