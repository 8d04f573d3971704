"""Who may commit and see offsets of a consumer group. Kafka: ConsumerGroup.validateOffsetCommit and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.consumer.heartbeat import unknown_member
from bifrost.errors import ApiError, ErrorCode

EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit that carries the epoch of a member."""


def check_commit(
    group: ConsumerGroup, member_id: str, epoch: int, version: int, partitions: Iterable[tuple[UUID, int]]
) -> None:
    """A past epoch still commits what the member has had since then: the answer that moved it may be on its way."""
    if epoch < 0 and group.is_empty:
        return
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(member_id, group.group_id)
    if version < EPOCHS_SINCE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"members of consumer groups commit with v{EPOCHS_SINCE} or later"
        )
    if epoch > member.epoch:
        raise ApiError(ErrorCode.STALE_MEMBER_EPOCH, f"the member's epoch is {member.epoch}, which is before {epoch}")
    if epoch == member.epoch:
        return
    for topic_id, partition in partitions:
        since = member.held_since(topic_id, partition)
        if since is None or epoch < since:
            raise ApiError(
                ErrorCode.STALE_MEMBER_EPOCH,
                f"the member's epoch is {member.epoch}, and in epoch {epoch} it did not have partition {partition}",
            )


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Who names no member and no epoch is an administrator."""
    if member_id is None and epoch < 0:
        return
    member = group.members.get(member_id or "")
    if member is None:
        raise unknown_member(member_id or "", group.group_id)
    if epoch != member.epoch:
        raise ApiError(ErrorCode.STALE_MEMBER_EPOCH, f"the member's epoch is {member.epoch} and not {epoch}")
