"""The `uniform` assignor: as even as possible first, and then with as few partitions moved as possible.

When everybody reads the same topics, nobody ends up with two partitions more than anybody else, and a partition moves
only if its owner left or has too many. Different subscriptions take another way to the same end (`mixed`).
Kafka: UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """Everybody keeps what the quota allows, and what is then left over fills up those who have less.

    Runs whenever somebody joins, over everybody who is there, so it is written for those whom nothing happens to.
    """
    quota, larger = divmod(sum(partitions.values()), len(subscribers))
    kept, free = _keep({member_id: subscriber.assigned for member_id, subscriber in subscribers.items()}, partitions)
    sizes = {member_id: sum(map(len, mine.values())) for member_id, mine in kept.items()}
    for member_id, size in sizes.items():
        if size > quota:
            allowed = quota + (larger > 0)
            larger -= larger > 0
            if size > allowed:
                kept[member_id] = _cut(kept[member_id], partitions, allowed, free)
    rest = ((topic, partition) for topic in partitions for partition in sorted(free[topic]))
    for member_id, size in sizes.items():
        if size < quota or (larger and size == quota):
            kept[member_id] = _joined(kept[member_id], islice(rest, quota - size + (larger > 0)))
            larger -= larger > 0
    return kept


def _keep(
    assigned: dict[str, Assignment], partitions: Mapping[UUID, int]
) -> tuple[dict[str, Assignment], dict[UUID, set[int]]]:
    """What everybody has and may have again, and what nobody has."""
    free = {topic: set(range(count)) for topic, count in partitions.items()}
    held: dict[UUID, list[frozenset[int]]] = {topic: [] for topic in free}
    for mine in assigned.values():
        for topic, own in mine.items():
            if topic not in held:
                return _mend(assigned, free), free
            held[topic].append(own)
    for topic, owns in held.items():
        taken = set().union(*owns)
        if len(taken) < sum(map(len, owns)) or not taken <= free[topic]:
            return _mend(assigned, free), free
    for topic, owns in held.items():
        free[topic].difference_update(*owns)
    return assigned, free


def _mend(assigned: Mapping[str, Assignment], free: Mapping[UUID, set[int]]) -> dict[str, Assignment]:
    """Without what does not exist any more, or was meant for somebody else too."""
    mended: dict[str, Assignment] = {}
    for member_id, mine in assigned.items():
        left = {topic: own & free.get(topic, frozenset()) for topic, own in mine.items()}
        mended[member_id] = {topic: own for topic, own in left.items() if own}
        for topic, own in mended[member_id].items():
            free[topic].difference_update(own)
    return mended


def _cut(mine: Assignment, topics: Iterable[UUID], size: int, free: Mapping[UUID, set[int]]) -> Assignment:
    """The first `size` of a member's partitions; the others become free."""
    ordered = [(topic, partition) for topic in topics for partition in sorted(mine.get(topic, ()))]
    for topic, partition in ordered[size:]:
        free[topic].add(partition)
    return _joined({}, ordered[:size])


def _joined(mine: Assignment, more: Iterable[tuple[UUID, int]]) -> Assignment:
    topics = {topic: set(partitions) for topic, partitions in mine.items()}
    for topic, partition in more:
        topics.setdefault(topic, set()).add(partition)
    return {topic: frozenset(partitions) for topic, partitions in topics.items()}
