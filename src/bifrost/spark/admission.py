"""How far the next batch of a stream goes: all there is, at most so many offsets, or not yet.

As in Spark's Kafka connector (KafkaMicroBatchStream): a limit is shared out in proportion to what waits in each
partition, and no partition with records is left out entirely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bifrost.spark.offsets import Offsets
from bifrost.types import TopicPartition


def limit_rate(limit: int, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """Ends of a batch of about `limit` offsets. A partition of which no start is known is left as it is."""
    waiting = {
        partition: end - start[partition]
        for partition, end in latest.items()
        if partition in start and end > start[partition]
    }
    total = sum(waiting.values())
    return {
        partition: min(end, start[partition] + _share(limit, waiting[partition], total))
        if partition in waiting
        else end
        for partition, end in latest.items()
    }


def _share(limit: int, size: int, total: int) -> int:
    """In proportion, rounded down, but never nothing."""
    share = limit * (size / total)
    return math.ceil(share) if share < 1 else math.floor(share)


@dataclass(slots=True)
class Patience:
    """Waits for `minOffsetsPerTrigger`, but not for longer than `maxTriggerDelay` since the last batch."""

    least: int
    delay_ms: int
    _last_ms: int | None = None
    """When a batch was last let through; the first one never waits."""

    def waits(self, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """Whether to let this trigger pass and see what the next one finds."""
        available = sum(end - start.get(partition, 0) for partition, end in latest.items())
        expired = self._last_ms is None or now_ms - self._last_ms >= self.delay_ms
        if available <= 0 or (available < self.least and not expired):
            return True
        self._last_ms = now_ms
        return False
