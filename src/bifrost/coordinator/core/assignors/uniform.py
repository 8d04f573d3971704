"""The `uniform` assignor: as even as possible first, and then with as few partitions moved as possible.

When everybody reads the same topics, nobody ends up with two partitions more than anybody else, and a partition moves
only if its owner left or has too many. Different subscriptions take another way to the same end (`mixed`).
Kafka: UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from uuid import UUID

from bifrost.coordinator.core.assignors.mixed import assign_mixed
from bifrost.coordinator.core.assignors.subscribers import Assignment, Subscriber


def assign_uniformly(subscribers: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    if not subscribers:
        return {}
    topics, *others = {subscriber.topics for subscriber in subscribers.values()}
    if others:
        return assign_mixed(subscribers, partitions)
    return _assign_alike(subscribers, {topic: partitions[topic] for topic in sorted(topics)})


def _assign_alike(subscribers: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Everybody keeps what the quota allows, and what is then left over fills up those who have less."""
    quota, larger = divmod(sum(partitions.values()), len(subscribers))
    free = dict.fromkeys((topic, partition) for topic, count in partitions.items() for partition in range(count))
    kept: dict[str, list[tuple[UUID, int]]] = {}
    for member_id, subscriber in subscribers.items():
        mine = [(topic, partition) for topic in partitions for partition in sorted(subscriber.assigned.get(topic, ()))]
        kept[member_id] = [own for own in mine if own in free][: quota + 1]
        for own in kept[member_id]:
            del free[own]
    for mine in kept.values():
        if len(mine) > quota:
            if larger:
                larger -= 1
            else:
                free[mine.pop()] = None
    rest = iter(free)
    for mine in kept.values():
        if len(mine) <= quota:
            mine.extend(islice(rest, quota - len(mine) + (larger > 0)))
            larger -= larger > 0
    return {member_id: _by_topic(mine) for member_id, mine in kept.items()}


def _by_topic(mine: list[tuple[UUID, int]]) -> Assignment:
    topics: dict[UUID, list[int]] = {}
    for topic, partition in mine:
        topics.setdefault(topic, []).append(partition)
    return {topic: frozenset(partitions) for topic, partitions in topics.items()}
