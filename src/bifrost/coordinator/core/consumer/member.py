"""A member of a consumer group, as the log tells it. Never changed: a new record makes a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from bifrost.coordinator.core.environment import Client
from bifrost.coordinator.core.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
)
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest

JOINING: Final = 0
LEFT: Final = -1
LEFT_FOR_A_WHILE: Final = -2
"""The epochs that members use to join and to leave; a static member may leave its place to its next incarnation."""

_NOTHING_NEW: Final = (None,) * 5

Holdings: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by the id of their topic, each with the epoch in which the member got it."""


class MemberState(IntEnum):
    """How far a member is with its reconciliation; the numbers are those of Kafka's log (MemberState)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


_STATES: Final[dict[int, MemberState]] = {state.value: state for state in MemberState}


class Subscription(NamedTuple):
    """What a member wants to read."""

    names: frozenset[str] = frozenset()
    regex: str = ""
    """Empty if there is none: librdkafka sends it so."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What it said of itself, where it stands, and what it owns."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscription: Subscription = Subscription()
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Holdings = {}
    revoking: Holdings = {}
    """What it was told to give up and may still read. Nobody else gets it before the member says that it has."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def held_since(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch in which the member got a partition that it may still read."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    def holdings(self) -> Iterable[tuple[UUID, int]]:
        """Every partition that nobody else may have now."""
        for part in (self.assigned, self.revoking):
            for topic_id, partitions in part.items():
                for partition in partitions:
                    yield topic_id, partition

    def told(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> Member:
        """The member with what a heartbeat says anew of it; most say nothing."""
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        rest = (names, regex, request.instance_id, request.rack_id, request.server_assignor)
        if rest == _NOTHING_NEW and request.rebalance_timeout_ms == -1 and client == (self.client_id, self.client_host):
            return self
        return msgspec.structs.replace(
            self,
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            client_id=client.client_id,
            client_host=client.host,
            subscription=Subscription(
                self.subscription.names if names is None else frozenset(names),
                self.subscription.regex if regex is None else regex,
            ),
            rebalance_timeout_ms=(
                self.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
            ),
            server_assignor=self.server_assignor if request.server_assignor is None else request.server_assignor,
        )

    def described(self, value: ConsumerGroupMemberMetadataValue) -> Member:
        """The member with what a record says of it."""
        return msgspec.structs.replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscription=Subscription(frozenset(value.subscribed_topic_names), value.subscribed_topic_regex or ""),
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
        )

    def moved(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
        """The member where a record puts it."""
        return msgspec.structs.replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_holdings(value.assigned_partitions, value.member_epoch),
            revoking=_holdings(value.partitions_pending_revocation, value.member_epoch),
        )


def _holdings(topics: Iterable[CurrentTopicPartitions], member_epoch: int) -> Holdings:
    """Records of Kafka before 4.2 do not say since when, and the member's epoch is the latest it can be."""
    return {
        topic.topic_id: dict(zip(topic.partitions, topic.assignment_epochs))
        if topic.assignment_epochs is not None and len(topic.assignment_epochs) == len(topic.partitions)
        else dict.fromkeys(topic.partitions, max(member_epoch, 0))
        for topic in topics
    }
