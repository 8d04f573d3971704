"""Somebody who moves replicas and leaders about while others write and read, and does not mind what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from tests.sim.client import TROUBLE, Address, Client, Topic, Wire
from tests.sim.history import History
from tests.sim.network import SimNetwork

PATIENCE_S = 8.0
_USUAL = (
    ErrorCode.NONE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
)
"""Besides those that say that one may try again: a broker that is not there takes no replicas."""


class Mover(Client):
    def __init__(
        self,
        name: str,
        network: SimNetwork,
        history: History,
        seed: str,
        topics: Sequence[Topic],
        brokers: dict[int, Address],
    ) -> None:
        super().__init__(name, network, history, seed)
        self._topics = topics
        self._brokers = brokers

    async def run(self, goes_on: Callable[[], bool]) -> None:
        pause_s = self.rng.choice((0.5, 2.0, 10.0))
        while goes_on():
            await asyncio.sleep(self.rng.expovariate(1 / pause_s))
            topic = self.rng.choice(self._topics)
            partition = self.rng.randrange(topic.partitions)
            act = self.rng.choice((self._elect, self._move, self._move, self._give_up))
            try:
                wire = await asyncio.wait_for(self.connect_to(self.rng.choice([*self._brokers.values()])), PATIENCE_S)
                try:
                    code = ErrorCode(await act(wire, topic.name, partition))
                finally:
                    wire.close()
            except TROUBLE:
                continue
            if not code.retriable and code not in _USUAL:
                self.complain("unexpected answer", f"a move of {topic.name}-{partition}: {code.name}")

    async def _elect(self, wire: Wire, topic: str, partition: int) -> int:
        wanted = [TopicPartitions(topic=topic, partitions=[partition])]
        answer = await wire.call(ElectLeadersRequest(topic_partitions=wanted), ElectLeadersResponse, 2, PATIENCE_S)
        results = [one.error_code for told in answer.replica_election_results for one in told.partition_result]
        return answer.error_code or (results[0] if results else 0)

    async def _move(self, wire: Wire, topic: str, partition: int) -> int:
        """To some of the brokers, in some order; never to one alone, whose death nobody could make good."""
        brokers = [*self._brokers]
        chosen = self.rng.sample(brokers, self.rng.randint(2, len(brokers)))
        return await self._reassign(wire, topic, partition, chosen)

    async def _give_up(self, wire: Wire, topic: str, partition: int) -> int:
        return await self._reassign(wire, topic, partition, None)

    async def _reassign(self, wire: Wire, topic: str, partition: int, replicas: list[int] | None) -> int:
        wanted = ReassignablePartition(partition_index=partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[wanted])])
        answer = await wire.call(request, AlterPartitionReassignmentsResponse, self.rng.randint(0, 1), PATIENCE_S)
        results = [one.error_code for told in answer.responses for one in told.partitions]
        return answer.error_code or (results[0] if results else 0)
