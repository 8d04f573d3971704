"""Which partitions a broker leads and is in sync for, so that what happens to one broker costs its own partitions only.

Everything here follows from the partitions of the image: the image keeps it up to date as it applies records, and
nobody else changes it. The partitions of one topic are the bits of a number, which is why thousands of topics with few
partitions cost next to nothing, and why two sets are intersected at once (Kafka: BrokersToIsrs).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from bifrost.controller.core.state import Partition

TopicBits = dict[bytes, int]  # topic id -> a bit for each partition
_Table = defaultdict[int, TopicBits]  # by broker
_NOTHING: Mapping[bytes, int] = {}


def partitions_of(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, in order."""
    digits = bin(bits)[:1:-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


class PartitionIndex:
    """Broker -> topic -> partitions. There is no entry for nothing, so that equal images have equal indexes."""

    __slots__ = ("_in_sync", "_led", "_not_led", "moving", "preferred")

    def __init__(self) -> None:
        self._in_sync: _Table = defaultdict(dict)
        self._led: _Table = defaultdict(dict)  # NO_LEADER leads those that nobody leads
        self._not_led: _Table = defaultdict(dict)  # by the first replica, which should lead them
        self.moving: TopicBits = {}  # partitions whose replicas are on the move
        self.preferred: dict[int, int] = {}  # how many partitions a broker is the first replica of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionIndex) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def in_sync(self, broker_id: int) -> Mapping[bytes, int]:
        """The partitions in whose ISR the broker is."""
        return self._in_sync.get(broker_id, _NOTHING)

    def led(self, broker_id: int) -> Mapping[bytes, int]:
        """The partitions that the broker leads; NO_LEADER gives those without a leader."""
        return self._led.get(broker_id, _NOTHING)

    def not_led(self, broker_id: int) -> Mapping[bytes, int]:
        """The partitions whose first replica the broker is while another, or nobody, leads them."""
        return self._not_led.get(broker_id, _NOTHING)

    def copy(self) -> PartitionIndex:
        twin = PartitionIndex()
        for ours, theirs in zip(twin._tables(), self._tables(), strict=True):
            ours.update((broker, topics.copy()) for broker, topics in theirs.items())
        twin.moving = self.moving.copy()
        twin.preferred = self.preferred.copy()
        return twin

    def on_created(self, topic_id: bytes, partition: int, state: Partition) -> None:
        bit = 1 << partition
        for broker in state.isr:
            _set(self._in_sync, broker, topic_id, bit)
        _set(self._led, state.leader, topic_id, bit)
        self._mark_moving(topic_id, bit, state)
        first = state.replicas[0]
        self.preferred[first] = self.preferred.get(first, 0) + 1
        if state.leader != first:
            _set(self._not_led, first, topic_id, bit)

    def on_changed(self, topic_id: bytes, partition: int, before: Partition, after: Partition) -> None:
        bit = 1 << partition
        if before.isr is not after.isr:
            for broker in before.isr:
                if broker not in after.isr:
                    _clear(self._in_sync, broker, topic_id, bit)
            for broker in after.isr:
                if broker not in before.isr:
                    _set(self._in_sync, broker, topic_id, bit)
        if before.leader != after.leader:
            _clear(self._led, before.leader, topic_id, bit)
            _set(self._led, after.leader, topic_id, bit)
        self._mark_moving(topic_id, bit, after)
        old, new = before.replicas[0], after.replicas[0]
        if old != new:
            self._prefer_less(old)
            self.preferred[new] = self.preferred.get(new, 0) + 1
        if before.leader != old and (after.leader == new or old != new):
            _clear(self._not_led, old, topic_id, bit)
        if after.leader != new:
            _set(self._not_led, new, topic_id, bit)

    def on_topic_deleted(self, topic_id: bytes, partitions: list[Partition]) -> None:
        for table in self._tables():
            for broker in [broker for broker, topics in table.items() if topics.pop(topic_id, 0) and not topics]:
                del table[broker]
        self.moving.pop(topic_id, None)
        for state in partitions:
            self._prefer_less(state.replicas[0])

    def _mark_moving(self, topic_id: bytes, bit: int, state: Partition) -> None:
        bits = self.moving.get(topic_id, 0)
        bits = bits | bit if state.is_moving else bits & ~bit
        if bits:
            self.moving[topic_id] = bits
        else:
            self.moving.pop(topic_id, None)

    def _prefer_less(self, broker: int) -> None:
        self.preferred[broker] -= 1
        if not self.preferred[broker]:
            del self.preferred[broker]

    def _content(self) -> tuple[object, ...]:
        return (*self._tables(), self.moving, self.preferred)

    def _tables(self) -> tuple[_Table, ...]:
        return self._in_sync, self._led, self._not_led


def _set(table: _Table, broker: int, topic_id: bytes, bit: int) -> None:
    topics = table[broker]
    topics[topic_id] = topics.get(topic_id, 0) | bit


def _clear(table: _Table, broker: int, topic_id: bytes, bit: int) -> None:
    topics = table[broker]
    left = topics[topic_id] & ~bit
    if left:
        topics[topic_id] = left
    elif len(topics) > 1:
        del topics[topic_id]
    else:
        del table[broker]
