"""Keeps the writes of one connection in order when the leader of a partition changes in the middle of them. Pure.

A producer numbers its batches and has several under way. When one fails, it counts on those behind it failing, too, and
sends all of them again. A leader keeps that promise by the numbers, unless it does not know the producer yet: then it
takes whatever number comes first (Kafka: ProducerAppendInfo.checkSequence). In Kafka that does no harm, since a broker
that does not lead refuses everything. A broker that passes writes on to whoever leads has to refuse what stands behind
a write that failed, or that still waits for another leader than the next one would go to.

Writes without a number are let through: nobody promised anything about them after a failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bifrost.protocol.batch import ProducerMark
from bifrost.types import NodeId, TopicPartition

FORGOTTEN_AFTER_S: Final = 60.0
"""A producer that has given up what failed, and goes on without it, is let through after so long."""


@dataclass(slots=True)
class _Lane:
    """The batches of one producer for one partition."""

    leader: NodeId | None = None
    under_way: int = 0
    """Not answered yet by that leader."""
    failed: ProducerMark | None = None
    """The first that has to come again."""
    failed_at: float = 0.0


class WriteOrder:
    """One connection's."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[TopicPartition, int], _Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def admits(self, tp: TopicPartition, mark: ProducerMark | None, leader: NodeId | None, now: float) -> bool:
        """Whether a batch may go to this leader; if not, it has to be refused, and to come again like all after it."""
        lane = None if mark is None else self._lanes.get((tp, mark.producer_id))
        if mark is None or lane is None:
            return True
        if lane.failed is not None and now - lane.failed_at < FORGOTTEN_AFTER_S and mark.follows(lane.failed):
            return False
        if lane.under_way and lane.leader != leader:
            self.failed(tp, mark, now)
            return False
        lane.failed = None
        if not lane.under_way:
            del self._lanes[tp, mark.producer_id]
        return True

    def sent(self, tp: TopicPartition, mark: ProducerMark | None, leader: NodeId) -> None:
        """The batch is under way to another leader; `answered` follows."""
        if mark is not None:
            lane = self._lanes.setdefault((tp, mark.producer_id), _Lane())
            lane.leader = leader
            lane.under_way += 1

    def answered(self, tp: TopicPartition, mark: ProducerMark | None, now: float, *, comes_again: bool) -> None:
        """The leader has answered, or never will; its producer sends again what may succeed the next time."""
        lane = None if mark is None else self._lanes.get((tp, mark.producer_id))
        if mark is None or lane is None:
            return
        lane.under_way -= 1
        if comes_again:
            self.failed(tp, mark, now)
            return
        if lane.failed == mark:
            lane.failed = None  # an earlier try of it was given up only when it had come again
        if not lane.under_way and lane.failed is None:
            del self._lanes[tp, mark.producer_id]

    def stored_before(self, tp: TopicPartition, mark: ProducerMark) -> None:
        """All that stands before the batch is in the log of this node, which leads: what failed came another way."""
        lane = self._lanes.get((tp, mark.producer_id))
        if lane is not None and lane.failed is not None and mark.follows(lane.failed):
            lane.failed = None

    def failed(self, tp: TopicPartition, mark: ProducerMark | None, now: float) -> None:
        """The batch was refused, and comes again: before it nothing that follows it may be taken."""
        if mark is None:
            return
        lane = self._lanes.setdefault((tp, mark.producer_id), _Lane())
        if lane.failed is None or not mark.follows(lane.failed):
            lane.failed, lane.failed_at = mark, now
