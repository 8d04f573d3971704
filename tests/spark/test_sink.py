"""`df.write` and `df.writeStream` with `format("bifrost")`, read back by librdkafka."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server
from tests.spark.conftest import BIFROST_ONLY, Tables
from tests.spark.records import consume, produce


def test_rows_with_everything(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    """Topic and partition by row, headers, keys and values as text and as bytes, nulls."""
    here, there = new_topic(3), new_topic(2)
    frame = tables.spark.range(0, 200, numPartitions=2).selectExpr(
        f"IF(id % 2 = 0, '{here}', '{there}') AS topic",
        "IF(id % 5 = 0, NULL, CONCAT('key-', id % 7)) AS key",
        "IF(id % 11 = 0, NULL, CAST(CAST(id AS STRING) AS BINARY)) AS value",
        "CAST(IF(id % 3 = 0, 1, NULL) AS INT) AS partition",
        "IF(id % 4 = 0, ARRAY(NAMED_STRUCT('key', 'a', 'value', CAST('1' AS BINARY)),"
        " NAMED_STRUCT('key', 'b', 'value', CAST(NULL AS BINARY))), NULL) AS headers",
        "id AS ignored",
    )
    tables.write(frame, kafka_compression_type="zstd")

    for topic, remainder in ((here, 0), (there, 1)):
        seen = consume(broker.bootstrap, topic)
        expected = Counter(
            (
                None if each % 5 == 0 else f"key-{each % 7}".encode(),
                None if each % 11 == 0 else str(each).encode(),
                (("a", b"1"), ("b", None)) if each % 4 == 0 else None,
            )
            for each in range(200)
            if each % 2 == remainder
        )
        assert Counter((each.key, each.value, each.headers) for each in seen) == expected
        named = [each for each in seen if each.value and int(each.value) % 3 == 0]
        assert {each.partition for each in named} == {1}


def test_keys_go_where_kafkas_java_client_sends_them(
    tables: Tables, broker: Server, new_topic: NewTopicFunction
) -> None:
    ours, theirs = new_topic(5), new_topic(5)
    keys = [f"key-{each}" for each in range(100)]
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, key=key, value="x")
    producer.flush()
    tables.write(tables.spark.createDataFrame([(key, "x") for key in keys], "key STRING, value STRING"), topic=ours)
    places = [{each.key: each.partition for each in consume(broker.bootstrap, topic)} for topic in (ours, theirs)]
    assert places[0] == places[1]


def test_a_stream_from_topic_to_topic(
    tables: Tables, broker: Server, new_topic: NewTopicFunction, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(3)
    produce(broker.bootstrap, source, [{"key": str(each), "value": str(each)} for each in range(500)])
    frame = tables.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=200).load()
    query = (
        frame.select("key", "value")
        .writeStream.format("bifrost")
        .options(**tables.options(topic=target, checkpointLocation=tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(int(each.value or b"-1") for each in consume(broker.bootstrap, target)) == list(range(500))


@BIFROST_ONLY
def test_what_cannot_be_written_is_told_on_the_driver(
    tables: Tables, broker: Server, new_topic: NewTopicFunction
) -> None:
    topic = new_topic()
    number = tables.spark.range(1).selectExpr("id AS value")
    text = tables.spark.range(1).selectExpr("'x' AS value")
    with pytest.raises(Exception, match="the column value is bigint, it must be string or binary"):
        tables.write(number, topic=topic)
    with pytest.raises(Exception, match="the rows have no column value"):
        tables.write(tables.spark.range(1), topic=topic)
    with pytest.raises(Exception, match="nothing says which topic to write to"):
        tables.write(text)
    with pytest.raises(Exception, match=f"topic: topic {topic}-not does not exist"):
        tables.write(text, topic=f"{topic}-not")
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        text.write.format("bifrost").options(**tables.options(topic=topic)).mode("overwrite").save()
    assert consume(broker.bootstrap, topic) == []


@BIFROST_ONLY
def test_the_first_row_that_fails_is_named(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"max.message.bytes": "2000"})
    sizes = [10, 10, 10, 5000, 10]
    rows = [(f"key-{number}", "x" * size) for number, size in enumerate(sizes)]
    frame = tables.spark.createDataFrame(rows, "key STRING, value STRING").coalesce(1)
    with pytest.raises(Exception, match=rf"row 3 of the task, with the key b'key-3', not written to {topic}-0"):
        tables.write(frame, topic=topic, kafka_batch_size=100)
    nowhere = tables.spark.range(3).selectExpr("IF(id = 2, NULL, 'x') AS topic", "'x' AS value").coalesce(1)
    with pytest.raises(Exception, match="row 2 of the task has no topic"):
        tables.write(nowhere)
    strange = tables.spark.range(1).selectExpr("'x' AS value", "7 AS partition")
    with pytest.raises(Exception, match="row 0 of the task: column partition names partition 7, and the topic has 1"):
        tables.write(strange, topic=topic)
    lost = (
        tables.spark.range(3).selectExpr(f"IF(id = 1, '{topic}-not', '{topic}') AS topic", "'x' AS value").coalesce(1)
    )
    with pytest.raises(Exception, match=f"row 1 of the task: topic {topic}-not does not exist"):
        tables.write(lost)
    tables.write(tables.spark.range(1).selectExpr("'after' AS value"), topic=topic)
    assert consume(broker.bootstrap, topic)[-1].value == b"after", "the next task has a producer that works"
