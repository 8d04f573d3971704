"""Members of classic groups in the simulated world: they join, the leader assigns, and when told so they join again."""

from __future__ import annotations

from bifrost.coordinator.core.classic.subscription import ConsumerProtocolSubscription
from bifrost.errors import ErrorCode
from bifrost.protocol.codec import writer
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from bifrost.types import TopicPartition
from tests.sim.client import Wire
from tests.sim.crowd.events import GenerationBegun, Holding
from tests.sim.crowd.group_client import COME_AGAIN
from tests.sim.crowd.members import NOTHING, Member, Retired
from tests.sim.crowd.settings import LEASE_S, REBALANCE_S, SESSION_S

PROTOCOL = "range"
JOIN_AGAIN = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,  # the last members of the other protocol are not gone yet
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
}


class ClassicMember(Member):
    """Eager: it gives up everything before it joins again."""

    async def live(self, wire: Wire) -> None:
        while wire.is_open:
            self.give_up()
            response = await self._join(wire)
            if response is not None and await self._sync(wire, response):
                await self._work(wire)
            else:
                await self.rest()

    async def _join(self, wire: Wire) -> JoinGroupResponse | None:
        version = self.rng.randint(5 if self.instance_id else 2, 9)
        subscription = ConsumerProtocolSubscription(version=0, topics=sorted(self.topics), user_data=None)
        metadata = writer(ConsumerProtocolSubscription, 0)(subscription)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=bytes(metadata))],
        )
        response = await self.ask(wire, request, JoinGroupResponse, version)
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            request.member_id = response.member_id
            response = await self.ask(wire, request, JoinGroupResponse, version)
            code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self._take_error("JoinGroup", code)
            return None
        self.member_id, self.epoch = response.member_id, response.generation_id
        return response

    async def _sync(self, wire: Wire, joined: JoinGroupResponse) -> bool:
        """Whether it has an assignment now."""
        leads = joined.leader == self.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=self._assign([one.member_id for one in joined.members]) if leads else [],
        )
        asked_at = self.loop.time()
        response = await self.ask(wire, request, SyncGroupResponse, self.rng.randint(3, 5))
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self._take_error("SyncGroup", code)
            return False
        generation = self._epoch(self.identity)
        self.history.add(GenerationBegun(asked_at, self.loop.time(), self.group, generation))
        self.hold(_decode(response.assignment), since=asked_at, until=asked_at + LEASE_S)
        return True

    async def _work(self, wire: Wire) -> None:
        """Until it has to join again."""
        if self.rng.random() < 0.5:
            await self.read_offsets(wire, self.group, self.held)
        while True:
            await self.pause()
            if self.leaves:
                await self._leave(wire)
            if not self._goes_on("OffsetCommit", await self.commit_some(wire)):
                return
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
            asked_at = self.loop.time()
            response = await self.ask(wire, request, HeartbeatResponse, self.rng.randint(3, 4))
            if not self._goes_on("Heartbeat", ErrorCode(response.error_code)):
                return
            if (
                response.error_code == ErrorCode.NONE and asked_at < self.held_until
            ):  # who is late may be replaced by now, and be told so later
                self.hold(self.held, since=asked_at, until=asked_at + LEASE_S)

    async def _leave(self, wire: Wire) -> None:
        self.give_up()
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = LeaveGroupRequest(group_id=self.group, members=[identity])
        await self.ask(wire, request, LeaveGroupResponse, self.rng.randint(3, 5))
        raise Retired

    def _goes_on(self, what: str, code: ErrorCode) -> bool:
        """Whether it is still in its generation, as far as it can know."""
        if code is ErrorCode.NONE or code in COME_AGAIN:
            return True
        self._take_error(what, code)
        return False

    def _take_error(self, what: str, code: ErrorCode) -> None:
        if code is ErrorCode.FENCED_INSTANCE_ID:
            raise Retired
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.give_up()
            self.member_id = ""
        elif code not in COME_AGAIN | JOIN_AGAIN:
            self.complain("unexpected answer", f"{what} {code.name}")

    def _assign(self, member_ids: list[str]) -> list[SyncGroupRequestAssignment]:
        """Everything to somebody, in turn."""
        parts: dict[str, list[TopicPartition]] = {member_id: [] for member_id in sorted(member_ids)}
        for number, partition in enumerate(sorted(self.all_partitions)):
            parts[sorted(parts)[number % len(parts)]].append(partition)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encode(part))
            for member_id, part in parts.items()
        ]


def _encode(partitions: list[TopicPartition]) -> bytes:
    """What members say to each other is nobody else's business."""
    return ",".join(f"{each.topic}/{each.partition}" for each in partitions).encode()


def _decode(assignment: bytes) -> Holding:
    if not assignment:
        return NOTHING
    pairs = (each.split("/") for each in assignment.decode().split(","))
    return frozenset(TopicPartition(topic, int(index)) for topic, index in pairs)
