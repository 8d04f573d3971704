"""The owner of all topics in the simulated world: makes, grows, fills and deletes them, and asks where they end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import MetadataRequest, MetadataResponse
from bifrost.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from bifrost.protocol.messages.topics import (
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
from tests.sim.client import TROUBLE, Client, Topic, Wire
from tests.sim.history import EndSeen, Place, TopicChanged, TopicsListed, TopicState

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
SETTLE_S = 3.0
"""After so long, a change whose answer was lost has happened or never will."""


class Admin(Client):
    """Every change is followed by a look at all topics, once it is sure to have happened or not."""

    topics: dict[str, Topic]

    async def create(self, name: str, partitions: int, configs: dict[str, str]) -> Topic | None:
        """The new topic, None if nobody knows what became of it."""
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        version = self.rng.randint(2, 7)
        topic_id = ""

        async def change(wire: Wire) -> int:
            nonlocal topic_id
            answer = await wire.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, version)
            (result,) = answer.topics
            topic_id = result.topic_id.bytes.hex() if version >= 7 else ""
            return result.error_code

        outcome = await self._change(change, ErrorCode.TOPIC_ALREADY_EXISTS)
        self._note(name, None, TopicState(topic_id if outcome == "done" else "", partitions), outcome)
        return (await self.look()).get(name)

    async def delete(self, topic: Topic) -> None:
        version = self.rng.randint(1, 6)
        by_id = version >= 6 and self.rng.random() < 0.5

        async def change(wire: Wire) -> int:
            request = DeleteTopicsRequest(timeout_ms=1000)
            if version < 6:
                request.topic_names = [topic.name]
            elif by_id:
                from uuid import UUID

                request.topics = [DeleteTopicState(topic_id=UUID(bytes=topic.topic_id))]
            else:
                request.topics = [DeleteTopicState(name=topic.name)]
            (result,) = (await wire.call(request, DeleteTopicsResponse, version)).responses
            return result.error_code

        gone = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        outcome = await self._change(change, gone)
        self._note(topic.name, TopicState(topic.topic_id.hex(), topic.partitions), None, outcome)
        await self.look()

    async def grow(self, topic: Topic, partitions: int) -> None:
        version = self.rng.randint(0, 3)

        async def change(wire: Wire) -> int:
            wanted = CreatePartitionsTopic(name=topic.name, count=partitions)
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=1000)
            (result,) = (await wire.call(request, CreatePartitionsResponse, version)).results
            return result.error_code

        outcome = await self._change(change, None)
        before = TopicState(topic.topic_id.hex(), topic.partitions)
        self._note(topic.name, before, before._replace(partitions=partitions), outcome)
        await self.look()

    async def look(self) -> dict[str, Topic]:
        """All topics there are; asks until it is answered."""
        while True:
            try:
                wire = await self.connect()
                try:
                    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                    answer = await wire.call(request, MetadataResponse, self.rng.randint(10, 13))
                finally:
                    wire.close()
            except TROUBLE:
                await self.rest()
                continue
            break
        self.topics = {
            topic.name: Topic(topic.name, topic.topic_id.bytes, len(topic.partitions))
            for topic in answer.topics
            if topic.name is not None and not topic.is_internal
        }
        seen = {name: TopicState(topic.topic_id.hex(), topic.partitions) for name, topic in self.topics.items()}
        self.history.add(TopicsListed(self.loop.time(), seen))
        return self.topics

    async def _change(self, change: object, refusal: ErrorCode | None) -> str:
        assert callable(change)
        try:
            wire = await self.connect()
            try:
                code = ErrorCode(await change(wire))
            finally:
                wire.close()
        except TROUBLE:
            await asyncio.sleep(SETTLE_S)
            return "unknown"
        if code is ErrorCode.NONE:
            return "done"
        if code is refusal:
            return "refused"
        if not code.retriable:
            self.complain("unexpected answer", f"a change of topics {code.name}")
        await asyncio.sleep(SETTLE_S)
        return "unknown"

    def _note(self, name: str, before: TopicState | None, after: TopicState | None, outcome: str) -> None:
        self.history.add(TopicChanged(self.loop.time(), name, before, after, outcome))


class Observer(Client):
    """Asks now and then where partitions end."""

    async def run(self, topics: Sequence[Topic]) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self.rng.uniform(0.2, 2.0))
            try:
                await self.ask(topics)
            except TROUBLE:
                continue

    async def ask(self, topics: Iterable[Topic]) -> dict[Place, int]:
        """Where all partitions end, as far as the broker serves them now."""
        wire = await self.connect()
        try:
            asked_at = self.loop.time()
            ends = await self._list(wire, topics, LATEST)
            for place, end in ends.items():
                self.history.add(EndSeen(asked_at, self.loop.time(), place, end))
            by_time = self.rng.choice((EARLIEST, MAX_TIMESTAMP, 1_700_000_000_000 + self.rng.randint(0, 60_000)))
            await self._list(wire, topics, by_time)  # only for the company that it is to others in the threads
        finally:
            wire.close()
        return ends

    async def _list(self, wire: Wire, topics: Iterable[Topic], timestamp: int) -> dict[Place, int]:
        known = {topic.name: topic for topic in topics}
        wanted = [
            ListOffsetsTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                    for index in range(topic.partitions)
                ],
            )
            for topic in known.values()
        ]
        answer = await wire.call(ListOffsetsRequest(topics=wanted), ListOffsetsResponse, self.rng.randint(7, 11))
        ends = {}
        for topic in answer.topics:
            for result in topic.partitions:
                code = ErrorCode(result.error_code)
                if code is ErrorCode.NONE:
                    ends[known[topic.name].place(result.partition_index)] = result.offset
                elif not code.retriable or code is ErrorCode.CORRUPT_MESSAGE:
                    self.complain("unexpected answer", f"ListOffsets {code.name} at {timestamp}")
        return ends
