"""A group of either protocol, as those see it who need not know which one it speaks."""

from __future__ import annotations

from collections.abc import Mapping

from bifrost.coordinator.core.classic.group import ClassicGroup
from bifrost.coordinator.core.consumer.group import ConsumerGroup

Group = ClassicGroup | ConsumerGroup
Groups = Mapping[str, Group]

CLASSIC = "classic"
CONSUMER = "consumer"
"""The types of groups, as ListGroups calls them (KIP-848)."""


def group_type(group: Group | None) -> str:
    """A group of which there are offsets and nothing else counts as a classic one."""
    return CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC


def protocol_type(group: Group | None) -> str:
    """What members use the group for; nothing is known of a group that never had any."""
    if isinstance(group, ConsumerGroup):
        return CONSUMER
    return "" if group is None else group.protocol_type or ""


def is_subscribed(group: Group | None, topic: str) -> bool:
    """Whether somebody in the group reads the topic; in doubt, yes."""
    if isinstance(group, ConsumerGroup):
        return topic in group.subscribed_topics()
    return group is not None and group.is_subscribed(topic)
