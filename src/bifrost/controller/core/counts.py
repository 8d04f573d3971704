"""How many partitions there are, and how many are in trouble. Pure.

Kept up to date by differences, so that nobody has to look at all partitions when a number is asked for.
"""

from __future__ import annotations

from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.state import Partition


class PartitionCounts:
    """A subscriber of the image."""

    def __init__(self, image: MetadataImage) -> None:
        self.partitions = 0
        self.without_leader = 0
        self.under_replicated = 0
        self.elections = 0
        """Leader epochs that began since this was made."""
        for topic in image.topics.values():
            for partition in topic.partitions:
                self._count(partition, +1)

    def on_change(self, _image: MetadataImage, delta: Delta) -> None:
        for topic in delta.topics_deleted.values():
            for partition in topic.partitions:
                self._count(partition, -1)
        for change in delta.partitions.values():
            if change.before is not None:
                self._count(change.before, -1)
                self.elections += change.after.leader_epoch - change.before.leader_epoch
            self._count(change.after, +1)

    def _count(self, partition: Partition, sign: int) -> None:
        self.partitions += sign
        if not partition.has_leader:
            self.without_leader += sign
        if len(partition.isr) < len(partition.replicas):
            self.under_replicated += sign
