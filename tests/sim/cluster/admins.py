"""Admins of a simulated cluster: they change topics through any broker, and write down what they were told.

Every topic has one owner, who changes it step by step. When an answer is lost, the change may still happen, at any
time: its owner leaves that topic alone from then on, and turns to another. So what must be there in the end is known
exactly for most topics, and is one of two things for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bifrost.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.sim.client import TROUBLE, Address, Client, Wire
from tests.sim.cluster.clients import metadata
from tests.sim.history import History
from tests.sim.network import SimNetwork

_TOPIC = 2
_CONFIG = "retention.ms"
_SET = 0
PATIENCE_S = 8.0
_REFUSALS = {
    "create": ErrorCode.TOPIC_ALREADY_EXISTS,
    "delete": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_TRY_LATER = (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.BROKER_NOT_AVAILABLE)
"""Besides those that say so themselves: there is no broker at the moment that could hold the topic."""


class Shape(NamedTuple):
    """What is known of a topic."""

    partitions: int
    config: str | None = None


class Changed(NamedTuple):
    """Its owner changed a topic from one shape to another, None where there is none.

    `outcome` is "done" (acknowledged), "refused" (it was, or was not, there already) or "unknown"."""

    at: float
    name: str
    before: Shape | None
    after: Shape | None
    outcome: str


class Listed(NamedTuple):
    """All topics in the end, as one broker knows them."""

    at: float
    broker: str
    topics: dict[str, Shape]


class ClusterAdmin(Client):
    """Owner of the topics that are named after it."""

    def __init__(self, name: str, network: SimNetwork, history: History, seed: str, brokers: Sequence[Address]) -> None:
        super().__init__(name, network, history, seed)
        self._brokers = brokers
        self._shapes: dict[str, Shape | None] = {}
        self._names = 0

    async def run(self, goes_on: Callable[[], bool]) -> None:
        """Change this and that for as long as there is a reason to."""
        pause_s = self.rng.choice((0.2, 0.5, 1.5))
        while goes_on():
            await asyncio.sleep(self.rng.expovariate(1 / pause_s))
            await self.change_something()

    async def change_something(self) -> str:
        """One change of one topic; what it came to."""
        while len(self._shapes) < 3:
            self._names += 1
            self._shapes[f"{self.name}-{self._names}"] = None
        name = self.rng.choice(list(self._shapes))
        shape = self._shapes[name]
        kind = "create" if shape is None else self.rng.choice(("delete", "grow", "set", "set"))
        after: Shape | None = None
        if shape is None:
            after = Shape(self.rng.randint(1, 3))
            call = self._create(name, after.partitions)
        elif kind == "grow":
            after = shape._replace(partitions=shape.partitions + 1)
            call = self._grow(name, after.partitions)
        elif kind == "set":
            after = shape._replace(config=str(self.rng.randint(100_000, 900_000)))
            call = self._set(name, str(after.config))
        else:
            call = self._delete(name)
        outcome = await self._attempt(kind, call)
        self.history.add(Changed(self.loop.time(), name, shape, after, outcome))
        if outcome == "done":
            self._shapes[name] = after
        else:
            del self._shapes[name]
        return outcome

    async def create_at(self, name: str, copies: Sequence[list[int]], configs: Mapping[str, str] | None = None) -> None:
        """A topic whose partitions have their copies on these brokers; tries until it is there."""
        assignments = [
            CreatableReplicaAssignment(partition_index=n, broker_ids=brokers) for n, brokers in enumerate(copies)
        ]
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        while True:
            outcome = await self._attempt("create", self._create_topic(topic))
            if outcome != "unknown":
                self.history.add(Changed(self.loop.time(), name, None, Shape(len(copies)), "done"))
                return
            await self.rest()

    async def look(self, broker: Address) -> None:
        """Write down what a broker knows of all topics in the end."""
        answer = await metadata(self, broker, None)
        found = {
            topic.name: Shape(len(topic.partitions))
            for topic in answer.topics
            if topic.name is not None and not topic.is_internal
        }
        resources = [
            DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=[_CONFIG])
            for name in found
        ]
        wire = await self.connect_to(broker)
        try:
            described = await wire.call(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, 4)
        finally:
            wire.close()
        for result in described.results:
            values = [one.value for one in result.configs if one.name == _CONFIG and one.config_source == 1]
            found[result.resource_name] = found[result.resource_name]._replace(config=values[0] if values else None)
        self.history.add(Listed(self.loop.time(), broker[0], found))

    async def _attempt(self, kind: str, call: Callable[[Wire], Awaitable[int]]) -> str:
        try:
            wire = await asyncio.wait_for(self.connect_to(self.rng.choice(self._brokers)), PATIENCE_S)
            try:
                code = ErrorCode(await call(wire))
            finally:
                wire.close()
        except TROUBLE:
            return "unknown"
        if code is ErrorCode.NONE:
            return "done"
        if code is _REFUSALS.get(kind):
            return "refused"
        if not code.retriable and code not in _TRY_LATER and code is not ErrorCode.INVALID_PARTITIONS:
            self.complain("unexpected answer", f"a {kind} of a topic: {code.name}")
        return "unknown"

    def _create(self, name: str, partitions: int) -> Callable[[Wire], Awaitable[int]]:
        return self._create_topic(CreatableTopic(name=name, num_partitions=partitions, replication_factor=1))

    def _create_topic(self, topic: CreatableTopic) -> Callable[[Wire], Awaitable[int]]:
        async def call(wire: Wire) -> int:
            request = CreateTopicsRequest(topics=[topic])
            (result,) = (await wire.call(request, CreateTopicsResponse, 7, PATIENCE_S)).topics
            return result.error_code

        return call

    def _delete(self, name: str) -> Callable[[Wire], Awaitable[int]]:
        async def call(wire: Wire) -> int:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
            (result,) = (await wire.call(request, DeleteTopicsResponse, 6, PATIENCE_S)).responses
            return result.error_code

        return call

    def _grow(self, name: str, partitions: int) -> Callable[[Wire], Awaitable[int]]:
        async def call(wire: Wire) -> int:
            wanted = CreatePartitionsTopic(name=name, count=partitions)
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=1000)
            (result,) = (await wire.call(request, CreatePartitionsResponse, 3, PATIENCE_S)).results
            return result.error_code

        return call

    def _set(self, name: str, value: str) -> Callable[[Wire], Awaitable[int]]:
        async def call(wire: Wire) -> int:
            config = AlterableConfig(name=_CONFIG, config_operation=_SET, value=value)
            resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[config])
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            (result,) = (await wire.call(request, IncrementalAlterConfigsResponse, 1, PATIENCE_S)).responses
            return result.error_code

        return call
