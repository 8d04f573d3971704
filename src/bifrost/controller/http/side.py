"""What the HTTP side needs of the node around it, and no more. The node fills it in (`broker/http_side.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from bifrost.controller.core.counts import PartitionCounts
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.http.history import EventHistory
from bifrost.metrics import Metrics
from bifrost.protocol.messages.quorum import DescribeQuorumPartitionResult
from bifrost.protocol.schema import Message
from bifrost.settings import Settings

T = TypeVar("T", bound=Message)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where this Odin stands in the quorum, by its own knowledge."""

    role: str
    epoch: int
    leader: int | None
    high_watermark: int
    log_end_offset: int
    is_active: bool
    hears_leader: bool
    """Whether it leads, or its fetches are answered by whoever does."""


class ClusterSide(Protocol):
    """One Odin, seen from its HTTP side."""

    node_id: int
    settings: Settings
    metrics: Metrics
    history: EventHistory
    counts: PartitionCounts

    @property
    def image(self) -> MetadataImage:
        """As far as this Odin has heard. Read it between two awaits."""

    def standing(self) -> Standing: ...

    def followers(self) -> DescribeQuorumPartitionResult | None:
        """How far the others are, if this Odin leads; None if it does not, and cannot know."""

    def on_unexpected(self, what: str, error: Exception) -> None:
        """A request met a bug: it is counted, and a broken promise of ours stops the node."""

    async def until_current(self) -> None:
        """Returns when the image holds all that was committed anywhere when this was called.

        ApiError(NOT_CONTROLLER): nobody can know at the moment.
        """

    async def quorum(self) -> DescribeQuorumPartitionResult:
        """As the leader of the quorum tells it. ApiError(NOT_CONTROLLER): there is none."""
        ...

    async def change(self, request: Message, kind: type[T]) -> T:
        """The answer of the active Odin, whichever that is; it is asked once.

        ApiError(NOT_CONTROLLER): there is none, or its answer was lost and the change may have been made.
        """
        ...

    async def end_offsets(self, topics: list[str]) -> dict[str, list[int]]:
        """How far each partition of each topic goes, by its leader's word.

        ApiError: a topic is not known, or a leader is not to be had.
        """
        ...
