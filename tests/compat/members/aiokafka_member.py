"""aiokafka as a member, each on an event loop of its own; it speaks the classic protocol only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

from tests.compat.members.python_options import python_options
from tests.compat.members.worker import POLL_S, RECORDS_MAX, CommitError, Member, Offsets

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AioKafkaMember(Member):
    """The loop runs while the member polls or commits, as in a program that awaits one message after the other."""

    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        spec = self.spec
        self._consumer = AIOKafkaConsumer(**python_options(self, ASSIGNORS))
        listener = _Listener(self)
        if spec.pattern is not None:
            self._consumer.subscribe(pattern=spec.pattern, listener=listener)
        else:
            self._consumer.subscribe(topics=list(spec.topics), listener=listener)
        await self._consumer.start()

    def poll(self) -> None:
        self._loop.run_until_complete(self._poll())

    async def _poll(self) -> None:
        """Nothing else runs on the loop between what the client hands out and its being noted."""
        batches = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
        for messages in batches.values():
            for message in messages:
                self.took(message.topic, message.partition, message.offset, message.value)

    def commit_now(self, offsets: Offsets) -> None:
        self._loop.run_until_complete(self._commit(offsets))

    async def _commit(self, offsets: Offsets) -> None:
        try:
            await self._consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})
        except KafkaError as error:
            raise CommitError(repr(error)) from error

    def commit_later(self, offsets: Offsets, told: list[list[Any]]) -> None:
        """Every commit of this client can be awaited; this one is awaited by a task of its own."""
        self._pending = self._loop.create_task(self._commit_and_tell(offsets, told))

    async def _commit_and_tell(self, offsets: Offsets, told: list[list[Any]]) -> None:
        try:
            await self._commit(offsets)
        except CommitError as error:
            self.tell(commit_failed=told, text=str(error))
        else:
            self.tell(committed=told)

    async def commit_before_revocation(self) -> None:
        offsets = dict(self.next_offsets)
        told = [[topic, partition, offset] for (topic, partition), offset in offsets.items()]
        if told:
            self.tell(committing=told)
            await self._commit_and_tell(offsets, told)

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Its callbacks run on the loop, so that what they commit is awaited there."""

    def __init__(self, member: AioKafkaMember) -> None:
        self._member = member

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        places = sorted((place.topic, place.partition) for place in revoked)
        if self._member.spec.commit == "always":
            await self._member.commit_before_revocation()
        if places:
            self._member.gave_up(places)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.on_assigned(sorted((place.topic, place.partition) for place in assigned))


MEMBER = AioKafkaMember
