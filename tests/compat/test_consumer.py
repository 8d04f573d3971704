"""`bifrost.Consumer` at Bifrost and at Apache Kafka: what is read, from where, and what is said when it cannot be."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import bifrost
from bifrost import Consumer
from bifrost.types import TopicPartition
from tests.compat import wire
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.oracle import free_port
from tests.compat.readers import PATIENCE_S, numbers, read, values, write
from tests.compat.servers import Server
from tests.waiting import eventually


def test_reads_all_partitions_to_their_end_without_a_group(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3)
    for partition in range(3):
        write(broker.bootstrap, topic, numbers(700, 1000 * partition), partition)
    with Consumer(topic, bootstrap=broker.bootstrap, from_beginning=True, until_end=True) as consumer:
        messages = list(consumer)
        table = consumer.offsets()
    for partition in range(3):
        mine = [message for message in messages if message.partition == partition]
        assert values(mine) == numbers(700, 1000 * partition)
        assert [message.offset for message in mine] == list(range(700))
        assert table[topic, partition] == (topic, partition, 700, None, 700)
    assert len(messages) == 2100
    assert table.lag == 0


def test_without_from_beginning_only_what_comes_later_is_read(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, [b"old"])
    with Consumer(topic, bootstrap=broker.bootstrap) as consumer:
        write(broker.bootstrap, topic, [b"new"])
        assert values(read(consumer, 1)) == [b"new"]


def test_a_message_has_everything_that_was_sent(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    headers = [("a", b"1"), ("a", None)]
    write(broker.bootstrap, topic, [None], key="k", headers=headers, timestamp=1_700_000_000_123)
    with Consumer(topic, bootstrap=broker.bootstrap, from_beginning=True) as consumer:
        (message,) = read(consumer, 1)
    assert (message.topic, message.partition, message.offset) == (topic, 0, 0)
    assert (message.key, message.value, message.headers) == (b"k", None, headers)
    assert message.timestamp == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert message.leader_epoch == 0


def test_new_partitions_and_topics_of_a_pattern_are_found(
    broker: Server, monkeypatch: pytest.MonkeyPatch, new_topic: NewTopicFunction
) -> None:
    monkeypatch.setattr("bifrost.client.discovery.LOOK_EVERY_S", 0.2)
    prefix = unique_name("pattern")
    wire.create_topic(broker.bootstrap, f"{prefix}-1")
    with Consumer(pattern=f"{prefix}-[0-9]", bootstrap=broker.bootstrap) as consumer:
        wire.create_topic(broker.bootstrap, f"x-{prefix}-1")
        wire.create_topic(broker.bootstrap, f"{prefix}-2")
        for topic in (f"x-{prefix}-1", f"{prefix}-1", f"{prefix}-2"):
            write(broker.bootstrap, topic, [topic.encode()])
        assert sorted(values(read(consumer, 2))) == [f"{prefix}-1".encode(), f"{prefix}-2".encode()]


@pytest.mark.parametrize("group", [None, "classic", "consumer"])
def test_a_pattern_may_match_nothing_yet(
    broker: Server, monkeypatch: pytest.MonkeyPatch, group: Any, coordinators: None
) -> None:
    monkeypatch.setattr("bifrost.client.discovery.LOOK_EVERY_S", 0.2)
    monkeypatch.setattr("bifrost.client.consumer_options.LOOK_EVERY_S", 0.2)
    topic = unique_name("later")
    options: dict[str, Any] = {} if group is None else {"group": unique_name(), "group_protocol": group}
    with Consumer(
        pattern=f"{topic}.*", bootstrap=broker.bootstrap, from_beginning=True, timeout_s=0.5, **options
    ) as consumer:
        assert list(consumer) == []
        wire.create_topic(broker.bootstrap, topic)
        write(broker.bootstrap, topic, [b"at last"])
        assert values(read(consumer, 1)) == [b"at last"]


def test_topics_may_come_as_a_list(broker: Server, new_topic: NewTopicFunction) -> None:
    one, two = new_topic(), new_topic()
    for topic in (one, two):
        write(broker.bootstrap, topic, [topic.encode()])
    with Consumer([one], bootstrap=broker.bootstrap, from_beginning=True, until_end=True) as consumer:
        assert values(consumer) == [one.encode()]
        consumer.subscribe([one, two])
        assert sorted(values(consumer)) == sorted([one.encode(), two.encode()])


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_a_group_follows_a_pattern(broker: Server, group_protocol: Any, coordinators: None) -> None:
    prefix = unique_name("pattern")
    for name in (f"{prefix}-1", f"{prefix}-2", f"x-{prefix}-1"):
        wire.create_topic(broker.bootstrap, name)
        write(broker.bootstrap, name, [name.encode()])
    with Consumer(
        pattern=f"{prefix}-[0-9]",
        bootstrap=broker.bootstrap,
        group=unique_name(),
        group_protocol=group_protocol,
        from_beginning=True,
    ) as consumer:
        assert sorted(values(read(consumer, 2))) == [f"{prefix}-1".encode(), f"{prefix}-2".encode()]
        assert {partition.topic for partition in consumer.assignment} == {f"{prefix}-1", f"{prefix}-2"}


def test_assigned_partitions_start_where_they_were_told_to(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3)
    for partition in range(3):
        write(broker.bootstrap, topic, numbers(5), partition)
    with Consumer(bootstrap=broker.bootstrap, until_end=True) as consumer:
        consumer.assign({(topic, 0): 3, (topic, 1): "beginning", (topic, 2): "end"})
        found = [(message.partition, message.offset) for message in consumer]
        assert sorted(found) == [(0, 3), (0, 4), *((1, offset) for offset in range(5))]
        consumer.assign((topic, 0))
        assert list(consumer) == []
        consumer.assign([(topic, 0), (topic, 1)])
        assert [consumer.position(topic, partition) for partition in (0, 1)] == [5, 5]


def test_seeks_by_offset_time_and_name_in_the_middle_of_what_was_fetched(
    broker: Server, new_topic: NewTopicFunction
) -> None:
    topic = new_topic()
    for number in range(20):
        write(broker.bootstrap, topic, [b"%d" % number], timestamp=1_700_000_000_000 + 1000 * number)
    with Consumer(topic, bootstrap=broker.bootstrap, from_beginning=True) as consumer:
        assert values(read(consumer, 3)) == numbers(3)
        consumer.seek(offset=10)
        assert consumer.position(topic, 0) == 10
        assert values(read(consumer, 2)) == numbers(2, 10)
        consumer.seek(to="beginning", partitions=topic)
        assert values(read(consumer, 20)) == numbers(20)
        consumer.seek(timestamp=1_700_000_004_001, partitions=[(topic, 0)])
        assert values(read(consumer, 1)) == [b"5"]
        consumer.seek(timestamp=datetime.fromtimestamp(1_700_000_007, UTC))
        assert values(read(consumer, 1)) == [b"7"]
        consumer.seek(timestamp=datetime(2999, 1, 1, tzinfo=UTC))
        assert consumer.position(topic, 0) == 20
        consumer.seek(offset=1)
        consumer.seek(to="end")
        assert consumer.poll(0.3) is None


def test_pausing_holds_back_also_what_was_fetched_already(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    for partition in range(2):
        write(broker.bootstrap, topic, numbers(50), partition)
    with Consumer(topic, bootstrap=broker.bootstrap, from_beginning=True, timeout_s=1) as consumer:
        (first,) = read(consumer, 1)
        consumer.pause(first.topic_partition)
        rest = list(consumer)
        assert {message.partition for message in rest} == {1 - first.partition}
        assert len(rest) == 50
        consumer.resume()
        more = list(consumer)
        assert [message.offset for message in more] == list(range(1, 50))
        assert {message.partition for message in more} == {first.partition}


def test_batches_have_the_size_asked_for_and_end_at_the_end(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(1250))
    with Consumer(topic, bootstrap=broker.bootstrap, from_beginning=True, until_end=True) as consumer:
        batches = list(consumer.batches(600, timeout=PATIENCE_S))
        assert [len(batch) for batch in batches] == [600, 600, 50]
        assert values(message for batch in batches for message in batch) == numbers(1250)
        assert consumer.batch(5, timeout=0) == []


def test_iteration_ends_when_nothing_comes_and_can_be_taken_up_again(
    broker: Server, new_topic: NewTopicFunction
) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(2))
    with Consumer(topic, bootstrap=broker.bootstrap, from_beginning=True, timeout_s=0.5) as consumer:
        assert values(consumer) == numbers(2)
        write(broker.bootstrap, topic, [b"2"])
        assert next(consumer).value == b"2"
        with pytest.raises(StopIteration):
            next(consumer)


def test_a_message_that_cannot_be_read_stops_nobody_for_ever(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, [b"1", b"{oops", b"3", None])
    with Consumer(topic, bootstrap=broker.bootstrap, from_beginning=True, value="json") as consumer:
        assert values(read(consumer, 1)) == [1]
        for _ in range(2):
            with pytest.raises(bifrost.SerializationError, match=f"{topic}-0 at offset 1: ") as caught:
                read(consumer, 1)
        consumer.seek(offset=2)
        assert values(read(consumer, 2)) == [3, None]
        consumer.seek(to="beginning")
        assert values(consumer.batch(10, timeout=2)) == [1]
        with pytest.raises(bifrost.SerializationError):
            consumer.batch(10, timeout=2)
    assert "seek(offset=2" in str(caught.value)

    bad: list[Any] = []
    with Consumer(
        topic,
        bootstrap=broker.bootstrap,
        from_beginning=True,
        until_end=True,
        value="json",
        on_bad_message=lambda message, error: bad.append((message.value, error.offset)),
    ) as consumer:
        assert values(consumer) == [1, 3, None]
    assert bad == [(b"{oops", 1)]


def test_a_wrong_address_is_said_in_time() -> None:
    before = time.monotonic()
    with pytest.raises(bifrost.UnreachableError, match=r"no broker answers at 127\.0\.0\.1:\d+"):
        Consumer("t", bootstrap=f"127.0.0.1:{free_port()}", request_timeout_s=1)
    with pytest.raises(bifrost.UnreachableError, match=r"no broker answers at no-such-host\.invalid:9092"):
        Consumer("t", group="g", bootstrap="no-such-host.invalid:9092", request_timeout_s=1)
    assert time.monotonic() - before < 20


def test_what_does_not_exist_is_named(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    for group in (None, unique_name()):
        with pytest.raises(bifrost.UnknownTopicError, match="topic not-there does not exist"):
            Consumer(topic, "not-there", bootstrap=broker.bootstrap, group=group)
    with Consumer(bootstrap=broker.bootstrap) as consumer:
        with pytest.raises(bifrost.UnknownPartitionError, match=r"no partition 2\. It has partitions 0 to 1"):
            consumer.assign((topic, 2))
        with pytest.raises(bifrost.InvalidRequestError, match=r"has no offset 5\. Its first message is at 0"):
            consumer.assign({(topic, 0): 5})
        consumer.assign((topic, 0))
        with pytest.raises(bifrost.UnknownPartitionError, match=re.escape(f"It has {topic}-0.")):
            consumer.seek(offset=0, partitions=(topic, 1))
        with pytest.raises(bifrost.InvalidRequestError, match="needs one place"):
            consumer.seek(offset=0, to="end")
        with pytest.raises(bifrost.InvalidRequestError, match="no group to commit for"):
            consumer.commit()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal, also where the tests themselves run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_control_c_ends_a_loop_that_waits(
    broker: Server, new_topic: NewTopicFunction, coordinators: None, interruptible: None
) -> None:
    topic, group = new_topic(), unique_name()
    write(broker.bootstrap, topic, numbers(3))
    seen = []

    def handle() -> None:
        with Consumer(topic, bootstrap=broker.bootstrap, group=group, from_beginning=True) as consumer:
            for message in consumer:
                seen.append(message.value)
                if len(seen) == 3:
                    threading.Timer(0.5, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()

    with pytest.raises(KeyboardInterrupt):
        handle()
    assert seen == numbers(3)
    with Consumer(topic, bootstrap=broker.bootstrap, group=group) as consumer:
        consumer.assign((topic, 0))
        assert consumer.offsets()[topic, 0].committed == 3


def test_consumers_say_what_they_are(broker: Server, new_topic: NewTopicFunction, coordinators: None) -> None:
    topic = new_topic()
    with Consumer(topic, bootstrap=broker.bootstrap) as consumer:
        assert repr(consumer) == f"<Consumer topics={topic} assigned={topic}-0 at {broker.bootstrap}>"
        assert consumer.assignment == [TopicPartition(topic, 0)]
    with Consumer(topic, bootstrap=broker.bootstrap, group="readers") as consumer:
        assert repr(consumer) == f"<Consumer topics={topic} group=readers assigned=none at {broker.bootstrap}>"
        eventually(lambda: consumer.poll(0.1) or consumer.assignment, "an assignment")
        assert f"assigned={topic}-0" in repr(consumer)
