"""Groups seen from outside, through the admin clients of two libraries behind one face."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException
from confluent_kafka import TopicPartition as RdPlace
from confluent_kafka.admin import AdminClient as RdAdmin
from kafka import KafkaAdminClient, TopicPartition, errors  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from tests.compat.clients.base import TIMEOUT_S, ClientError, error_code

Place = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed:
    """States and types as the protocol spells them, in lower case."""

    state: str
    kind: str


@dataclass(frozen=True, slots=True)
class Described:
    state: str
    assignor: str
    members: Mapping[str, frozenset[Place]]
    """By client id."""


class GroupAdmin(ABC):
    """Refusals are `ClientError` with Kafka's code."""

    name: ClassVar[str]
    lacks: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def list(self, *, state: str | None = None, kind: str | None = None) -> dict[str, Listed]: ...

    @abstractmethod
    def describe(self, group: str) -> Described: ...

    @abstractmethod
    def delete(self, group: str) -> None: ...

    @abstractmethod
    def offsets(self, group: str) -> dict[Place, int]: ...

    @abstractmethod
    def alter_offsets(self, group: str, offsets: Mapping[Place, int]) -> None: ...

    @abstractmethod
    def delete_offsets(self, group: str, places: set[Place]) -> None: ...


class ConfluentGroups(GroupAdmin):
    name = "confluent"
    lacks = frozenset({"delete-offsets"})

    def _ask(self, call: Callable[[RdAdmin], Any]) -> Any:
        admin = RdAdmin({"bootstrap.servers": self.bootstrap})
        try:
            futures = call(admin)
            (future,) = futures.values() if isinstance(futures, dict) else (futures,)
            assert isinstance(future, Future)
            return future.result(TIMEOUT_S)
        except KafkaException as error:
            raise ClientError(error.args[0].code(), error.args[0].str()) from error

    def list(self, *, state: str | None = None, kind: str | None = None) -> dict[str, Listed]:
        filters: dict[str, Any] = {}
        if state is not None:
            filters["states"] = {ConsumerGroupState[state.upper()]}
        if kind is not None:
            filters["types"] = {ConsumerGroupType[kind.upper()]}
        found = self._ask(lambda admin: admin.list_consumer_groups(**filters))
        assert not found.errors, found.errors
        return {each.group_id: Listed(each.state.name.lower(), each.type.name.lower()) for each in found.valid}

    def describe(self, group: str) -> Described:
        found = self._ask(lambda admin: admin.describe_consumer_groups([group]))
        members = {
            member.client_id: frozenset((place.topic, place.partition) for place in member.assignment.topic_partitions)
            for member in found.members
        }
        return Described(found.state.name.lower(), found.partition_assignor, members)

    def delete(self, group: str) -> None:
        self._ask(lambda admin: admin.delete_consumer_groups([group]))

    def offsets(self, group: str) -> dict[Place, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        found = self._ask(lambda admin: admin.list_consumer_group_offsets(asked))
        return {(each.topic, each.partition): each.offset for each in found.topic_partitions if each.offset >= 0}

    def alter_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = [RdPlace(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        found = self._ask(lambda admin: admin.alter_consumer_group_offsets(asked))
        for each in found.topic_partitions:
            if each.error is not None:
                raise ClientError(each.error.code(), each.error.str())

    def delete_offsets(self, group: str, places: set[Place]) -> None:
        raise NotImplementedError


class KafkaPythonGroups(GroupAdmin):
    name = "kafka-python"

    def _ask(self, call: Callable[[KafkaAdminClient], T]) -> T:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            return call(admin)
        except KafkaError as error:
            raise ClientError(error_code(error), repr(error)) from error
        finally:
            admin.close()

    def list(self, *, state: str | None = None, kind: str | None = None) -> dict[str, Listed]:
        states = None if state is None else [state.capitalize()]
        kinds = None if kind is None else [kind]
        found = self._ask(lambda admin: admin.list_groups(states_filter=states, types_filter=kinds))
        return {each["group_id"]: Listed(each["group_state"].lower(), each["group_type"].lower()) for each in found}

    def describe(self, group: str) -> Described:
        found = self._ask(lambda admin: admin.describe_groups([group]))[group]
        if found["error"] is not None:
            raise ClientError(None, found["error"])
        members = {
            member["client_id"]: frozenset(
                (topic["topic"], partition)
                for topic in member["member_assignment"]["assigned_partitions"]
                for partition in topic["partitions"]
            )
            for member in found["members"]
        }
        return Described(found["group_state"].lower(), found["protocol_data"], members)

    def delete(self, group: str) -> None:
        answer = self._ask(lambda admin: admin.delete_groups([group]))
        self._check(answer[group])

    @staticmethod
    def _check(outcome: Any) -> None:
        """What this client answers instead of raising: the class of an error, or its name."""
        kind = getattr(errors, outcome) if isinstance(outcome, str) and outcome != "OK" else outcome
        if code := getattr(kind, "errno", 0):
            raise ClientError(code, str(outcome))

    def offsets(self, group: str) -> dict[Place, int]:
        found = self._ask(lambda admin: admin.list_group_offsets({group: None}))[group]
        return {(place.topic, place.partition): about.offset for place, about in found.items()}

    def alter_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        for outcome in self._ask(lambda admin: admin.alter_group_offsets(group, wanted)).values():
            self._check(outcome)

    def delete_offsets(self, group: str, places: set[Place]) -> None:
        asked = [TopicPartition(*place) for place in places]
        for outcome in self._ask(lambda admin: admin.delete_group_offsets(group, asked)).values():
            self._check(outcome)


GROUP_ADMINS = {each.name: each for each in (ConfluentGroups, KafkaPythonGroups)}
