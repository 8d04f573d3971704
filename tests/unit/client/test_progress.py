from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from bifrost.client.inbox import Inbox
from bifrost.client.message import Message
from bifrost.client.progress import Mark, Progress
from bifrost.types import TopicPartition
from tests.unit.client.fetched import fetched

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)
BOTH = [ONE, TWO]


class Librdkafka:
    """Knows what it has handed over of each partition; the epoch is always 7."""

    def __init__(self) -> None:
        self.fetched: dict[TopicPartition, int] = {}

    def position(self, partitions: list[confluent_kafka.TopicPartition]) -> list[confluent_kafka.TopicPartition]:
        return [
            confluent_kafka.TopicPartition(each.topic, each.partition, self.fetched[key], leader_epoch=7)
            if (key := TopicPartition(each.topic, each.partition)) in self.fetched
            else confluent_kafka.TopicPartition(each.topic, each.partition, -1001)
            for each in partitions
        ]


class Story:
    def __init__(self) -> None:
        self.raw = Librdkafka()
        self.inbox = Inbox()
        self.progress = Progress(self.raw, self.inbox)  # type: ignore[arg-type]

    def fetch(self, partition: int, *offsets: int) -> None:
        self.inbox.add(fetched(partition, *offsets))
        self.raw.fetched[TopicPartition("t", partition)] = offsets[-1] + 1

    def give(self, count: int) -> None:
        given = [self.inbox.queue.popleft() for _ in range(count)]
        messages: list[Message[Any, Any]] = [Message(raw, None, None) for raw in given]
        self.progress.hand = messages[0] if count == 1 else tuple(messages)


@pytest.fixture
def story() -> Story:
    return Story()


def test_what_is_in_hand_is_given_but_not_handled(story: Story) -> None:
    story.fetch(1, 4, 5)
    assert story.progress.given(BOTH) == {ONE: Mark(4)}
    story.give(1)
    assert story.progress.given(BOTH) == {ONE: Mark(5)}
    assert story.progress.handled(BOTH) == {ONE: Mark(4)}
    story.give(1)
    assert story.progress.given(BOTH) == {ONE: Mark(6, 7)}
    assert story.progress.handled(BOTH) == {ONE: Mark(5)}
    story.progress.release()
    assert story.progress.handled(BOTH) == {ONE: Mark(6, 7)}


def test_a_batch_in_hand_is_unhandled_from_its_first_message_of_each_partition_on(story: Story) -> None:
    story.fetch(1, 4, 5)
    story.fetch(2, 9, 10)
    story.give(4)
    assert story.progress.handled(BOTH) == {ONE: Mark(4), TWO: Mark(9)}
    assert story.progress.given(BOTH) == {ONE: Mark(6, 7), TWO: Mark(11, 7)}
    assert story.progress.handled([TWO]) == {TWO: Mark(9)}


def test_messages_of_a_paused_partition_are_not_given_out(story: Story) -> None:
    story.fetch(1, 4, 5)
    story.inbox.pause([ONE])
    assert story.progress.given(BOTH) == {ONE: Mark(4)}


def test_after_a_move_only_the_new_place_counts(story: Story) -> None:
    story.fetch(1, 4)
    story.fetch(2, 9)
    story.give(2)
    del story.raw.fetched[ONE]
    story.progress.move(ONE, 0)
    assert story.progress.given(BOTH) == {ONE: Mark(0), TWO: Mark(10, 7)}
    assert story.progress.handled(BOTH) == {ONE: Mark(0), TWO: Mark(9)}
    story.fetch(1, 0)
    story.give(1)
    assert story.progress.given(BOTH)[ONE] == Mark(1, 7)


def test_what_is_forgotten_cannot_be_committed(story: Story) -> None:
    story.fetch(1, 4)
    story.give(1)
    story.progress.move(TWO, 3)
    story.progress.forget(BOTH)
    story.raw.fetched.clear()
    assert story.progress.given(BOTH) == story.progress.handled(BOTH) == {}
