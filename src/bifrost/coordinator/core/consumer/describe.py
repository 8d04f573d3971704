"""A consumer group as an administrator sees it. Kafka: ConsumerGroup.asDescribedGroup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.consumer.member import Member
from bifrost.coordinator.core.consumer.target import preferred_assignor
from bifrost.coordinator.core.environment import Topics
from bifrost.protocol.messages.consumer_group_admin import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from bifrost.protocol.messages.consumer_group_admin import Member as DescribedMember

CONSUMER_MEMBER: Final = 1
"""The type of a member that speaks this protocol (KIP-1099)."""


def describe_group(group: ConsumerGroup, topics: Topics, assignors: Sequence[str]) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members.values(), assignors),
        members=[_describe_member(group, member, topics) for member in group.members.values()],
    )


def _describe_member(group: ConsumerGroup, member: Member, topics: Topics) -> DescribedMember:
    target = group.target(member)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscription.names),
        subscribed_topic_regex=member.subscription.regex,
        assignment=_assignment(member.holdings(), topics),
        target_assignment=_assignment(((topic_id, p) for topic_id in target for p in target[topic_id]), topics),
        member_type=CONSUMER_MEMBER,
    )


def _assignment(partitions: Iterable[tuple[UUID, int]], topics: Topics) -> Assignment:
    """Of the topics that still exist."""
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, []).append(partition)
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(found))
            for topic_id, found in by_topic.items()
            if (name := topics.name(topic_id)) is not None
        ]
    )
