"""A classic group as DescribeGroups shows it. Kafka: GroupMetadataManager.describeGroups."""

from __future__ import annotations

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.group_admin import DescribedGroup, DescribedGroupMember

_ERROR_SINCE = 6


def describe_group(group: ClassicGroup) -> DescribedGroup:
    """What members said, and in which protocol, is told of a stable group only: in between it means nothing."""
    protocol = group.protocol if group.state is ClassicState.STABLE else None
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client.client_id,
            client_host=member.client.host,
            member_metadata=b"" if protocol is None else member.protocols[protocol],
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=members,
    )


def describe_missing(group_id: str, reason: str, version: int) -> DescribedGroup:
    """A group that is not there is a dead one, and from v6 on an error as well (KIP-1043)."""
    missing = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
    if version >= _ERROR_SINCE:
        missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        missing.error_message = f"Group {group_id} {reason}."
    return missing
