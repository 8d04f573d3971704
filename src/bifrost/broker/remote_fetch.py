"""A consumer's fetch of partitions that other nodes have: they are asked, and what they say is passed on.

One leader that has all of it waits as long as the client would. Several nodes are asked side by side and all are waited
for: so that one which has data does not wait long for one which has none, they are asked in turns, each shorter than
what the client would wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bifrost.broker.connection import Connection
from bifrost.broker.fetch_sessions import TopicKey
from bifrost.broker.forwarding import Forwarding
from bifrost.errors import ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionFetchResult
from bifrost.protocol.wire import ZERO_UUID
from bifrost.types import NodeId

_TURN_MS: Final = 100
_MS: Final = 1000.0

Results = dict[tuple[TopicKey, int], PartitionFetchResult]


class Wanted(NamedTuple):
    """A partition that another node leads."""

    topic: TopicKey
    partition: FetchPartition


class RemoteFetch:
    """The part of one request that this node cannot serve itself."""

    def __init__(
        self,
        forwarding: Forwarding,
        connection: Connection,
        request: FetchRequest,
        version: int,
        wanted: Mapping[NodeId, Sequence[Wanted]],
        *,
        is_all: bool,
    ) -> None:
        """`is_all` says that this node has no part of the request itself."""
        self._forwarding = forwarding
        self._connection = connection
        self._request = request
        self._version = version
        self._wanted = wanted
        self._waits_there = is_all and len(wanted) == 1

    async def run(self, is_enough: Callable[[Results], bool]) -> Results:
        """What the leaders have: as soon as it is enough, with what this node has (`is_enough`), or time is over."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._request.max_wait_ms / _MS
        if self._waits_there:
            return await self._turn(self._request.max_wait_ms)
        wait_ms = 0
        while True:
            results = await self._turn(wait_ms)
            left_ms = int((ends_at - loop.time()) * _MS)
            if left_ms <= 0 or is_enough(results):
                return results
            wait_ms = min(left_ms, _TURN_MS)

    async def _turn(self, wait_ms: int) -> Results:
        answers = await asyncio.gather(*(self._ask(leader, wanted, wait_ms) for leader, wanted in self._wanted.items()))
        return {key: result for answer in answers for key, result in answer.items()}

    async def _ask(self, leader: NodeId, wanted: Sequence[Wanted], wait_ms: int) -> Results:
        topics: dict[TopicKey, FetchTopic] = {}
        for topic, partition in wanted:
            name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
            topics.setdefault(topic, FetchTopic(name, topic_id, [])).partitions.append(partition)
        asked = FetchRequest(
            wait_ms,
            self._request.min_bytes,
            self._request.max_bytes,
            [*topics.values()],
            isolation_level=self._request.isolation_level,
        )
        try:
            answer = await self._forwarding.fetch(self._connection, leader, asked, self._version)
        except PeerError:
            return {
                (topic, partition.index): PartitionFetchResult(partition.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                for topic, partition in wanted
            }
        return {
            (topic.name or topic.topic_id, result.index): result
            for topic in answer.topics
            for result in topic.partitions
        }
