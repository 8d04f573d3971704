"""A shard without its driver: a journal in a list, topics in a dictionary, a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import pytest

from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.consumer.groups import ConsumerGroups
from bifrost.coordinator.core.deadlines import Deadlines
from bifrost.coordinator.core.environment import Client, Environment, LogRecord
from bifrost.coordinator.core.records import GroupMetadataKey, read_key, read_value
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

CLIENT = Client("client", "/127.0.0.1")
GROUP = "group"
Owned = dict[str, set[int]]


class Journal:
    """Keeps what is appended; `failing` refuses it."""

    def __init__(self) -> None:
        self.batches: list[list[LogRecord]] = []
        self.failing = False

    def append(self, records: Sequence[LogRecord]) -> None:
        if self.failing:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert records
        self.batches.append(list(records))

    def records(self) -> list[LogRecord]:
        return [record for batch in self.batches for record in batch]


class Topics:
    """Topics by name, with ids that are easy to tell apart."""

    def __init__(self, **partitions: int) -> None:
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}
        self._made = 0
        for name, count in partitions.items():
            self.make(name, count)

    def make(self, name: str, count: int) -> None:
        """Creates a topic, or lets it grow."""
        if name not in self._partitions:
            self._made += 1
            self._ids[name] = UUID(int=(1 << 120) + self._made)
        self._partitions[name] = count

    def delete(self, name: str) -> None:
        del self._partitions[name], self._ids[name]

    def partitions(self, name: str) -> int | None:
        return self._partitions.get(name)

    def topic_id(self, name: str) -> UUID | None:
        return self._ids.get(name)

    def id(self, name: str) -> UUID:
        return self._ids[name]

    def name(self, topic_id: UUID) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def names(self) -> Iterable[str]:
        return list(self._partitions)


class EmptyClassicGroup:
    """As much of a classic group as can be seen from here."""

    def __init__(self, group_id: str, is_empty: bool = True) -> None:
        self.group_id, self.is_empty = group_id, is_empty


class Shard:
    """The core under test, and what it stands on."""

    def __init__(self, topics: Topics | None = None, **settings: Any) -> None:
        self.topics = topics or Topics(orders=4)
        self.settings = GroupSettings(**({"consumer_assignment_interval_ms": 0} | settings))
        self.journal = Journal()
        self.monotonic = 1_000
        self.wall = 1_700_000_000_000
        self._ids = 0
        self.configs: dict[str, dict[str, str]] = {}
        self.start()

    def start(self) -> None:
        """A coordinator that knows nothing yet."""
        self.groups: dict[str, Any] = {}
        self.deadlines = Deadlines()
        environment = Environment(
            self.journal,
            self.deadlines,
            self.topics,
            lambda: self.monotonic,
            lambda: self.wall,
            self._new_id,
            configs_of=lambda group_id: self.configs.get(group_id, {}),
        )
        self.core = ConsumerGroups(environment, self.groups, self.settings)

    def restart(self) -> None:
        """Reads all of the journal into a new coordinator."""
        self.start()
        self.replay(self.journal.records())
        self.core.loaded()

    def replay(self, records: Iterable[LogRecord]) -> None:
        for key, value in records:
            message = read_key(key)
            assert message is not None
            if isinstance(message, GroupMetadataKey):
                assert value is None
                self.groups.pop(message.group, None)
            else:
                self.core.replay(message, None if value is None else read_value(message, value))

    def _new_id(self) -> str:
        self._ids += 1
        return f"made-{self._ids}"

    def pass_ms(self, duration_ms: int) -> None:
        """Time passes, and what becomes due happens in between."""
        end = self.monotonic + duration_ms
        while (due := self.deadlines.next_ms()) is not None and due <= end:
            self._move_to(max(due, self.monotonic))
            self.deadlines.run(self.monotonic)
        self._move_to(end)

    def _move_to(self, monotonic: int) -> None:
        self.wall += monotonic - self.monotonic
        self.monotonic = monotonic

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def ask(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        answers: list[ConsumerGroupHeartbeatResponse] = []
        self.core.heartbeat(request, version=version, client=CLIENT, respond=answers.append)
        (answer,) = answers
        return answer

    def beat(self, member_id: str, epoch: int, owned: Owned | None = None, **fields: Any) -> Any:
        """A heartbeat of a member that joined before."""
        partitions = None if owned is None else self.owned(owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, topic_partitions=partitions, **fields
        )
        return self.ask(request)

    def owned(self, owned: Owned) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self.topics.id(name), partitions=sorted(owned[name])) for name in owned]

    def join(self, member_id: str, topics: Sequence[str] = ("orders",), *, version: int = 1, **fields: Any) -> Any:
        request: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": member_id,
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        return self.ask(ConsumerGroupHeartbeatRequest(**(request | fields)), version)

    def leave(self, member_id: str, epoch: int = -1, instance_id: str | None = None) -> Any:
        return self.beat(member_id, epoch, instance_id=instance_id)

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> Owned | None:
        """The assignment in an answer, under names."""
        if answer.assignment is None:
            return None
        return {self._name(topic.topic_id): set(topic.partitions) for topic in answer.assignment.topic_partitions}

    def _name(self, topic_id: UUID) -> str:
        return self.topics.name(topic_id) or str(topic_id)

    def settle(self, *member_ids: str, rounds: int = 10) -> dict[str, Owned]:
        """Lets members heartbeat and do what they are told until nothing changes; returns what each owns."""
        owned: dict[str, Owned] = {member_id: self.holds(member_id) for member_id in member_ids}
        for _ in range(rounds):
            for member_id in member_ids:
                answer = self.beat(member_id, self.group.members[member_id].epoch, owned[member_id])
                told = self.told(answer)
                owned[member_id] = owned[member_id] if told is None else told
        return owned

    def holds(self, member_id: str) -> Owned:
        member = self.group.members[member_id]
        return {self._name(topic_id): set(partitions) for topic_id, partitions in member.assigned.items()}


def error_of(action: Callable[[], object]) -> ErrorCode:
    """The code with which the coordinator refuses, which it must."""
    with pytest.raises(ApiError) as refusal:
        action()
    return refusal.value.code
