"""The `uniform` assignor when members read different topics.

What somebody has and still reads stays; what nobody has goes to the least loaded of its readers, hard topics (many
partitions for few readers) first; then partitions wander from the most to the least loaded reader of their topic until
no topic has a pair left that differs by more than one. Overlapping subscriptions may push load around in circles ever
more slowly, so the rounds are counted. Kafka: UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from bifrost.coordinator.core.assignors.subscribers import Assignment, Subscriber

ROUNDS_MAX: Final = 16


def assign_mixed(subscribers: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    balance = _Balance(subscribers, partitions)
    balance.keep_present()
    balance.assign_free()
    balance.even_out()
    return balance.assignments()


class _Balance:
    """An assignment in the making: of each partition its owner, of each member how much it has."""

    def __init__(self, subscribers: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> None:
        self._subscribers = subscribers
        self._readers: dict[UUID, list[str]] = {}
        for member_id, subscriber in subscribers.items():
            for topic in subscriber.topics:
                self._readers.setdefault(topic, []).append(member_id)
        self._order = {member_id: place for place, member_id in enumerate(subscribers)}
        self._load = dict.fromkeys(subscribers, 0)
        hardest_first = sorted(
            self._readers,
            key=lambda topic: (-partitions[topic] / len(self._readers[topic]), len(self._readers[topic]), topic),
        )
        self._owners: dict[UUID, list[str | None]] = {topic: [None] * partitions[topic] for topic in hardest_first}

    def keep_present(self) -> None:
        for member_id, subscriber in self._subscribers.items():
            for topic in subscriber.topics & subscriber.assigned.keys():
                owners = self._owners[topic]
                for partition in subscriber.assigned[topic]:
                    if partition < len(owners) and owners[partition] is None:
                        owners[partition] = member_id
                        self._load[member_id] += 1

    def assign_free(self) -> None:
        for topic, owners in self._owners.items():
            least = [(self._load[member_id], self._order[member_id], member_id) for member_id in self._readers[topic]]
            heapq.heapify(least)
            for partition, owner in enumerate(owners):
                if owner is None:
                    load, place, member_id = least[0]
                    heapq.heapreplace(least, (load + 1, place, member_id))
                    owners[partition] = member_id
                    self._load[member_id] += 1

    def even_out(self) -> None:
        for _ in range(ROUNDS_MAX):
            moved = [self._even_out_topic(topic) for topic in self._owners]
            if not any(moved):
                return

    def _even_out_topic(self, topic: UUID) -> bool:
        """Moves partitions of one topic from readers with much to readers with little; False if it moved none."""
        readers, owners = self._readers[topic], self._owners[topic]
        loads = [self._load[member_id] for member_id in readers]
        if max(loads) - min(loads) <= 1:
            return False
        held: dict[str, list[int]] = {}
        for partition, owner in enumerate(owners):
            assert owner is not None
            held.setdefault(owner, []).append(partition)
        least = [(self._load[member_id], self._order[member_id], member_id) for member_id in readers]
        most = [(-self._load[member_id], -self._order[member_id], member_id) for member_id in held]
        heapq.heapify(least)
        heapq.heapify(most)
        moved = False
        while most:
            giver, taker = most[0][2], least[0][2]
            if not held[giver]:
                heapq.heappop(most)
            elif -most[0][0] != self._load[giver]:
                heapq.heapreplace(most, (-self._load[giver], -self._order[giver], giver))
            elif least[0][0] != self._load[taker]:
                heapq.heapreplace(least, (self._load[taker], self._order[taker], taker))
            elif self._load[giver] - self._load[taker] <= 1:
                break
            else:
                owners[held[giver].pop()] = taker
                self._load[giver] -= 1
                self._load[taker] += 1
                moved = True
        return moved

    def assignments(self) -> dict[str, Assignment]:
        found: dict[str, dict[UUID, list[int]]] = {member_id: {} for member_id in self._subscribers}
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None
                found[owner].setdefault(topic, []).append(partition)
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in topics.items()}
            for member_id, topics in found.items()
        }
