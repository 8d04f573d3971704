"""A classic group in the log: one record that tells it whole. Kafka: GroupCoordinatorRecordHelpers.

It is written when a group is made, when the leader's assignment is known, when a static member comes back under a new
id and when the last member is gone. Whatever a group does in between is lost with its coordinator, and done again.
"""

from __future__ import annotations

from bifrost.coordinator.core.classic.group import ClassicGroup
from bifrost.coordinator.core.classic.member import Member
from bifrost.coordinator.core.environment import Client, LogRecord
from bifrost.coordinator.core.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata, record


def group_record(group: ClassicGroup) -> LogRecord:
    """Of each member, only what it said in the protocol that was chosen: as much as the next coordinator can use."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client.client_id,
            client_host=member.client.host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.protocols[group.protocol or ""],
            assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=-1 if group.state_since_ms is None else group.state_since_ms,
        members=members,
    )
    return record(GroupMetadataKey(group=group.group_id), value)


def tombstone(group_id: str) -> LogRecord:
    return record(GroupMetadataKey(group=group_id), None)


def group_from_record(key: GroupMetadataKey, value: GroupMetadataValue) -> ClassicGroup:
    """Empty, or stable with the assignment that its members were given."""
    return ClassicGroup(
        key.group,
        state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        members=[_member(value, member) for member in value.members],
    )


def _member(value: GroupMetadataValue, member: MemberMetadata) -> Member:
    unknown = member.rebalance_timeout == -1  # version 0 has none
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client=Client(member.client_id, member.client_host),
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=member.session_timeout if unknown else member.rebalance_timeout,
        protocols={value.protocol or "": member.subscription},
        assignment=member.assignment,
    )
