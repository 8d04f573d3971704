"""Values as columns: `valueFormat=json`."""

from __future__ import annotations

import pytest

from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server
from tests.spark.conftest import BIFROST_ONLY, Tables
from tests.spark.records import consume, produce

SCHEMA = "n BIGINT, who STRUCT<name: STRING, tags: ARRAY<STRING>>, day DATE, at TIMESTAMP, price DECIMAL(10, 2)"
GOOD = (
    '{"n": 1, "who": {"name": "Ada", "tags": ["a", "b"]}, "day": "2024-05-06", "at": "2024-05-06T07:08:09Z", '
    '"price": 1.25, "other": true}'
)


@BIFROST_ONLY
def test_values_become_columns(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    produce(
        broker.bootstrap,
        topic,
        [{"key": "k", "value": GOOD}, {"value": "{"}, {"value": None}, {"value": '{"n": "x"}'}, {"value": '{"n": 5}'}],
    )

    def rows(schema: str, **given: object) -> list[tuple[object, ...]]:
        frame = tables.read(subscribe=topic, valueFormat="json", **given).schema(schema).load()
        return [tuple(row) for row in frame.collect()]

    (row,) = rows(f"{SCHEMA}, _key BINARY, _offset BIGINT", endingOffsets=f'{{"{topic}":{{"0":1}}}}')
    assert str(row[:3]) == "(1, Row(name='Ada', tags=['a', 'b']), datetime.date(2024, 5, 6))"
    assert (str(row[3]), str(row[4]), row[5:]) == ("2024-05-06 07:08:09", "1.25", (bytearray(b"k"), 0))

    assert rows("n BIGINT, _offset BIGINT, _corrupt_record STRING") == [
        (1, 0, None),
        (None, 1, "{"),
        (None, 2, None),
        (None, 3, '{"n": "x"}'),
        (5, 4, None),
    ]
    with pytest.raises(Exception, match=rf"{topic}-0: the value at offset 1 is not what the schema says"):
        rows("n BIGINT", mode="failfast")


@BIFROST_ONLY
def test_malformed_values_go_to_a_topic_of_their_own(
    tables: Tables, broker: Server, new_topic: NewTopicFunction
) -> None:
    topic, dead = new_topic(), new_topic()
    bad = {"key": "k", "value": "nonsense", "headers": [("mine", b"1")]}
    produce(broker.bootstrap, topic, [{"value": '{"n": 1}'}, bad, {"value": '{"n": 2}'}])
    frame = tables.read(subscribe=topic, valueFormat="json", mode="dropmalformed", deadLetterTopic=dead)
    assert [row.n for row in frame.schema("n BIGINT").load().collect()] == [1, 2]

    (letter,) = consume(broker.bootstrap, dead)
    headers = dict(letter.headers or ())
    assert (letter.key, letter.value, headers.pop("mine")) == (b"k", b"nonsense", b"1")
    assert headers.pop("bifrost.error")
    assert headers == {"bifrost.topic": topic.encode(), "bifrost.partition": b"0", "bifrost.offset": b"1"}


@BIFROST_ONLY
@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("n MAP<STRING, INT>", "JSON cannot become map"),
        ("_offset BIGINT", "names no field of the values"),
        ("n INT, _offset INT", "_offset of a record is bigint, not int"),
        ("n INT NOT NULL", "n must be nullable"),
    ],
)
def test_a_schema_that_cannot_be(tables: Tables, new_topic: NewTopicFunction, schema: str, problem: str) -> None:
    frame = tables.read(subscribe=new_topic(), valueFormat="json").schema(schema).load()
    with pytest.raises(Exception, match=problem):
        frame.rdd.getNumPartitions()
