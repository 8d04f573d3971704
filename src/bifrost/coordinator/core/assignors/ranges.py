"""The `range` assignor: of each topic, every reader gets one run of neighbouring partitions.

Readers stand in the same order for every topic, so topics with equally many partitions and the same readers are cut at
the same places: who has partition 3 of one has partition 3 of the other, which is what joins need. Static members come
first, by the ids that survive their restarts. Nothing is sticky beyond that. Kafka: RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from bifrost.coordinator.core.assignors.subscribers import Assignment, Subscriber


def assign_ranges(subscribers: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    readers: dict[UUID, list[str]] = {}
    for member_id in sorted(subscribers, key=lambda member_id: _place(member_id, subscribers[member_id])):
        for topic in subscribers[member_id].topics:
            readers.setdefault(topic, []).append(member_id)
    assignments: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in subscribers}
    for topic, members in readers.items():
        size, longer = divmod(partitions[topic], len(members))
        start = 0
        for place, member_id in enumerate(members):
            end = start + size + (place < longer)
            if start < end:
                assignments[member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(assignments)


def _place(member_id: str, subscriber: Subscriber) -> tuple[bool, str]:
    instance_id = subscriber.instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
