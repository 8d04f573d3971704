"""What everybody who deals with groups does in the simulated world: finds coordinators, commits and reads offsets.

Every offset is committed once only, whoever commits it: so it says by itself which commit was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from bifrost.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from bifrost.protocol.schema import Message
from bifrost.types import TopicPartition
from tests.sim.client import ADDRESS, Client, Topic, Wire
from tests.sim.crowd.events import NO_OFFSET, Holding, OffsetCommitted, OffsetSeen, Unanswered
from tests.sim.history import History
from tests.sim.network import SimNetwork

R = TypeVar("R", bound=Message)

ANSWER_S = 8.0
"""Longer than any request may wait for others or for the disk."""
BATCHED_COORDINATORS_SINCE = 4
MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10

COME_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""The coordinator is somewhere else, or not ready."""
REFUSED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
}
"""A commit that was answered like this was not made and never will be."""


class Identity(NamedTuple):
    """As whom somebody commits: a member in a generation or epoch, or nobody."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


NOBODY = Identity()


class GroupClient(Client):
    """Commits to groups and reads what they have committed."""

    def __init__(
        self,
        name: str,
        network: SimNetwork,
        history: History,
        seed: str,
        topics: Sequence[Topic],
        offsets: Iterator[int],
    ) -> None:
        super().__init__(name, network, history, seed)
        self.topics = {topic.name: topic for topic in topics}
        self.topic_names = {UUID(bytes=topic.topic_id): topic.name for topic in topics}
        self.first_epoch = 0
        """Added to epochs in the history: a group that changes its protocol counts anew, and time does not."""
        self._offsets = offsets

    @property
    def owner(self) -> str:
        """Under whose name it commits."""
        return self.name

    @property
    def all_partitions(self) -> Holding:
        return frozenset(
            TopicPartition(topic.name, index) for topic in self.topics.values() for index in range(topic.partitions)
        )

    async def ask(self, wire: Wire, request: Message, expected: type[R], version: int) -> R:
        asked_at = self.loop.time()
        try:
            return await wire.call(request, expected, version, ANSWER_S)
        except TimeoutError:
            self.history.add(Unanswered(asked_at, self.loop.time(), self.name, type(request).__name__))
            raise

    async def find_coordinator(self, wire: Wire, group: str) -> bool:
        version = self.rng.randint(0, 6)
        batched = version >= BATCHED_COORDINATORS_SINCE
        request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
        answer = await self.ask(wire, request, FindCoordinatorResponse, version)
        found = answer.coordinators[0] if batched else answer
        if found.error_code == ErrorCode.NONE and (found.host, found.port) == ADDRESS:
            return True
        if found.error_code not in COME_AGAIN:
            self.complain("unexpected answer", f"FindCoordinator {found}")
        return False

    async def commit(
        self,
        wire: Wire,
        group: str,
        partitions: Iterable[TopicPartition],
        identity: Identity = NOBODY,
        versions: range = range(2, 11),
    ) -> ErrorCode:
        """Commit the next offset for each; the error of the last one."""
        version = self.rng.choice(versions)
        wanted = [(partition, next(self._offsets)) for partition in sorted(partitions)]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=identity.epoch,
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            topics=[self._committed_topic(name, wanted) for name in sorted({each.topic for each, _ in wanted})],
        )
        asked_at, codes = self.loop.time(), dict.fromkeys((partition for partition, _ in wanted), ErrorCode.NONE)
        outcomes = dict.fromkeys(codes, "unknown")
        try:
            answer = await self.ask(wire, request, OffsetCommitResponse, version)
            for topic in answer.topics:
                name = topic.name if version < TOPIC_IDS_SINCE else self.topic_names[topic.topic_id]
                for one in topic.partitions:
                    code = ErrorCode(one.error_code)
                    codes[TopicPartition(name, one.partition_index)] = code
                    outcomes[TopicPartition(name, one.partition_index)] = self._outcome(code)
        finally:
            for partition, offset in wanted:
                self.history.add(
                    OffsetCommitted(
                        *(asked_at, self.loop.time(), group, self.owner, self._epoch(identity)),
                        *(partition, offset, outcomes[partition]),
                    )
                )
        return list(codes.values())[-1]

    async def read_offsets(
        self, wire: Wire, group: str, partitions: Iterable[TopicPartition], identity: Identity = NOBODY
    ) -> bool:
        """Read what the group has committed; whether there was an answer."""
        as_member = identity is not NOBODY
        version = self.rng.randint(9 if as_member else 1, 10)
        wanted = sorted(partitions)
        asks_all = version >= 2 and self.rng.random() < 0.3
        asked_at = self.loop.time()
        request = self._fetch_request(group, None if asks_all else wanted, identity, version)
        answer = await self.ask(wire, request, OffsetFetchResponse, version)
        found, code = self._found(answer, version)
        if code is not ErrorCode.NONE:
            known = (
                COME_AGAIN | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID} if as_member else COME_AGAIN
            )
            if code not in known:
                self.complain("unexpected answer", f"OffsetFetch {code.name}")
            return False
        for partition in wanted:
            offset = found.get(partition, NO_OFFSET if asks_all else None)
            if offset is None:
                self.complain("unexpected answer", f"OffsetFetch without {partition}")
            else:
                seen = OffsetSeen(asked_at, self.loop.time(), group, self.name, partition, offset)
                self.history.add(seen)
        return True

    def _epoch(self, identity: Identity) -> int:
        return identity.epoch if identity.epoch < 0 else self.first_epoch + identity.epoch

    def _outcome(self, code: ErrorCode) -> str:
        if code is ErrorCode.NONE:
            return "done"
        if code in REFUSED:
            return "refused"
        if code not in COME_AGAIN:
            self.complain("unexpected answer", f"OffsetCommit {code.name}")
        return "unknown"

    def _committed_topic(self, name: str, wanted: list[tuple[TopicPartition, int]]) -> OffsetCommitRequestTopic:
        return OffsetCommitRequestTopic(
            name=name,
            topic_id=UUID(bytes=self.topics[name].topic_id),
            partitions=[
                OffsetCommitRequestPartition(partition_index=each.partition, committed_offset=offset)
                for each, offset in wanted
                if each.topic == name
            ],
        )

    def _fetch_request(
        self, group: str, wanted: list[TopicPartition] | None, identity: Identity, version: int
    ) -> OffsetFetchRequest:
        indexes: dict[str, list[int]] = {}
        for each in wanted or ():
            indexes.setdefault(each.topic, []).append(each.partition)
        if version < MANY_GROUPS_SINCE:
            topics = [OffsetFetchRequestTopic(name=name, partition_indexes=those) for name, those in indexes.items()]
            return OffsetFetchRequest(group_id=group, topics=None if wanted is None else topics)
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        if identity is not NOBODY:
            asked.member_id, asked.member_epoch = identity.member_id, identity.epoch
        if wanted is not None:
            asked.topics = [
                OffsetFetchRequestTopics(
                    name=name, topic_id=UUID(bytes=self.topics[name].topic_id), partition_indexes=those
                )
                for name, those in indexes.items()
            ]
        return OffsetFetchRequest(groups=[asked])

    def _found(self, answer: OffsetFetchResponse, version: int) -> tuple[dict[TopicPartition, int], ErrorCode]:
        """Offsets, and the first error there is."""
        group = answer.groups[0] if version >= MANY_GROUPS_SINCE else answer
        code = ErrorCode(group.error_code)
        found = {}
        for topic in group.topics:
            name = topic.name
            if version >= TOPIC_IDS_SINCE:
                name = self.topic_names[topic.topic_id]  # type: ignore[union-attr]
            one: OffsetFetchResponsePartition | OffsetFetchResponsePartitions
            for one in topic.partitions:
                found[TopicPartition(name, one.partition_index)] = one.committed_offset
                code = code or ErrorCode(one.error_code)
        return found, code
