"""`bifrost.testing` beside any broker: write, read and wait in one line; the plugin on a cluster it did not start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from bifrost.client.errors import UnknownTopicError
from bifrost.testing import Record, Topic, expect_records, produce, read
from bifrost.testing.pool import Pool
from tests.compat import wire
from tests.compat.servers import Server
from tests.inner_pytest import InnerPytest, inner

__all__ = ["inner"]

NewTopic = Callable[..., Topic]


@pytest.fixture
def make(broker: Server) -> Iterator[NewTopic]:
    pool = Pool(existing=broker.bootstrap)

    def new(partitions: int = 1, **config: object) -> Topic:
        return pool.new_topic(broker.bootstrap, "helpers", partitions=partitions, config=config)

    yield new
    pool.close()


def test_what_is_written_is_read(make: NewTopic) -> None:
    topic = make(partitions=3)
    written = [
        Record("é", key="k", partition=2, headers=[("a", "1"), ("a", b"\xff"), ("n", None)], timestamp_ms=1_000),
        Record(None, key=b"\xff\x00", partition=0),
        Record(b"", key=None, partition=0),
        Record({"n": [1, None]}, key={"id": 7}, partition=1),
    ]
    stored = topic.produce(written)
    assert [(each.partition, each.offset) for each in stored] == [(2, 0), (0, 0), (0, 1), (1, 0)]
    found = topic.expect(written)
    assert [(each.value, each.key) for each in found] == [
        (None, b"\xff\x00"), (b"", None), (b'{"n":[1,null]}', b'{"id":7}'), ("é".encode(), b"k"),
    ]  # fmt: skip
    assert found[-1].headers == (("a", b"1"), ("a", b"\xff"), ("n", None))
    assert found[-1].timestamp_ms == 1_000
    assert topic.offsets() == {0: 2, 1: 1, 2: 1}


def test_names_are_enough_if_they_come_with_an_address(make: NewTopic) -> None:
    topic = make()
    produce(topic.name, ["a", "b"], bootstrap=topic.bootstrap)
    assert [each.text for each in read(topic.name, 2, bootstrap=topic.bootstrap)] == ["a", "b"]
    assert expect_records(topic, ["a", "b"], 20) == read(topic)
    with pytest.raises(TypeError, match="where is topic"):
        read(topic.name)


def test_order_is_kept_and_compared_within_partitions(make: NewTopic) -> None:
    topic = make(partitions=4)
    records = [(f"key {number % 7}", f"{number}") for number in range(200)]
    topic.produce(records)
    topic.expect(records)
    topic.expect(records[::-1], ordered=False)
    with pytest.raises(AssertionError, match="out of order"):
        topic.expect(records[::-1])


def test_records_that_come_later_are_awaited(make: NewTopic) -> None:
    topic = make(partitions=2)
    later = threading.Timer(0.3, topic.produce, [[("b", "2"), ("c", "3")]])
    topic.produce([("a", "1")])
    later.start()
    try:
        topic.expect([("a", "1"), ("b", "2"), ("c", "3")], timeout=30)
        assert len(topic.read(3)) == 3
    finally:
        later.join()


def test_what_comes_too_much_is_noticed_after_a_while(make: NewTopic) -> None:
    topic = make()
    topic.produce(["1"])
    topic.expect(["1"], settle=0.1)
    later = threading.Timer(0.2, topic.produce, [["2"]])
    later.start()
    try:
        with pytest.raises(AssertionError, match="1 extra"):
            topic.expect(["1"], settle=20)
    finally:
        later.join()


def test_reading_starts_at_a_mark(make: NewTopic) -> None:
    topic = make(partitions=2)
    topic.produce([("a", "1"), ("b", "2")])
    mark = topic.offsets()
    topic.expect([], since=mark)
    topic.produce([("a", "3")])
    topic.expect([("a", "3")], since=mark)


def test_a_topic_that_is_made_later_is_awaited(make: NewTopic, broker: Server) -> None:
    existing = make()
    name = f"{existing.name}-later"
    with pytest.raises(UnknownTopicError, match="does not exist at"):
        read(name, bootstrap=broker.bootstrap, timeout=0.2)
    later = threading.Timer(0.2, wire.create_topic, [broker.bootstrap, name, 1, None])
    later.start()
    try:
        assert read(name, bootstrap=broker.bootstrap, timeout=30) == []
    finally:
        later.join()


def test_the_same_tests_run_against_a_cluster_that_is_there(inner: InnerPytest, broker: Server) -> None:
    (topic,) = inner.passes(
        """
        import pytest

        def test_it(bifrost_topic, bifrost_cluster):
            bifrost_topic.produce([("k", {"n": 1})])
            bifrost_topic.expect([("k", {"n": 1})])
            with pytest.raises(AttributeError, match="kill: the cluster at .* was started elsewhere"):
                bifrost_cluster.kill(0)
            print(f"\\nsaid {bifrost_topic}")

        @pytest.mark.bifrost(settings={"num.partitions": 1, "group.initial.rebalance.delay.ms": 0})
        def test_settings_that_it_has(bifrost_topic):
            bifrost_topic.expect([])

        @pytest.mark.bifrost(settings={"num.partitions": 17})
        def test_settings_that_it_has_not(bifrost_topic):
            pass

        @pytest.mark.bifrost(brokers=3)
        def test_brokers_that_it_has_not(bifrost_topic):
            pass
        """,
        f"--bifrost-bootstrap={broker.bootstrap}",
        ini="bifrost_settings = num.partitions=3",
        passed=2,
        skipped=2,
    )
    with pytest.raises(UnknownTopicError):
        read(topic, bootstrap=broker.bootstrap, timeout=0)
