"""Topics as Arrow, against both brokers: what clients write is read as columns, and they read what tables hold."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import bifrost
from bifrost.client.errors import (
    ConfigError,
    DeliveryError,
    InvalidRequestError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    UnknownPartitionError,
    UnknownTopicError,
)
from bifrost.columnar.schema import ALL_COLUMNS
from tests.compat.clients.base import CODECS, Client, Codec, Record, Stored
from tests.compat.clients.confluent import Confluent
from tests.compat.compaction import CLEANER, compacted_topic
from tests.compat.conftest import NewTopicFunction, StartBroker, make_client, unique_name
from tests.compat.servers import Server
from tests.waiting import eventually

PATIENCE_S = 60
KERNELS = ["numba", "numpy"]
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def stored(table: pa.Table) -> list[Stored]:
    """Rows as the clients of these tests describe records."""
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return [
        Stored(
            row["partition"],
            row["offset"],
            time_us // 1000,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            row["timestampType"] == 1,
        )
        for row, time_us in zip(table.to_pylist(), times)
    ]


def checked(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[Any]:
    """The messages that librdkafka reads when it is told to check every CRC; by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "check.crcs": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Any] = []

    def all_are_there() -> bool:
        found.extend(consumer.consume(count - len(found), timeout=0.5))
        return len(found) >= count

    eventually(all_are_there)
    consumer.close()
    assert all(message.error() is None for message in found)
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def rows(count: int) -> pa.Table:
    """A table with everything that a record can have, and lack."""
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    some = [[], [{"key": "a", "value": b"1"}], [{"key": "a", "value": None}, {"key": "a", "value": b""}]]
    numbers = range(count)
    return pa.table(
        {
            "key": pa.array([None if number % 5 == 0 else b"key-%d" % (number % 50) for number in numbers]),
            "value": pa.array([None if number % 7 == 0 else b"%d" % number * (number % 40) for number in numbers]),
            "headers": pa.array([some[number % 3] for number in numbers], header),
            "at": pa.array([NOON + timedelta(seconds=number) for number in numbers], pa.timestamp("us", tz="UTC")),
        }
    )


@pytest.fixture(params=KERNELS)
def either_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIFROST_KERNELS", request.param)


@pytest.mark.usefixtures("either_kernels")
def test_what_any_client_writes_is_read_as_the_client_reads_it(
    client: Client, broker: Server, new_topic: NewTopicFunction
) -> None:
    topic = new_topic(2)
    written = 0
    for codec in client.codecs:
        records = [
            Record(b"%d" % number * 20, key=b"k%d" % number, headers=(("codec", codec.encode()),), partition=number % 2)
            for number in range(20)
        ]
        client.produce(topic, records, codec=codec)
        written += len(records)
    expected = Confluent(broker.bootstrap).consume(topic, {0: 0, 1: 0}, written)
    table = bifrost.read_arrow(topic, bootstrap=broker.bootstrap, columns=ALL_COLUMNS).to_table()
    assert stored(table) == sorted(expected, key=lambda record: (record.partition, record.offset))
    assert set(table["topic"].to_pylist()) == {topic}


def test_every_client_reads_what_a_table_holds(client: Client, broker: Server, new_topic: NewTopicFunction) -> None:
    table = rows(200)
    for codec in client.codecs:
        topic = new_topic(3)
        report = bifrost.write_arrow(
            topic, table, bootstrap=broker.bootstrap, timestamp="at", compression=codec, batch_bytes=4000
        )
        assert report.acknowledged == 200
        places = {line.partition: 0 for line in report.partitions if line.partition is not None}
        found = client.consume(topic, places, 200)
        ours = stored(bifrost.read_arrow(topic, bootstrap=broker.bootstrap, columns=ALL_COLUMNS).to_table())
        assert sorted(found, key=lambda record: (record.partition, record.offset)) == ours, codec


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.usefixtures("either_kernels")
def test_librdkafka_finds_every_crc_right(codec: Codec, broker: Server, new_topic: NewTopicFunction) -> None:
    topic, table = new_topic(), rows(2000)
    report = bifrost.write_arrow(
        topic, table, bootstrap=broker.bootstrap, timestamp="at", compression=codec, batch_bytes=20_000
    )
    (line,) = report.partitions
    assert (line.sent, line.acknowledged, line.first_offset, line.last_offset) == (2000, 2000, 0, 1999)
    found = checked(broker.bootstrap, topic, 2000)
    assert [message.value() for message in found] == table["value"].to_pylist()
    assert [message.key() for message in found] == table["key"].to_pylist()
    assert [message.timestamp()[1] for message in found] == [
        int(time.timestamp() * 1000) for time in table["at"].to_pylist()
    ]
    assert [[tuple(header) for header in message.headers() or []] for message in found] == [
        [(header["key"], header["value"]) for header in headers] for headers in table["headers"].to_pylist()
    ]


def test_keys_go_where_the_java_client_sends_them(broker: Server, new_topic: NewTopicFunction) -> None:
    java = make_client("java", broker.bootstrap)
    theirs, ours = new_topic(7), new_topic(7)
    keys = [b"%d" % number * (number % 9 + 1) for number in range(60)]
    java.produce(theirs, [Record(b"", key=key) for key in keys])
    bifrost.write_arrow(ours, pa.table({"key": keys}), bootstrap=broker.bootstrap)

    def places(topic: str) -> set[tuple[bytes, int]]:
        table = bifrost.read_arrow(topic, bootstrap=broker.bootstrap, columns=["key", "partition"]).to_table()
        return {(row["key"], row["partition"]) for row in table.to_pylist()}

    assert places(ours) == places(theirs)


def test_the_broker_s_time_is_told_from_the_producer_s(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"message.timestamp.type": "LogAppendTime"})
    before = datetime.now(UTC)
    bifrost.write_arrow(topic, pa.table({"value": ["a", "b"]}), bootstrap=broker.bootstrap)
    table = bifrost.read_arrow(topic, bootstrap=broker.bootstrap).to_table()
    assert table["timestampType"].to_pylist() == [1, 1]
    assert all(time >= before - timedelta(seconds=1) for time in table["timestamp"].to_pylist())


def values(found: bifrost.ArrowTopic) -> list[tuple[int, bytes]]:
    return [(row["partition"], row["value"]) for row in found.to_table().select(["partition", "value"]).to_pylist()]


def test_parts_of_a_topic_are_named_by_offset_and_by_time(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    times = [NOON + timedelta(minutes=number) for number in range(10)]
    table = pa.table(
        {"value": [f"{number}" for number in range(10)], "partition": [number % 2 for number in range(10)], "at": times}
    )
    bifrost.write_arrow(topic, table, bootstrap=broker.bootstrap, partition="partition", timestamp="at")

    def read(**options: Any) -> list[tuple[int, bytes]]:
        return values(bifrost.read_arrow(topic, bootstrap=broker.bootstrap, **options))

    assert read(start=3) == [(0, b"6"), (0, b"8"), (1, b"7"), (1, b"9")]
    assert read(start={0: 4}, end={1: 1}) == [(0, b"8"), (1, b"1")]
    assert read(start=times[4], end=times[7]) == [(0, b"4"), (0, b"6"), (1, b"5")]
    assert read(start=times[8] + timedelta(microseconds=1)) == [(1, b"9")], "the one before is older"
    assert read(start=times[9] + timedelta(hours=1)) == []
    assert read(end=times[9] + timedelta(hours=1)) == read() == read(end=1000)
    assert read(partitions=[1], end=2) == [(1, b"1"), (1, b"3")]
    assert read(start="latest") == []
    first = bifrost.read_arrow(topic, bootstrap=broker.bootstrap, end=2)
    assert first.end == {0: 2, 1: 2}
    assert sorted(values(first) + read(start=first.end)) == sorted(read())


def test_what_makes_no_sense_is_refused_in_words(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    where = {"bootstrap": broker.bootstrap}
    with pytest.raises(UnknownTopicError):
        bifrost.read_arrow(unique_name(), bootstrap=broker.bootstrap)
    with pytest.raises(UnknownTopicError):
        bifrost.write_arrow(unique_name(), rows(1), bootstrap=broker.bootstrap)
    with pytest.raises(UnknownPartitionError, match="It has 1"):
        bifrost.read_arrow(topic, partitions=[1], **where)
    with pytest.raises(UnknownPartitionError, match="start names partition 4"):
        bifrost.read_arrow(topic, start={4: 0}, **where)
    with pytest.raises(OffsetOutOfRangeError):
        bifrost.read_arrow(topic, start={0: 1}, **where)
    assert bifrost.read_arrow(topic, start=1, **where).to_table().num_rows == 0
    with pytest.raises(InvalidRequestError, match="no place in a topic"):
        bifrost.read_arrow(topic, start="begin", **where)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="without a time zone"):
        bifrost.read_arrow(topic, start=datetime(2026, 1, 1), **where)
    with pytest.raises(InvalidRequestError, match="Did you mean value"):
        bifrost.read_arrow(topic, columns=["valeu"], **where)
    with pytest.raises(InvalidRequestError, match="that is followed has no end"):
        bifrost.read_arrow(topic, follow=True, end=3, **where)
    with pytest.raises(InvalidRequestError, match="would never be done"):
        bifrost.read_arrow(topic, follow=True, **where).to_table()
    with pytest.raises(InvalidRequestError, match="holds no Arrow columns"):
        bifrost.write_arrow(topic, [{"value": 1}], **where)
    with pytest.raises(InvalidRequestError, match="neither a column key nor value"):
        bifrost.write_arrow(topic, pa.table({"celsius": [1]}), **where)
    with pytest.raises(ConfigError, match="lz5"):
        bifrost.write_arrow(topic, rows(1), compression="lz5", **where)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="waits for acknowledgements"):
        bifrost.write_arrow(topic, rows(1), acks=0, **where)  # type: ignore[arg-type]
    assert values(bifrost.read_arrow(topic, **where)) == []


def test_a_failure_says_how_far_it_came(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"max.message.bytes": "10000"})
    tables = [pa.table({"value": [b"fits"] * 3}), pa.table({"value": [bytes(50_000)]})]
    bifrost.write_arrow(topic, tables[0], bootstrap=broker.bootstrap)
    with pytest.raises(DeliveryError, match=topic) as caught:
        bifrost.write_arrow(topic, tables[1], bootstrap=broker.bootstrap)
    assert isinstance(caught.value.causes[0], MessageTooLargeError)
    assert caught.value.report is not None
    assert (caught.value.report.acknowledged, caught.value.report.failed) == (0, 1)
    assert values(bifrost.read_arrow(topic, bootstrap=broker.bootstrap)) == [(0, b"fits")] * 3


def test_a_topic_can_be_followed_and_left(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    before = threading.active_count()
    following = iter(bifrost.read_arrow(topic, bootstrap=broker.bootstrap, follow=True, columns=["value"]))
    for word in (b"one", b"two"):
        bifrost.write_arrow(topic, pa.table({"value": [word]}), bootstrap=broker.bootstrap)
        assert next(following).to_pydict() == {"value": [word]}
    following.close()  # type: ignore[attr-defined]
    eventually(lambda: threading.active_count() <= before)


def test_batches_are_bounded_and_whoever_stops_leaves_nothing_behind(
    broker: Server, new_topic: NewTopicFunction
) -> None:
    topic = new_topic(4)
    bifrost.write_arrow(topic, rows(5000), bootstrap=broker.bootstrap, batch_bytes=5000)
    found = bifrost.read_arrow(topic, bootstrap=broker.bootstrap, batch_rows=100, config={"fetch.max.bytes": 20_000})
    batches = list(found)
    assert sum(batch.num_rows for batch in batches) == 5000
    assert max(batch.num_rows for batch in batches) <= 100
    before = threading.active_count()
    some = iter(found)
    assert next(some).num_rows <= 100
    some.close()  # type: ignore[attr-defined]
    eventually(lambda: threading.active_count() <= before)


def test_transactions_that_were_aborted_are_left_out(broker: Server, new_topic: NewTopicFunction) -> None:
    if broker.name == "bifrost":
        pytest.skip("Bifrost has no transactions yet")
    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique_name()})
    producer.init_transactions(PATIENCE_S)
    for fate in ("commit", "abort", "commit", "abort"):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, value=f"{fate}-{number}")
        producer.flush(PATIENCE_S)
        producer.commit_transaction() if fate == "commit" else producer.abort_transaction()
    kept = [f"commit-{number}".encode() for number in range(3)]
    lost = [f"abort-{number}".encode() for number in range(3)]
    committed = bifrost.read_arrow(topic, bootstrap=broker.bootstrap, isolation="read_committed")
    assert [value for _, value in values(committed)] == kept * 2
    everything = bifrost.read_arrow(topic, bootstrap=broker.bootstrap)
    assert [value for _, value in values(everything)] == (kept + lost) * 2


@pytest.mark.oracle
def test_offsets_that_were_compacted_away_are_gaps_and_no_more(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bifrost has no compaction yet. Ranges begin and end in gaps, and some are nothing but gap."""
    bootstrap = start_broker("kafka", **CLEANER).bootstrap
    topic, seen = compacted_topic(bootstrap)
    there = [(each.offset, each.key, each.value) for each in seen]
    last = seen[-1].offset + 1

    def read(start: int, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
        found = bifrost.read_arrow(topic, bootstrap=bootstrap, start=start, end=end, isolation="read_committed")
        return [(row["offset"], row["key"], row["value"]) for row in found.to_table().to_pylist()]

    edges = [0, *range(3, last, 11), last]
    assert any(not [offset for offset, *_ in there if start <= offset < end] for start, end in pairwise(edges))
    for kind in KERNELS:
        monkeypatch.setenv("BIFROST_KERNELS", kind)
        assert read(0, last) == there
        for start, end in pairwise(edges):
            assert read(start, end) == [each for each in there if start <= each[0] < end]


def test_tables_go_into_and_come_from_other_libraries(broker: Server, new_topic: NewTopicFunction) -> None:
    import duckdb
    import polars

    where = {"bootstrap": broker.bootstrap}
    topic, copy, third = new_topic(2), new_topic(2), new_topic(2)
    frame = polars.DataFrame({"key": ["a", "b", "c"], "value": ["1", "2", "3"]})
    assert bifrost.write_arrow(topic, frame, **where).acknowledged == 3
    found = bifrost.read_arrow(topic, columns=["key", "value"], **where)
    assert bifrost.write_arrow(copy, found, **where).acknowledged == 3
    back = bifrost.read_arrow(copy, columns=["key", "value"], **where)
    assert sorted(back.to_polars()["key"].to_list()) == [b"a", b"b", b"c"]
    assert sorted(back.to_pandas()["value"]) == [b"1", b"2", b"3"]
    assert duckdb.sql("select sum(value::varchar::int) from back").fetchall() == [(6,)]
    assert back.reader().read_all().num_rows == 3
    assert pa.table(back).num_rows == 3
    assert bifrost.write_arrow(third, iter(back), **where).acknowledged == 3
    assert bifrost.write_arrow(third, back.to_pandas(), **where).acknowledged == 3


def test_tables_without_rows_are_written_in_no_time(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    nothing: Sequence[Any] = [pa.table({"value": pa.array([], pa.binary())}), rows(0).to_reader(), []]
    for empty in nothing:
        assert bifrost.write_arrow(topic, empty, bootstrap=broker.bootstrap).sent == 0
    with pytest.raises(InvalidRequestError, match="neither"):
        bifrost.write_arrow(topic, pa.table({"other": pa.array([], pa.binary())}), bootstrap=broker.bootstrap)
