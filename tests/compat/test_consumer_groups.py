"""`bifrost.Consumer` in groups, with both protocols: who reads what, what is committed when, and who is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import bifrost
from bifrost import Consumer
from bifrost.types import TopicPartition
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.readers import PATIENCE_S, SESSION, numbers, read, values, write
from tests.compat.servers import Server
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("coordinators")

Join = Callable[..., Consumer]


@pytest.fixture(params=["classic", "consumer"])
def join(request: pytest.FixtureRequest, broker: Server) -> Join:
    """Makes members of one group."""
    group = unique_name()

    def make(*topics: str, **options: Any) -> Consumer:
        return Consumer(
            *topics,
            bootstrap=broker.bootstrap,
            group=group,
            group_protocol=request.param,
            **{"from_beginning": True, "config": SESSION[request.param], **options},
        )

    return make


def committed(join: Join, topic: str, partition: int = 0) -> int | None:
    with join(auto_commit=False) as observer:
        observer.assign((topic, partition))
        return observer.offsets()[topic, partition].committed


@pytest.mark.parametrize("as_mapping", [False, True])
def test_what_was_committed_by_hand_stays_committed(
    broker: Server, new_topic: NewTopicFunction, join: Join, as_mapping: bool
) -> None:
    """Also when the block fails with the very message that was said to be handled."""
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(5))

    def fail_with_the_third() -> None:
        with join(topic) as consumer:
            (*_, last) = read(consumer, 3)
            consumer.commit({last.topic_partition: last.offset + 1} if as_mapping else last)
            raise KeyError

    with pytest.raises(KeyError):
        fail_with_the_third()
    assert committed(join, topic) == 3


def test_what_was_handled_is_committed_at_the_end_of_the_block(
    broker: Server, new_topic: NewTopicFunction, join: Join
) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(10))
    with join(topic) as consumer:
        for message in consumer:
            if message.value == b"3":
                break
    assert committed(join, topic) == 4
    with join(topic) as consumer:
        assert values(read(consumer, 6)) == numbers(6, 4)
    assert committed(join, topic) == 10


def test_the_message_that_a_block_failed_with_comes_again(
    broker: Server, new_topic: NewTopicFunction, join: Join
) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(10))

    def fail_at(value: bytes) -> None:
        with join(topic) as consumer:
            for message in consumer:
                if message.value == value:
                    raise RuntimeError(value)

    with pytest.raises(RuntimeError):
        fail_at(b"3")
    assert committed(join, topic) == 3
    with join(topic) as consumer:
        assert values(consumer.batch(4, timeout=PATIENCE_S)) == numbers(4, 3)
        consumer.close()
    assert committed(join, topic) == 3, "close() does not know that the batch was handled"


def test_handled_messages_are_committed_from_time_to_time_also_while_none_come(
    broker: Server, new_topic: NewTopicFunction, join: Join
) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(10))
    with join(topic, commit_interval_s=0.2) as consumer:
        read(consumer, 10)
        eventually(
            lambda: consumer.poll(0.1) is None and consumer.offsets()[topic, 0] == (topic, 0, 10, 10, 10),
            "a commit of all, while no message comes",
        )


def test_with_auto_commit_off_only_commit_commits(broker: Server, new_topic: NewTopicFunction, join: Join) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(10))
    here = TopicPartition(topic, 0)
    with join(topic, auto_commit=False) as consumer:
        first, *_ = read(consumer, 3)
        assert consumer.offsets()[topic, 0].committed is None
        assert consumer.commit(first) == {here: 1}
        assert consumer.commit() == {here: 3}
        read(consumer, 1)
        future = consumer.commit_async()
        assert future.result(PATIENCE_S) == {here: 4}
        assert consumer.commit({(topic, 0): 2}) == {here: 2}
        done = threading.Event()
        consumer.commit_async({(topic, 0): 5}).add_done_callback(lambda _: done.set())
        assert done.wait(PATIENCE_S)
        read(consumer, 5)
    assert committed(join, topic) == 5
    with join(topic, auto_commit=False) as consumer:
        read(consumer, 1)
        with pytest.raises(bifrost.CommitError, match="were not committed"):
            consumer.commit({("not-there", 0): 1})


def test_after_a_seek_the_new_place_is_committed(broker: Server, new_topic: NewTopicFunction, join: Join) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(10))
    with join(topic) as consumer:
        read(consumer, 8)
        consumer.seek(offset=2)
    assert committed(join, topic) == 2
    with join(topic) as consumer:
        consumer.seek(to="end")
    assert committed(join, topic) == 10


def test_two_members_share_the_partitions_and_every_message_is_handled_once(
    broker: Server, new_topic: NewTopicFunction, join: Join
) -> None:
    topic = new_topic(4)
    for partition in range(4):
        write(broker.bootstrap, topic, numbers(200, 1000 * partition), partition)
    events: list[Any] = []
    handled: list[bytes] = []

    def told(member: str) -> dict[str, Any]:
        return {
            "on_assigned": lambda _consumer, partitions: events.append((member, "+", partitions)),
            "on_revoked": lambda _consumer, partitions: events.append((member, "-", partitions)),
        }

    with join(topic, **told("a")) as first:
        handled += values(read(first, 400))
        assert len(first.assignment) == 4
        with join(topic, **told("b")) as second:

            def step() -> bool:
                for member in (first, second):
                    handled.extend(values(member.batch(50, timeout=0.1)))
                return len(first.assignment) == len(second.assignment) == 2

            eventually(step, "two partitions each")
            assert not set(first.assignment) & set(second.assignment)
            eventually(lambda: step() and len(handled) >= 800, "all messages")
        eventually(lambda: first.poll(0.1) or len(first.assignment) == 4, "all partitions again")
    assert sorted(handled) == sorted(value for partition in range(4) for value in numbers(200, 1000 * partition))
    owned: dict[str, set[TopicPartition]] = {"a": set(), "b": set()}
    for member, sign, partitions in events:
        owned[member] = owned[member] | set(partitions) if sign == "+" else owned[member] - set(partitions)
        assert not owned["a"] & owned["b"], "no partition ever had two owners"
    assert owned == {"a": set(), "b": set()}, "leaving is told too"


def test_callbacks_may_seek_pause_and_commit(broker: Server, new_topic: NewTopicFunction, join: Join) -> None:
    topic = new_topic(2)
    for partition in range(2):
        write(broker.bootstrap, topic, numbers(10), partition)
    commits: list[Any] = []

    def begin(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.seek(offset=7, partitions=(topic, 0))
        consumer.pause((topic, 1))

    with join(
        topic,
        auto_commit=False,
        timeout_s=2,
        on_assigned=begin,
        on_revoked=lambda consumer, _: commits.append(consumer.commit()),
    ) as consumer:
        assert values(read(consumer, 3)) == numbers(3, 7)
        assert consumer.poll(0.5) is None
        consumer.resume((topic, 1))
        assert values(read(consumer, 2)) == numbers(2)
    assert commits == [{TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 2}]
    assert committed(join, topic, 1) == 2


def test_what_a_callback_raises_is_raised_and_loses_no_message(
    broker: Server, new_topic: NewTopicFunction, join: Join
) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(10))

    def fail(_consumer: Consumer, _partitions: object) -> None:
        raise ZeroDivisionError

    with join(topic, on_assigned=fail) as consumer:
        with pytest.raises(ZeroDivisionError):
            consumer.poll(PATIENCE_S)
        assert values(read(consumer, 10)) == numbers(10)


def test_a_slow_handler_does_not_hold_up_a_rebalance(broker: Server, new_topic: NewTopicFunction, join: Join) -> None:
    """Hundreds of fetched messages wait for their turn; a new member does not have to wait for all of them."""
    topic = new_topic(2)
    for partition in range(2):
        write(broker.bootstrap, topic, numbers(300), partition)
    with join(topic) as slow:
        got: list[Any] = []

        def joined() -> None:
            with join(topic) as other:
                got.extend(read(other, 30))

        handled = read(slow, 10)
        thread = threading.Thread(target=joined)
        thread.start()
        for _ in range(290):
            if not thread.is_alive():
                break
            time.sleep(0.25)
            handled += slow.batch(1, timeout=0)
        assert not thread.is_alive()
        thread.join()
        assert got
        places = [(message.partition, message.offset) for message in handled + got]
        assert len(places) == len(set(places)), "what was fetched and not handled went with its partition"


def test_a_member_that_comes_too_late_loses_its_partitions_and_goes_on(
    broker: Server, new_topic: NewTopicFunction, join: Join, request: pytest.FixtureRequest
) -> None:
    topic = new_topic()
    write(broker.bootstrap, topic, numbers(10))
    lost: list[Any] = []
    short = {"max.poll.interval.ms": 3000, "session.timeout.ms": 2000, "heartbeat.interval.ms": 300}
    if request.node.callspec.params["join"] == "consumer":
        short = {"max.poll.interval.ms": 3000}
    with (
        join(topic, on_lost=lambda _consumer, partitions: lost.append(partitions), config=short) as consumer,
        bifrost.Admin(broker.bootstrap) as admin,
    ):
        read(consumer, 2)
        group = consumer._group
        assert group is not None
        eventually(lambda: not admin.group(group).members, "it has been away for too long")
        seen: list[bytes] = []
        eventually(lambda: seen.extend(values(read(consumer, 1))) or (lost and seen[-1] == b"9"), "all messages")
        assert set(seen) >= set(numbers(8, 2))
    assert lost == [[TopicPartition(topic, 0)]]


def test_subscribing_to_something_else_settles_what_was_before(
    broker: Server, new_topic: NewTopicFunction, join: Join
) -> None:
    one, two = new_topic(), new_topic()
    write(broker.bootstrap, one, numbers(5))
    write(broker.bootstrap, two, numbers(5, 100))
    with join(one) as consumer:
        read(consumer, 3)
        consumer.poll(0)
        consumer.subscribe(two)
        assert values(read(consumer, 5)) == numbers(5, 100)
    assert committed(join, one) in {3, 4}
    assert committed(join, two) == 5
