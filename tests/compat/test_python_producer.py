"""bifrost.Producer against both brokers: what is stored where, read back by a client that is not ours."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from bifrost import (
    BifrostError,
    Delivery,
    DeliveryError,
    InvalidRequestError,
    MessageTooLargeError,
    Producer,
    SerializationError,
    TimedOutError,
    UnknownPartitionError,
    UnknownTopicError,
    UnreachableError,
)
from bifrost.protocol.partitioners import partition_for_key
from tests.compat import batches, oracle, wire
from tests.compat.clients.base import CODECS, LATEST, Codec, Stored
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import BROKERS, FOREIGN, NewTopicFunction, StartBroker, unique_name
from tests.compat.servers import Server
from tests.waiting import eventually

PARTITIONS = 5
PATIENCE_S = 60


def stored(broker: Server, topic: str, count: int, partitions: int = 1) -> list[Stored]:
    """All that is in the topic: fails if it is less, and shows if it is more."""
    client = Confluent(broker.bootstrap)
    found = client.consume(topic, dict.fromkeys(range(partitions), 0), count)
    ends = client.offsets(topic, range(partitions), LATEST)
    assert sum(end or 0 for end in ends.values()) == count
    return found


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("bytes", "Björn", "Björn".encode()),
        ("str", "Björn", "Björn".encode()),
        ("json", {"a": [1, None, "ö"]}, '{"a":[1,null,"ö"]}'.encode()),
        ("msgpack", {"a": 1}, b"\x81\xa1a\x01"),
        (lambda number: str(number).encode(), 7, b"7"),
    ],
)
def test_serializers(name: Any, value: object, data: bytes, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with Producer(broker.bootstrap, key=name, value=name) as producer:
        producer.send(topic, value, key=value)
        producer.send(topic, None, key=value)
        producer.send(topic, value)
    found = stored(broker, topic, 3)
    assert [(each.key, each.value) for each in found] == [(data, data), (data, None), (None, data)]


def test_what_cannot_be_serialized_is_not_sent(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with Producer(broker.bootstrap, value="json") as producer:
        with pytest.raises(SerializationError, match="a value of type object cannot be sent as json"):
            producer.send(topic, object())
        producer.send(topic, 1)
    assert producer.report().sent == 1
    assert [each.value for each in stored(broker, topic, 1)] == [b"1"]


def test_keys_go_where_the_java_client_puts_them(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(PARTITIONS)
    keys = [f"truck-{number}" for number in range(40)] + ["a", "foobar", "Björn", ""]
    with Producer(broker.bootstrap, key="str") as producer:
        for key in keys:
            producer.send(topic, b"", key=key)
    found = stored(broker, topic, len(keys), PARTITIONS)
    landed = {(each.key or b"").decode(): each.partition for each in found}
    assert landed == {key: partition_for_key(key.encode(), PARTITIONS) for key in keys}
    assert len(set(landed.values())) == PARTITIONS


def test_round_robin_takes_turns_only_without_a_key(broker: Server, new_topic: NewTopicFunction) -> None:
    topics = [new_topic(PARTITIONS), new_topic(PARTITIONS)]
    with Producer(broker.bootstrap, partitioner="round_robin") as producer:
        for number in range(2 * PARTITIONS):
            producer.send(topics[0], str(number))
            producer.send(topics[1], str(number))
            producer.send(topics[1], b"", key="k")
    for topic, keyed in zip(topics, (0, 2 * PARTITIONS)):
        found = stored(broker, topic, 2 * PARTITIONS + keyed, PARTITIONS)
        without = {int(each.value or b""): each.partition for each in found if each.key is None}
        assert without == {number: number % PARTITIONS for number in range(2 * PARTITIONS)}
        assert {each.partition for each in found if each.key} <= {partition_for_key(b"k", PARTITIONS)}


def test_a_mapping_and_a_function_choose_partitions(broker: Server, new_topic: NewTopicFunction) -> None:
    shelves = {"Grocery": 0, "Dairy": 1, "Non-Food": 2}
    topic = new_topic(3)
    with Producer(broker.bootstrap, key="str", value="json", partitioner=shelves) as producer:
        for number in range(30):
            producer.send(topic, number, key=list(shelves)[number % 3])
        with pytest.raises(InvalidRequestError, match=r"no partition for key 'Toys'.*'Grocery', 'Dairy', 'Non-Food'"):
            producer.send(topic, 0, key="Toys")
    found = stored(broker, topic, 30, 3)
    assert {(each.key, each.partition) for each in found} == {(b"Grocery", 0), (b"Dairy", 1), (b"Non-Food", 2)}
    assert [each.sent for each in producer.report().partitions] == [10, 10, 10]

    def by_value(key: object, value: int, count: int) -> int:
        assert (key, count) == (None, 3)
        return value % count

    topic = new_topic(3)
    with Producer(broker.bootstrap, value="json", partitioner=by_value) as producer:
        for number in range(30):
            producer.send(topic, number)
    found = stored(broker, topic, 30, 3)
    assert all(int(each.value or b"") % 3 == each.partition for each in found)


def test_a_partitioner_that_misses(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    answers: list[Any] = [2, -7, "1", 1]
    with Producer(broker.bootstrap, partitioner=lambda *_: answers.pop(0)) as producer:
        for pattern in ("has no partition 2. It has partitions 0 to 1", "has no partition -7", "returned '1'"):
            with pytest.raises(BifrostError, match=pattern):
                producer.send(topic, b"")
        producer.send(topic, b"")
    assert [each.partition for each in stored(broker, topic, 1, 2)] == [1]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(acks: Any, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with Producer(broker.bootstrap) as other:
        other.send(topic, b"before")
    with Producer(broker.bootstrap, acks=acks) as producer:
        deliveries = [producer.send(topic, str(number)) for number in range(20)]
    assert [each.value for each in stored(broker, topic, 21)][1:] == [str(number).encode() for number in range(20)]
    offsets = [each.result().offset for each in deliveries]
    assert offsets == ([-1] * 20 if acks == 0 else list(range(1, 21)))
    (line,) = producer.report().partitions
    assert (line.sent, line.acknowledged, line.stored) == (20, 20, 20)


def test_headers_and_timestamps(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    moment = datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=UTC)
    with Producer(broker.bootstrap) as producer:
        first = producer.send(topic, b"", headers={"a": "x", "b": None}, timestamp=moment)
        producer.send(topic, b"", headers=[("a", b"1"), ("a", b"2")], timestamp=1_234_567)
        producer.send(topic, b"")
        producer.send(topic, b"", timestamp=moment.astimezone().replace(tzinfo=None))
        with pytest.raises(SerializationError, match="header 'n' is of type int"):
            producer.send(topic, b"", headers={"n": 1})  # type: ignore[dict-item]
        with pytest.raises(SerializationError, match="headers has 'a'"):
            producer.send(topic, b"", headers="a")  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError, match="timestamp 'now' is of type str"):
            producer.send(topic, b"", timestamp="now")  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError, match="not after 1970"):
            producer.send(topic, b"", timestamp=0)
    found = stored(broker, topic, 4)
    assert [each.headers for each in found] == [(("a", b"x"), ("b", None)), (("a", b"1"), ("a", b"2")), (), ()]
    assert [each.timestamp_ms for each in found[:2]] == [1_709_208_000_123, 1_234_567]
    assert abs(datetime.fromtimestamp(found[2].timestamp_ms / 1000, UTC) - datetime.now(UTC)) < timedelta(minutes=5)
    assert found[3].timestamp_ms == found[0].timestamp_ms, "without a zone it is local time"
    assert first.result().timestamp == moment


@pytest.mark.parametrize("codec", CODECS)
def test_compression(codec: Codec, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with Producer(broker.bootstrap, compression=codec, linger_ms=100) as producer:
        for _ in range(50):
            producer.send(topic, b"compressible " * 50)
    assert {each.value for each in stored(broker, topic, 50)} == {b"compressible " * 50}
    headers = batches.headers_of(wire.fetch_records(broker.bootstrap, topic, 0))
    assert {header["attributes"] & 7 for header in headers} == {CODECS.index(codec)}


def test_futures_and_callbacks(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    seen: list[tuple[str, Delivery]] = []
    threads = set()

    def note(name: str, delivery: Delivery) -> None:
        threads.add(threading.current_thread().name)
        seen.append((name, delivery))

    with Producer(broker.bootstrap, on_delivery=lambda each: note("all", each)) as producer:
        first = producer.send(topic, b"1")
        second = producer.send(topic, b"2", on_delivery=lambda each: note("one", each))
        first.add_done_callback(lambda each: note("added", each))
        assert first.result(PATIENCE_S).offset == 0
        assert second.result(PATIENCE_S).offset == 1
        assert second.exception() is None
        assert (first.done(), second.done()) == (True, True)
    assert sorted((name, id(each)) for name, each in seen) == sorted(
        [("all", id(first)), ("added", id(first)), ("one", id(second))]
    )
    assert threads <= {"bifrost-producer", "MainThread"}
    first.add_done_callback(lambda each: note("late", each))
    assert seen[-1] == ("late", first)
    assert repr(second) == f"<Delivery to {topic}-0: acknowledged at offset 1>"


def test_what_a_callback_raises_comes_out_of_flush(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    called = []

    def fail(delivery: Delivery) -> None:
        called.append(delivery)
        raise ZeroDivisionError

    def wait(delivery: Delivery) -> None:
        producer.flush()

    with Producer(broker.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number), on_delivery=fail)
        with pytest.raises(ZeroDivisionError) as raised:
            producer.flush(PATIENCE_S)
        assert "raised by a callback" in raised.value.__notes__[0]
        assert len(called) == 10, "one that fails does not keep others from being called"
        producer.send(topic, b"", on_delivery=wait)
        with pytest.raises(InvalidRequestError, match="a delivery callback cannot wait for deliveries"):
            producer.flush(PATIENCE_S)
        producer.send(topic, b"")
    assert producer.report().acknowledged == 12


def test_a_callback_may_send(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    done = threading.Event()
    with Producer(broker.bootstrap) as producer:

        def again(delivery: Delivery) -> None:
            if delivery.result().offset < 100:
                producer.send(topic, b"", on_delivery=again)
            else:
                done.set()

        producer.send(topic, b"", on_delivery=again)
        assert done.wait(PATIENCE_S)
    assert producer.report().acknowledged == 101


@pytest.mark.parametrize("limit", [{"max_queued": 50}, {"max_queued": 1}, {"max_queued_bytes": 20_000}])
def test_a_full_queue_makes_senders_wait(limit: dict[str, int], broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    count = 300 if limit.get("max_queued") == 1 else 5_000
    longest = 0
    with Producer(broker.bootstrap, linger_ms=0, **limit) as producer:  # type: ignore[arg-type]
        for number in range(count):
            producer.post(topic, f"{number:0100}")
            longest = max(longest, len(producer._outbox))
    # Messages whose report waits to be served count twice.
    assert longest <= 2 * limit.get("max_queued", 200) + 10
    found = stored(broker, topic, count)
    assert [int(each.value or b"") for each in found] == list(range(count))


def test_a_message_larger_than_the_queue(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with (
        Producer(broker.bootstrap, max_queued_bytes=2_000) as producer,
        pytest.raises(MessageTooLargeError, match=r"10,000 bytes is larger than the queue. Raise max_queued_bytes"),
    ):
        producer.send(topic, b"x" * 10_000)
    assert producer.report().sent == 0


def test_threads_share_a_producer(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(PARTITIONS)
    with Producer(broker.bootstrap, partitioner="round_robin", max_queued=1_000) as producer:

        def run(name: int) -> None:
            for number in range(2_000):
                producer.post(topic, f"{name}-{number}", partition=name)

        threads = [threading.Thread(target=run, args=(name,)) for name in range(PARTITIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    report = producer.report()
    assert (report.sent, report.acknowledged, report.stored) == (10_000, 10_000, 10_000)
    found = stored(broker, topic, 10_000, PARTITIONS)
    for name in range(PARTITIONS):
        values = [each.value for each in found if each.partition == name]
        assert values == [f"{name}-{number}".encode() for number in range(2_000)]


def test_the_report_compares_three_counts(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    with Producer(broker.bootstrap) as before:
        before.send(topic, b"", partition=0)
    with Producer(broker.bootstrap) as producer:
        for number in range(6):
            producer.send(topic, b"", partition=number % 2)
        producer.flush()
        report = producer.report()
        assert report.complete
        assert str(report).splitlines()[1:] == [
            f"{topic}          0     3             3       0       3      1-3",
            f"{topic}          1     3             3       0       3      0-2",
            "6 sent, 6 acknowledged, 6 stored",
        ]
        with Producer(broker.bootstrap) as other:
            other.send(topic, b"", partition=0)
        assert [each.stored for each in producer.report().partitions] == [4, 3]
        # Somebody deletes and creates the topic again: what was acknowledged is gone, and the report says so.
        client = Confluent(broker.bootstrap)
        client.delete_topic(topic)
        wire.create_topic(broker.bootstrap, topic, 2, None)
        report = producer.report()
        assert not report.complete
        assert report.stored == 0


def test_an_address_where_nobody_is(broker: Server) -> None:
    address = f"127.0.0.1:{oracle.free_port()}"
    with Producer(address, connect_timeout_s=1) as producer:
        with pytest.raises(UnreachableError) as raised:
            producer.send("t", b"")
        assert str(raised.value).startswith(f"no broker answers at {address} (connection refused). Is it running")
        assert isinstance(raised.value, ConnectionError)
    assert producer.report(timeout=1).sent == 0


@pytest.mark.parametrize("kind", BROKERS)
def test_a_topic_that_does_not_exist(kind: str, start_broker: StartBroker) -> None:
    if FOREIGN:
        pytest.skip("needs a broker with settings of its own")
    server = start_broker(kind, auto_create_topics_enable="false")
    with (
        Producer(server.bootstrap) as producer,
        pytest.raises(UnknownTopicError, match=r"topic nowhere does not exist.*bifrost topic create"),
    ):
        producer.send("nowhere", b"")


def test_a_topic_is_created_by_the_first_message(broker: Server) -> None:
    topic = unique_name()
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"first")
    assert [each.value for each in stored(broker, topic, 1)] == [b"first"]


def test_a_partition_that_does_not_exist_until_it_is_added(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1)
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"")
        with pytest.raises(UnknownPartitionError, match=f"topic {topic} has no partition 1. Its only partition is 0"):
            producer.send(topic, b"", partition=1)
        Confluent(broker.bootstrap).create_partitions(topic, 3)

        def is_there() -> bool:
            producer._ledgers[topic].refresh_at = 0  # it is long ago that anybody asked
            try:
                producer.send(topic, b"", partition=2).result(PATIENCE_S)
            except UnknownPartitionError:  # Kafka's controller has answered before its broker knows
                return False
            return True

        eventually(is_there, "the new partition takes a message")


def test_messages_that_are_too_large(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"max.message.bytes": "2000"})
    producer = Producer(broker.bootstrap)
    with pytest.raises(MessageTooLargeError, match=f"a message for topic {topic} is too large.*message.max.bytes"):
        producer.send(topic, b"x" * 2_000_000)
    good = producer.send(topic, b"fits").result(PATIENCE_S)
    bad = producer.send(topic, b"x" * 10_000)
    with pytest.raises(MessageTooLargeError, match=r"max.message.bytes"):
        bad.result(PATIENCE_S)
    with pytest.raises(DeliveryError, match="1 of 2 messages were not acknowledged: a message for topic") as raised:
        producer.close()
    assert good.offset == 0
    assert raised.value.report is not None
    assert [(each.sent, each.acknowledged, each.failed) for each in raised.value.report.partitions] == [(2, 1, 1)]
    assert [type(each) for each in raised.value.causes] == [MessageTooLargeError]
    producer.close()
    with pytest.raises(InvalidRequestError, match="the producer is closed"):
        producer.send(topic, b"")


def test_waiting_with_a_limit(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with Producer(broker.bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send(topic, b"")
        with pytest.raises(TimedOutError, match=r"is not acknowledged after 0.05 s"):
            delivery.result(0.05)
        assert not delivery.done()
        producer.flush(PATIENCE_S)
        assert delivery.done(), "flush does not wait for batches to fill"


def test_an_error_in_the_block_is_not_hidden_and_what_was_sent_arrives(
    broker: Server, new_topic: NewTopicFunction
) -> None:
    topic = new_topic()

    def run() -> None:
        with Producer(broker.bootstrap) as producer:
            for number in range(100):
                producer.post(topic, str(number))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert len(stored(broker, topic, 100)) == 100


def test_structs_and_dates_as_json(broker: Server, new_topic: NewTopicFunction) -> None:
    class Sale(msgspec.Struct):
        shelf: str
        at: datetime

    topic = new_topic()
    sale = Sale("Dairy", datetime(2024, 1, 1, tzinfo=UTC))
    with Producer(broker.bootstrap, value="json") as producer:
        producer.send(topic, sale)
    (found,) = stored(broker, topic, 1)
    assert msgspec.json.decode(found.value or b"", type=Sale) == sale


def test_keyless_messages_are_spread(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    with Producer(broker.bootstrap, linger_ms=0) as producer:
        for number in range(200):
            producer.send(topic, str(number)).result(PATIENCE_S) if number % 5 == 0 else producer.post(topic, b"")
    counts = Counter(each.partition for each in stored(broker, topic, 200, 2))
    assert set(counts) == {0, 1}
