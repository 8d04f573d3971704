"""A consumer of the simulation: it does what real ones do, at its own pace, and can be stopped at any moment."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from bifrost.coordinator.core.environment import Client
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "group"
SESSION_MS = 10_000
REBALANCE_MS = 20_000


class World(Protocol):
    """What a consumer can reach."""

    rng: Random
    partitions: int

    def after(self, delay_ms: int, action: Callable[[], None]) -> None: ...

    def join(self, request: JoinGroupRequest, version: int, client: Client, receive: Callable[[Any], None]) -> None: ...

    def sync(self, request: SyncGroupRequest, receive: Callable[[Any], None]) -> None: ...

    def heartbeat(self, request: HeartbeatRequest, receive: Callable[[Any], None]) -> None: ...

    def leave(self, request: LeaveGroupRequest) -> None: ...

    def commit(self, consumer: Consumer, generation: int) -> None: ...

    def got_assignment(self, consumer: Consumer) -> None: ...


class Consumer:
    """One process. `turn` counts what it has decided: what it planned before that no longer happens."""

    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.version = world.rng.choice([3, 4, 8, 9]) if instance_id is None else world.rng.choice([5, 8, 9])
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        """None while it has none."""
        self.metadata = 0
        self.alive = True
        self.stalled = False
        self.turn = 0
        self._protocol: str | None = None
        self._in_generation = False

    @property
    def owner(self) -> str:
        return self.instance_id or self.member_id

    @property
    def is_working(self) -> bool:
        return self.alive and self.assignment is not None

    def start(self) -> None:
        self.join()
        self._plan(self._heartbeat_ms(), self._beat, lasting=True)

    def die(self) -> None:
        """Without a word."""
        self.alive = False

    def leave(self) -> None:
        self.world.leave(
            LeaveGroupRequest(
                group_id=GROUP,
                members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)],
            )
        )
        self.alive = False

    def want_something_else(self) -> None:
        """Subscribes to other topics, say."""
        self.metadata += 1
        self.join()

    def stall(self, delay_ms: int) -> None:
        """Stops polling, in whatever it was doing: its heartbeats go on, but nobody acts on their answers."""
        self.turn += 1
        self.stalled = True
        self._plan(delay_ms, self.join, lasting=True)

    def reconnect(self) -> None:
        """The connection broke, with all that was under way on it."""
        self.turn += 1
        self._plan(self._pause_ms(), self.join)

    def join(self) -> None:
        self.turn += 1
        turn = self.turn
        self.stalled = False
        self.assignment = None
        self._in_generation = False
        likes = ["range", "sticky"] if self.metadata % 3 else ["sticky", "range"]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS if self.version else -1,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=bytes([self.metadata % 256])) for name in likes],
        )

        def receive(response: JoinGroupResponse) -> None:
            if self.alive and self.turn == turn:
                self._joined(response)

        self.world.join(request, self.version, Client(self.name, "/host"), receive)

    def _joined(self, response: JoinGroupResponse) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._plan(self._pause_ms(), self.join)
        elif code:
            self._refused(code)
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            self._protocol = response.protocol_name
            self._in_generation = True
            leads = response.leader == self.member_id and not response.skip_assignment
            members = [one.member_id for one in response.members] if leads else []
            self._plan(self._pause_ms(), lambda: self._sync(members))

    def _sync(self, members: list[str]) -> None:
        """A leader deals out the partitions in turn."""
        self.turn += 1
        turn = self.turn
        parts = {member_id: bytearray() for member_id in members}
        for partition in range(self.world.partitions if members else 0):
            parts[members[partition % len(members)]].append(partition)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(part))
                for member_id, part in parts.items()
            ],
        )

        def receive(response: SyncGroupResponse) -> None:
            if not self.alive or self.turn != turn:
                return
            if response.error_code:
                self._refused(ErrorCode(response.error_code))
            else:
                self.assignment = response.assignment
                self.world.got_assignment(self)

        self.world.sync(request, receive)

    def _beat(self) -> None:
        self._plan(self._heartbeat_ms(), self._beat, lasting=True)
        if not self._in_generation:
            return
        turn = self.turn
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

        def receive(code: ErrorCode) -> None:
            if self.alive and self.turn == turn and code and not self.stalled:
                self._refused(code)

        self.world.heartbeat(request, receive)
        if self.world.rng.random() < 0.5:
            self.world.commit(self, self.generation)

    def _refused(self, code: ErrorCode) -> None:
        self.assignment = None
        self._in_generation = False
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.alive = False
            return
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._plan(self._pause_ms(), self.join)

    def _plan(self, delay_ms: int, action: Callable[[], None], *, lasting: bool = False) -> None:
        turn = self.turn

        def act() -> None:
            if self.alive and (lasting or self.turn == turn):
                action()

        self.world.after(delay_ms, act)

    def _pause_ms(self) -> int:
        """Most are quick, some think for longer than a group has patience."""
        return self.world.rng.choice([0, 1, 5, 20, 100, 100, 1_000, 3_000])

    def _heartbeat_ms(self) -> int:
        return self.world.rng.randint(1_500, 3_500)
