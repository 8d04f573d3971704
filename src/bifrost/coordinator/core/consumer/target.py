"""What every member of a group shall have in the end: asks the assignor, and tells what differs from before.

Kafka: TargetAssignmentBuilder, ModernGroup.computeMetadataHash.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from bifrost.coordinator.core import assignors
from bifrost.coordinator.core.assignors.subscribers import Assignment, Subscriber
from bifrost.coordinator.core.consumer.group import NOTHING, ConsumerGroup
from bifrost.coordinator.core.consumer.member import Member, Subscription
from bifrost.coordinator.core.environment import Topics


def existing(names: Iterable[str], topics: Topics) -> dict[UUID, int]:
    """The ids of those topics that exist, with the number of their partitions."""
    found: dict[UUID, int] = {}
    for name in names:
        topic_id, partitions = topics.topic_id(name), topics.partitions(name)
        if topic_id is not None and partitions is not None:
            found[topic_id] = partitions
    return found


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A number that changes when a topic comes, goes, grows or is made anew (KIP-1101); 0 if there is none.

    Only its writer compares it. Kafka computes another one from the same facts: a group that it takes over is assigned
    anew once.
    """
    digest = hashlib.blake2b(digest_size=8)
    found = existing(sorted(names), topics)
    for topic_id, partitions in found.items():
        digest.update(topic_id.bytes + partitions.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def compute_target(
    group: ConsumerGroup,
    members: Mapping[str, Member],
    subscriptions: Sequence[Subscription],
    topics: Topics,
    allowed: Sequence[str],
) -> dict[str, Assignment]:
    """The new target of each of `members`, which may differ from those of the group by one that changes now.

    `subscriptions` are the different ones that they have. Mostly it is one, and nobody has an instance id: a group that
    grows is assigned anew with every join, so that case has to be quick.
    """
    counts = existing(group.topics_of(subscriptions), topics)
    ids = {one: frozenset(existing(group.topics(one), topics)) for one in subscriptions}
    if len(ids) == 1 and not group.static_members:
        (alike,) = ids.values()
        target = group.targets.get
        subscribers = {
            member_id: Subscriber(alike, target(member_id, NOTHING), member.instance_id)
            for member_id, member in members.items()
        }
    else:
        subscribers = {
            member_id: Subscriber(ids[member.subscription], group.target(member), member.instance_id)
            for member_id, member in members.items()
        }
    return assignors.ASSIGNORS[preferred_assignor(members.values(), allowed)](subscribers, counts)


def preferred_assignor(members: Iterable[Member], allowed: Sequence[str]) -> str:
    """What most of those members want that want anything."""
    votes = Counter([member.server_assignor for member in members if member.server_assignor is not None])
    return max(allowed, key=lambda name: votes[name])
