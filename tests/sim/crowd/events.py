"""What clients saw of consumer groups: more kinds of events for a `history`."""

from __future__ import annotations

from typing import NamedTuple

from bifrost.types import TopicPartition

NO_OFFSET = -1
"""What a group has committed where it has committed nothing."""

Holding = frozenset[TopicPartition]


class Holds(NamedTuple):
    """From `at` on a member reads these partitions and no others, as it was told in this generation or epoch.

    It holds until its next event; after `until`, when it has not been heard of for so long, others may think it dead.
    """

    since: float
    """When it asked the question whose answer told it so."""
    at: float
    until: float
    group: str
    member: str
    epoch: int
    partitions: Holding


class GenerationBegun(NamedTuple):
    """A member of a classic group was told its part in a generation: the ones before are over, for everybody."""

    since: float
    at: float
    group: str
    generation: int


class Settled(NamedTuple):
    """Long after the last disturbance: what the members of a group that live hold, of what there is to hold."""

    at: float
    group: str
    wanted: Holding
    holders: tuple[tuple[str, Holding], ...]


class OffsetCommitted(NamedTuple):
    """A commit came to its end. `outcome` is "done", "refused" or "unknown". No offset is committed twice."""

    asked_at: float
    at: float
    group: str
    member: str
    epoch: int
    partition: TopicPartition
    offset: int
    outcome: str

    def __str__(self) -> str:
        return f"{self.offset} of {self.member} in {self.epoch}, asked at {self.asked_at:.3f}, {self.outcome}"


class OffsetSeen(NamedTuple):
    """OffsetFetch was answered."""

    asked_at: float
    at: float
    group: str
    reader: str
    partition: TopicPartition
    offset: int


class Unanswered(NamedTuple):
    """A client gave up waiting: there was no answer, and the connection was not closed either."""

    asked_at: float
    at: float
    client: str
    request: str


class Peace(NamedTuple):
    """From now on nothing disturbs anybody."""

    at: float


GroupEvent = Holds | GenerationBegun | Settled | OffsetCommitted | OffsetSeen | Unanswered | Peace
