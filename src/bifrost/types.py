"""Names for the plain values that travel through every layer."""

from __future__ import annotations

from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)


class TopicPartition(NamedTuple):
    """One partition of one topic; its text form is also its directory's name on disk."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
