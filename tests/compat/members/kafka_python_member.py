"""kafka-python as a member; it speaks the classic protocol only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition  # type: ignore[import-untyped]
from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]
    CooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from tests.compat.members.python_options import python_options
from tests.compat.members.worker import RECORDS_MAX, CommitError, Member, Offsets, Place

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember(Member):
    def open(self) -> None:
        spec = self.spec
        self._consumer = KafkaConsumer(
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=50,
            **python_options(self, ASSIGNORS),
        )
        listener = _Listener(self)
        if spec.pattern is not None:
            self._consumer.subscribe(pattern=spec.pattern, listener=listener)
        else:
            self._consumer.subscribe(list(spec.topics), listener=listener)

    def poll(self) -> None:
        """Waits longer than the others: when its time is up in the middle of a rebalance, the assignment is lost.

        The client then believes that it has joined, sends no heartbeats, and is never heard of again (3.0.12).
        """
        wait_ms = self.spec.session_ms + 1_000 if self.spec.slow_rebalances else 1_000
        for messages in self._consumer.poll(timeout_ms=wait_ms, max_records=RECORDS_MAX).values():
            for message in messages:
                self.took(message.topic, message.partition, message.offset, message.value)

    def commit_now(self, offsets: Offsets) -> None:
        try:
            self._consumer.commit(_positions(offsets))
        except KafkaError as error:
            raise CommitError(repr(error)) from error

    def commit_later(self, offsets: Offsets, told: list[list[Any]]) -> None:
        def done(_: Any, answer: Any) -> None:
            if isinstance(answer, Exception):
                self.tell(commit_failed=told, text=repr(answer))
            else:
                self.tell(committed=told)

        self._consumer.commit_async(_positions(offsets), callback=done)

    def close(self) -> None:
        self._consumer.close(autocommit=self.spec.commit == "auto")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Runs on the client's own loop, where a commit cannot be awaited; what was polled has been committed."""
        if places := _places(revoked):
            self._member.gave_up(places)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.on_assigned(_places(assigned))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        if places := _places(lost):
            self._member.on_lost(places)


def _places(places: Iterable[TopicPartition]) -> list[Place]:
    return sorted((place.topic, place.partition) for place in places)


def _positions(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}


MEMBER = KafkaPythonMember
