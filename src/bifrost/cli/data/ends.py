"""Where reading stops: partition by partition, at an offset or at the end of what there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bifrost.types import TopicPartition


class Ends:
    """The partitions that are still read, each with the offset (exclusive) where it ends; None: at its end."""

    def __init__(self, ends: Mapping[TopicPartition, int | None]) -> None:
        self._open: dict[tuple[str, int], int | None] = {}
        self._open.update(ends.items())

    @property
    def done(self) -> bool:
        return not self._open

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that came later, each read to its end."""
        self._open.update(dict.fromkeys(partitions))

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that somebody else reads now."""
        for partition in partitions:
            self._open.pop(partition, None)

    def admits(self, partition: tuple[str, int], offset: int) -> bool:
        """Whether a message there is still wanted. The last one that is closes its partition."""
        if partition not in self._open:
            return False
        end = self._open[partition]
        if end is not None and offset + 1 >= end:
            del self._open[partition]
            return offset < end
        return True

    def at_end(self, partition: TopicPartition) -> None:
        """There is nothing more in the partition: what is missing up to its end was compacted away."""
        self._open.pop(partition, None)
