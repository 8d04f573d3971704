"""Members of consumer groups (KIP-848) in the simulated world: told what to read, they give up before they get."""

from __future__ import annotations

from uuid import UUID

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from bifrost.types import TopicPartition
from tests.sim.client import Wire
from tests.sim.crowd.events import Holding
from tests.sim.crowd.group_client import COME_AGAIN
from tests.sim.crowd.members import NOTHING, Member, Retired
from tests.sim.crowd.settings import LEASE_S, REBALANCE_S

JOINING, LEFT, LEFT_FOR_A_WHILE = 0, -1, -2
START_OVER = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID}
IDS_OF_THEIR_OWN_SINCE = PATTERNS_SINCE = 1


class ConsumerMember(Member):
    """Tells all of itself when it joins and whenever an answer was lost, otherwise only what is new."""

    commit_versions = range(9, 11)
    no_epoch = JOINING
    _assigned = NOTHING
    _asked_first: float | None = None
    """When it asked first after the last answer: whatever the coordinator did unheard, it did after that."""
    _revoking_until: float | None = None
    """While it was told to give something up and has not done so."""
    _pattern = ""
    """Subscribes to the topics that match it, or, where it is empty, to topics by their names."""
    _tells_all = True
    _told: Holding | None = None
    """What it has said last that it holds."""

    async def live(self, wire: Wire) -> None:
        by_pattern = self.rng.random() < 0.3
        version = PATTERNS_SINCE if by_pattern else self.rng.randint(0, 1)
        self._pattern = "|".join(sorted(self.topics)) if by_pattern else ""
        self._tells_all = True
        if version >= IDS_OF_THEIR_OWN_SINCE and not self.member_id:
            self.member_id = str(UUID(int=self.rng.getrandbits(128), version=4))
        while wire.is_open:
            if self.leaves:
                await self._leave(wire, version)
            await self._beat(wire, version)
            if not await self._give_up_what_it_must(wire):
                await self.commit_some(wire)
                await self.pause()

    async def _beat(self, wire: Wire, version: int) -> None:
        asked_at = self.loop.time()
        self._asked_first = self._asked_first or asked_at
        request, told = self._request(), self.held
        response = await self.ask(wire, request, ConsumerGroupHeartbeatResponse, version)
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self._take_error(code)
            await self.rest()
            return
        since, self._asked_first = self._asked_first, None
        first = self.epoch == JOINING
        self.member_id, self.epoch = response.member_id or self.member_id, response.member_epoch
        self._tells_all = False
        if request.topic_partitions is not None:
            self._told = told
        if response.assignment is not None:
            self._assigned = self._partitions(response.assignment)
        if self.held <= self._assigned:
            self._revoking_until = None
            self.hold(self._assigned, since=since, until=since + LEASE_S)
        else:
            self._revoking_until = self._revoking_until or since + REBALANCE_S
            self.hold(self.held, since=since, until=min(self._revoking_until, since + LEASE_S))
        if first and self.rng.random() < 0.5:
            await self.read_offsets(wire, self.group, self.all_partitions, self.identity)

    async def _give_up_what_it_must(self, wire: Wire) -> bool:
        """Whether it did, and so has something to tell. It commits first, as a good consumer does, or after."""
        if self.held <= self._assigned:
            return False
        if not self.is_calm and self.rng.random() < 0.3:
            return False  # not now
        if self.rng.random() < 0.5:
            await self.commit(wire, self.group, self.held, self.identity, self.commit_versions)
        self.hold(self.held & self._assigned, since=self.held_since, until=self.held_until)
        return True

    async def _leave(self, wire: Wire, version: int) -> None:
        self.give_up()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=LEFT, instance_id=self.instance_id
        )
        if self.instance_id is not None and self.rng.random() < 0.7:
            request.member_epoch = LEFT_FOR_A_WHILE
        await self.ask(wire, request, ConsumerGroupHeartbeatResponse, version)
        raise Retired

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if self._tells_all:
            request.rebalance_timeout_ms = int(REBALANCE_S * 1000)
            request.subscribed_topic_names = [] if self._pattern else sorted(self.topics)
            request.subscribed_topic_regex = self._pattern
            request.server_assignor = self.rng.choice((None, "uniform", "range"))
        if self._tells_all or self.held != self._told or self.rng.random() < 0.2:
            indexes: dict[str, list[int]] = {}
            for each in sorted(self.held):
                indexes.setdefault(each.topic, []).append(each.partition)
            request.topic_partitions = [
                TopicPartitions(topic_id=UUID(bytes=self.topics[name].topic_id), partitions=those)
                for name, those in indexes.items()
            ]
        return request

    def _take_error(self, code: ErrorCode) -> None:
        self._tells_all = True
        if code is ErrorCode.FENCED_INSTANCE_ID:
            raise Retired
        if code in START_OVER:
            self.give_up()
            self.epoch, self._assigned, self._revoking_until = JOINING, NOTHING, None
        elif code not in COME_AGAIN and code is not ErrorCode.UNRELEASED_INSTANCE_ID:
            self.complain("unexpected answer", f"ConsumerGroupHeartbeat {code.name}")

    def _partitions(self, assignment: Assignment) -> Holding:
        return frozenset(
            TopicPartition(self.topic_names[topic.topic_id], index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
