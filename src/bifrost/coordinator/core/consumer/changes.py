"""The records that tell about consumer groups: what is written is what is then replayed.

Lists inside records are sorted, so that the same state is always the same bytes. Kafka: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from bifrost.coordinator.core.assignors.subscribers import Assignment
from bifrost.coordinator.core.consumer.member import Holdings, Member
from bifrost.coordinator.core.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from bifrost.protocol.schema import Message

Change: TypeAlias = tuple[Message, Message | None]
"""A record before it is bytes."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Change:
    return ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(
        epoch=epoch, metadata_hash=metadata_hash
    )


def member_described(group_id: str, member: Member) -> Change:
    return ConsumerGroupMemberMetadataKey(
        group_id=group_id, member_id=member.member_id
    ), ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscription.names),
        subscribed_topic_regex=member.subscription.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None,
    )


def member_moved(group_id: str, member: Member) -> Change:
    return ConsumerGroupCurrentMemberAssignmentKey(
        group_id=group_id, member_id=member.member_id
    ), ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current(member.assigned),
        partitions_pending_revocation=_current(member.revoking),
    )


def member_gone(group_id: str, member_id: str) -> list[Change]:
    """First what it had, then what it was to have, then itself: Kafka refuses to load another order."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def target_assigned(group_id: str, member_id: str, target: Assignment) -> Change:
    return ConsumerGroupTargetAssignmentMemberKey(
        group_id=group_id, member_id=member_id
    ), ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in sorted(target)
        ]
    )


def target_epoch(group_id: str, epoch: int, now_ms: int) -> Change:
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )


def regex_resolved(group_id: str, regex: str, topics: Iterable[str], now_ms: int) -> Change:
    """The version of the metadata is Kafka's own way to see that it is out of date; ours is not comparable with it."""
    return ConsumerGroupRegularExpressionKey(
        group_id=group_id, regular_expression=regex
    ), ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=0, timestamp=now_ms)


def regex_gone(group_id: str, regex: str) -> Change:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None


def group_gone(group_id: str, regexes: Iterable[str]) -> list[Change]:
    """What is left of a group when its last member has gone, the group itself last."""
    return [
        (ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(regex_gone(group_id, regex) for regex in regexes),
        (ConsumerGroupPartitionMetadataKey(group_id=group_id), None),
        (ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _current(holdings: Holdings) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(holdings[topic_id]),
            assignment_epochs=[epoch for _, epoch in sorted(holdings[topic_id].items())],
        )
        for topic_id in sorted(holdings)
    ]
