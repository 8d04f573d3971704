"""What was given out and what of it was handled, per partition.

A message counts as handled when the application asks for the next one, or says so by `commit()`. Until then it is "in
hand": if the application fails with it, it must be given out again. Nothing is noted per message: a partition's next
message is the first one in the inbox, or else the one after the last that librdkafka has fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bifrost.client.inbox import Inbox
from bifrost.client.message import Message
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RawConsumer


class Mark(NamedTuple):
    """A place to go on from."""

    offset: int
    leader_epoch: int | None = None
    """The epoch of the message before it, by which a consumer notices that the log was cut there (KIP-320)."""


class Progress:
    """How far the application is in each partition."""

    def __init__(self, raw: RawConsumer, inbox: Inbox) -> None:
        self._raw = raw
        self._inbox = inbox
        self._moved: dict[TopicPartition, int] = {}
        self.hand: Message[Any, Any] | Sequence[Message[Any, Any]] | None = None
        """What was given out last and may still fail; written by the hot path."""

    def release(self) -> None:
        """What is in hand was handled."""
        self.hand = None

    def settle(self, marks: Mapping[TopicPartition, Mark]) -> None:
        """What is in hand was handled as far as these marks say."""
        self.hand = tuple(
            message
            for message in self._in_hand()
            if (mark := marks.get(message.topic_partition)) is None or message.offset >= mark.offset
        )

    def move(self, partition: TopicPartition, offset: int) -> None:
        """Reading goes on elsewhere: what was given out before no longer says where."""
        self._lay_down({partition})
        self._moved[partition] = offset

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """The partitions are somebody else's now."""
        self._lay_down(partitions)
        for partition in partitions:
            self._moved.pop(partition, None)

    def given(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Mark]:
        """Where to go on if everything that was given out has been handled; without those of which nobody knows."""
        from confluent_kafka import TopicPartition as RawPartition

        marks = {partition: Mark(self._moved[partition]) for partition in partitions if partition in self._moved}
        for each in self._raw.position([RawPartition(*partition) for partition in partitions]) if partitions else ():
            if each.offset >= 0:
                marks[TopicPartition(each.topic, each.partition)] = Mark(each.offset, each.leader_epoch)
        first = self._inbox.first_offsets()
        return marks | {partition: Mark(first[partition]) for partition in partitions if partition in first}

    def handled(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Mark]:
        """Where to go on so that what is in hand is given out again."""
        marks = self.given(partitions)
        for message in reversed(self._in_hand()):
            if message.topic_partition in marks:
                marks[message.topic_partition] = Mark(message.offset)
        return marks

    def _in_hand(self) -> Sequence[Message[Any, Any]]:
        if self.hand is None:
            return ()
        return (self.hand,) if isinstance(self.hand, Message) else self.hand

    def _lay_down(self, partitions: Collection[TopicPartition]) -> None:
        self.hand = tuple(message for message in self._in_hand() if message.topic_partition not in partitions)
