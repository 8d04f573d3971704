"""`spark.read.format("bifrost")`, compared with what librdkafka reads."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server
from tests.spark.conftest import BIFROST_ONLY, KAFKA_ONLY, Tables
from tests.spark.records import CODECS, consume, from_rows, produce

KEPT = {"retention.ms": "-1"}
"""For records with timestamps of long ago."""


def test_all_columns_are_what_librdkafka_reads(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3, KEPT)
    for number, codec in enumerate(CODECS):
        records: list[dict[str, Any]] = [
            {
                "key": f"key-{each}" if each % 3 else None,
                "value": f"{codec}-{each}" if each % 5 else None,
                "partition": each % 3,
                "timestamp": 1_700_000_000_000 + number * 1000 + each,
                "headers": [("a", b"1"), ("a", None), ("é", b"")][: each % 4] or None,
            }
            for each in range(200)
        ]
        produce(broker.bootstrap, topic, records, codec)

    frame = tables.read(subscribe=topic, includeHeaders="true").load()

    assert [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]
    assert from_rows(frame.collect()) == consume(broker.bootstrap, topic)


def test_where_to_start_and_end(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2, KEPT)
    produce(
        broker.bootstrap,
        topic,
        [{"value": str(each), "partition": each % 2, "timestamp": 1000 + each} for each in range(100)],
    )

    def values(**given: object) -> list[int]:
        rows = tables.read(columns="value", **given).load().collect()
        return sorted(int(row.value) for row in rows)

    between = {
        "startingOffsets": f'{{"{topic}":{{"0":10,"1":-2}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":12,"1":1}}}}',
    }
    assert values(subscribe=topic, **between) == [1, 20, 22]
    assert values(assign=f'{{"{topic}":[1]}}', startingTimestamp=1090, endingTimestamp=1095) == [91, 93]
    later = values(subscribe=topic, startingOffsetsByTimestamp=f'{{"{topic}":{{"0":1090,"1":1099}}}}')
    assert later == [90, 92, 94, 96, 98, 99]


@BIFROST_ONLY
def test_more_tasks_than_partitions(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topics = [new_topic(2), new_topic(1)]
    for topic in topics:
        produce(broker.bootstrap, topic, [{"value": str(each), "partition": 0} for each in range(90)])

    frame = tables.read(subscribePattern=f"^({'|'.join(topics)})$", minPartitions=6, columns="topic,offset").load()

    assert frame.rdd.getNumPartitions() == 6
    assert sorted(map(tuple, frame.collect())) == sorted((topic, each) for topic in topics for each in range(90))


def test_no_records_at_all(tables: Tables, new_topic: NewTopicFunction) -> None:
    """Spark runs a task all the same, with a partition that is not ours."""
    assert tables.read(subscribe=new_topic(2)).load().collect() == []


@BIFROST_ONLY
def test_a_schema_may_leave_columns_out(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    produce(broker.bootstrap, topic, [{"value": "x"}])
    rows = tables.read(subscribe=topic).schema("offset BIGINT, value BINARY").load().collect()
    assert [tuple(row) for row in rows] == [(0, bytearray(b"x"))]


@BIFROST_ONLY
def test_filters_are_pushed_down_if_asked(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3, KEPT)
    records = [{"value": str(each), "partition": each % 3, "timestamp": 10_000 + each} for each in range(300)]
    produce(broker.bootstrap, topic, records)
    where = "partition IN (0, 2) AND offset >= 50 AND offset < 90 AND timestamp >= timestamp_millis(10200)"
    expected = [each for each in range(300) if each % 3 != 1 and 50 <= each // 3 < 90 and each >= 200]

    switch = "spark.sql.python.filterPushdown.enabled"
    tables.spark.conf.set(switch, "true")
    try:
        pushed = tables.read(subscribe=topic, pushdown="true", minPartitions=1).load().where(where)
        assert sorted(int(row.value) for row in pushed.collect()) == expected
        assert pushed.rdd.getNumPartitions() == 2
        plain = tables.read(subscribe=topic).load().where("partition = 1 AND offset = 7")
        assert plain.rdd.getNumPartitions() == 1, "three small ranges in one task"
        assert [int(row.value) for row in plain.collect()] == [22], "without the option Spark filters by itself"
    finally:
        tables.spark.conf.unset(switch)
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        tables.read(subscribe=topic, pushdown="true").load().collect()


@KAFKA_ONLY
def test_only_what_was_committed(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    """Bifrost has no transactions yet."""
    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for number, end in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(topic, value=f"{number}-{each}")
        producer.flush()  # or librdkafka never sends what is aborted
        end()
    expected = [record.value for record in consume(broker.bootstrap, topic)]

    def values(**given: object) -> list[bytes]:
        rows = tables.read(subscribe=topic, columns="value,offset", **given).load().collect()
        return [bytes(row.value) for row in sorted(rows, key=lambda row: row.offset)]

    assert values(kafka_isolation_level="read_committed") == expected
    assert len(values()) == 15


@BIFROST_ONLY
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"subscribe": "x", "startingOffset": "earliest"}, "Is startingOffsets meant"),
        ({"subscribe": "x", "startingOffsets": "{"}, 'It has the form {"topicA"'),
        ({"subscribe": "x", "assign": "{}"}, "subscribe and assign are set together"),
        ({}, "Set one of subscribe"),
        ({"subscribe": "x", "valueFormat": "json"}, "needs a schema"),
        ({"subscribe": "x", "kafka_nothere": "5"}, "no client of Kafka has a setting nothere"),
    ],
)
def test_bad_options_fail_at_load(tables: Tables, given: dict[str, str], problem: str) -> None:
    with pytest.raises(Exception, match=r"OptionError|SchemaError") as raised:
        tables.read(**given).load()
    assert problem in str(raised.value)


@BIFROST_ONLY
def test_what_only_the_broker_knows_fails_on_the_driver(tables: Tables, new_topic: NewTopicFunction) -> None:
    """Before any task runs."""
    topic = new_topic(2)
    cases = {
        f"subscribe: topic {topic}-not does not exist": {"subscribe": f"{topic}-not"},
        f"no partition {topic}-5": {"assign": f'{{"{topic}":[5]}}'},
        f"says nothing about {topic}-1": {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":0}}}}'},
        "but ends at 0": {"assign": f'{{"{topic}":[0]}}', "startingOffsets": f'{{"{topic}":{{"0":9}}}}'},
        "startingOffsets is latest": {"subscribe": topic, "startingOffsets": "latest"},
        "has no record from the time 5 on": {"subscribe": topic, "startingTimestamp": "5"},
        "up to offset 7 but ends at 0": {"assign": f'{{"{topic}":[0]}}', "endingOffsets": f'{{"{topic}":{{"0":7}}}}'},
    }
    for problem, given in cases.items():
        frame = tables.read(**given).load()
        with pytest.raises(Exception, match=re.escape(problem)):
            frame.rdd.getNumPartitions()
