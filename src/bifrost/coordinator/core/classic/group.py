"""What is known of one classic group: its state, its generation, its members. Kafka: ClassicGroup.

Everything here is bookkeeping that keeps the parts of a group in step with each other. When a rebalance begins or ends,
and what is written down, is decided in `rebalances`; nothing here knows time or writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, MutableMapping
from enum import Enum
from typing import Any, Final

from bifrost.coordinator.core.classic.member import Member
from bifrost.coordinator.core.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from bifrost.coordinator.core.environment import Respond
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse


class ClassicState(Enum):
    """As administrators see it."""

    EMPTY = "Empty"
    """No members: only offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waiting until everybody has joined the next generation."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waiting for the leader to say who reads what."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Deleted, or no longer led from here."""


_BEFORE: Final = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE},
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}


class ClassicGroup:
    """A group, its members in the order in which they came."""

    __slots__ = (
        "_joined",
        "_supporters",
        "_topics",
        "generation",
        "group_id",
        "leader",
        "members",
        "newcomers",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
    )

    def __init__(
        self,
        group_id: str,
        *,
        state_since_ms: int | None,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol: str | None = None,
        leader: str | None = None,
        members: Iterable[Member] = (),
    ) -> None:
        self.group_id = group_id
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol = protocol
        self.leader = leader
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.pending_joins: set[str] = set()
        """Ids that were given out and not used yet (KIP-394): a rebalance waits for them too."""
        self.pending_syncs: set[str] = set()
        """Who has heard of this generation and has not asked for its assignment."""
        self.newcomers = False
        """Somebody came while the first rebalance was held back for others."""
        self._supporters: Counter[str] = Counter()  # protocol -> members that know it
        self._joined = 0
        for member in members:
            self.add(member)
        self.state = ClassicState.STABLE if self.members else ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms = state_since_ms
        """None if an old record does not tell."""
        self._topics = self._read_topics()

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def empty_since_ms(self) -> int | None:
        return self.state_since_ms if self.is_empty else None

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        return self.state in _BEFORE[ClassicState.PREPARING_REBALANCE]

    @property
    def is_first_rebalance(self) -> bool:
        """Held back for a while, so that all who start together are in the first generation."""
        return self.state is ClassicState.PREPARING_REBALANCE and self.previous_state is ClassicState.EMPTY

    @property
    def joined(self) -> int:
        """How many members wait for the next generation."""
        return self._joined

    @property
    def all_joined(self) -> bool:
        return self._joined == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member's."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def subscribed_topics(self) -> set[str] | None:
        """Of the current generation; None if that cannot be told."""
        return self._topics

    def is_subscribed(self, topic: str) -> bool:
        """In doubt, consumers are."""
        return self.uses_consumer_protocol if self._topics is None else topic in self._topics

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member that asks, or what is wrong with it; a static member's name is looked at first (KIP-345)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has no instance {instance_id}")
            if known != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} is {known} by now")
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has no member {member_id}")
        return member

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member could be in the group: everybody has to have one protocol in common."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in protocols)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(self._supporters[name] == size for name in protocols)

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all know; with equal votes, the eldest decide."""
        size = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == size}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in _BEFORE[state], f"{self.group_id} goes from {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    def add(self, member: Member) -> None:
        """A member that is new, or found in the log. The first leads."""
        assert member.member_id not in self.members
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        self._enter(member)
        self.pending_joins.discard(member.member_id)

    def remove(self, member: Member) -> None:
        """The member has been answered, and is gone; if it led, the eldest does."""
        self._leave(member)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, new: Member) -> None:
        """The same static member under a new id: it leads if it led before."""
        assert old.instance_id is not None
        assert old.instance_id == new.instance_id
        self._leave(old)
        self._enter(new)
        self.static_members[old.instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id

    def describe_anew(self, member: Member, protocols: dict[str, bytes]) -> None:
        """The member says something else of itself from now on."""
        self._withdraw(member)
        member.protocols = protocols
        self._supporters.update(protocols.keys())

    def park_join(self, member: Member, respond: Respond[JoinGroupResponse]) -> None:
        """The member waits for the next generation. What it asked before on this matter is overtaken."""
        self.answer_join(
            member, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        )
        member.joining = respond
        self._joined += 1

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """If it waits."""
        respond, member.joining = member.joining, None
        if respond is not None:
            self._joined -= 1
            respond(response)

    def elect_leader(self) -> bool:
        """Somebody who has joined leads. False if nobody has."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = next((member for member in self.members.values() if member.joining is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    def start_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.pending_syncs.clear()
        self.protocol = self.select_protocol() if self.members else None
        self._topics = self._read_topics()
        self.move_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)

    def _enter(self, member: Member) -> None:
        self.members[member.member_id] = member
        self._supporters.update(member.protocols.keys())

    def _leave(self, member: Member) -> None:
        assert member.joining is None, f"{member.member_id} waits for an answer to its join"
        assert member.syncing is None, f"{member.member_id} waits for an answer to its sync"
        del self.members[member.member_id]
        self._withdraw(member)
        self.pending_syncs.discard(member.member_id)

    def _withdraw(self, member: Member) -> None:
        for name in member.protocols:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]

    def _read_topics(self) -> set[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if self.members and self.protocol is None:
            return None
        return subscribed_topics(member.protocols[self.protocol or ""] for member in self.members.values())


Groups = MutableMapping[str, Any]
"""The groups of one shard by their ids, of every protocol: whoever takes one out looks at its type."""


def find_group(groups: Groups, group_id: str) -> ClassicGroup:
    """The group of somebody who says that it is a member already."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group has no name")
    group = groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no classic group {group_id}")
    return group


def answer_sync(member: Member, response: SyncGroupResponse) -> bool:
    """If it waits."""
    respond, member.syncing = member.syncing, None
    if respond is None:
        return False
    respond(response)
    return True
