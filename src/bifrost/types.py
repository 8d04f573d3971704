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


INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Topics that belong to the broker: clients read them, but do not write or delete them."""
