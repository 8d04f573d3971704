"""One member of a classic group. Kafka: ClassicGroupMember."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.coordinator.core.environment import Client, Respond
from bifrost.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

NO_ASSIGNMENT = b""


@dataclass(slots=True, eq=False)
class Member:
    """What a member said of itself, what it was given, and which of its requests are waiting."""

    member_id: str
    instance_id: str | None
    """Of a static member: whoever comes with this name takes the member's place (KIP-345)."""
    client: Client
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]
    """What it can be led by, best first, with what it tells the leader about itself in each."""
    assignment: bytes = NO_ASSIGNMENT
    joining: Respond[JoinGroupResponse] | None = None
    """Set through the group alone, which counts who has come."""
    syncing: Respond[SyncGroupResponse] | None = None
    is_new: bool = False
    """Has never been answered: it may not even know its id, so it cannot send heartbeats."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Nobody who waits for us has to prove that it lives. A new member does not wait for ever, though."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def says(self, protocols: dict[str, bytes]) -> bool:
        """Whether this is what it said last time, in the same order."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)

    def vote(self, candidates: set[str]) -> str:
        return next(name for name in self.protocols if name in candidates)
