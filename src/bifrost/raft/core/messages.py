"""What members of the quorum say to each other, as the core sees it; the driver knows Kafka's forms of it (KIP-595)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bifrost.errors import ErrorCode
from bifrost.types import NodeId


class LogEnd(NamedTuple):
    """How far a log goes. The greater one holds everything that can be committed in the other (Raft, section 5.4.1)."""

    epoch: int
    offset: int


class SnapshotId(NamedTuple):
    """A snapshot holds everything below `end_offset`; `epoch` wrote the last of it."""

    end_offset: int
    epoch: int


class ElectionState(NamedTuple):
    """What must outlive a crash: who was voted for, and who led, in the latest epoch that was heard of."""

    epoch: int = 0
    voted_for: NodeId | None = None
    leader: NodeId | None = None
    is_newborn: bool = True
    """Whether it began with an empty disk and has not caught up since (`core.newborn`)."""


class Vote(NamedTuple):
    """Asks for a vote; before that, as a pre-vote, whether one could be won (KIP-996)."""

    epoch: int
    candidate: NodeId
    log_end: LogEnd
    is_pre_vote: bool
    is_newborn: bool
    """Whether the candidate began with an empty disk and has not caught up since (`core.newborn`)."""


class BeginEpoch(NamedTuple):
    """A new leader makes itself known."""

    epoch: int
    leader: NodeId


class EndEpoch(NamedTuple):
    """A leader that goes says who should follow it, best first."""

    epoch: int
    leader: NodeId
    successors: tuple[NodeId, ...]


Message = Vote | BeginEpoch | EndEpoch


class Answer(NamedTuple):
    """The answer to any of them: what its sender knows about the present."""

    epoch: int
    leader: NodeId | None
    error: ErrorCode = ErrorCode.NONE
    granted: bool = False


class Divergence(NamedTuple):
    """The leader's history leaves the follower's: the last epoch they may share, and where it ended for the leader."""

    epoch: int
    end_offset: int


class FetchVerdict(NamedTuple):
    """What a leader says to a Fetch. Records are sent only where nothing but `answer` is set."""

    answer: Answer
    divergence: Divergence | None = None
    snapshot: SnapshotId | None = None

    @property
    def is_readable(self) -> bool:
        return self.answer.error is ErrorCode.NONE and self.divergence is None and self.snapshot is None


class LogView(Protocol):
    """What the core looks up in its own log. It never writes there."""

    @property
    def start_offset(self) -> int:
        """The first offset that is not in snapshots only."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have."""

    @property
    def durable_offset(self) -> int:
        """Everything below it would survive a power cut."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot where there are no records; 0 for an empty log."""

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""

    @property
    def first_epoch(self) -> int:
        """The epoch of the oldest snapshot, behind which the log begins unless it begins at offset 0; 0 without one."""

    def epoch_end(self, epoch: int) -> Divergence:
        """The largest known epoch at or below `epoch`, and where it ends."""
