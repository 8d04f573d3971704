"""A follower of one partition: what to make of what its leader answers. Pure. Kafka: AbstractFetcherThread.

A follower asks for what comes after its log, and names the epoch of its last record. A leader whose history has another
end of that epoch says where they part, and the follower cuts its log there, maybe in several steps (KIP-595). So what
was never committed goes, and nothing else does: the high watermark, which a follower learns late, is not asked.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from bifrost.errors import ErrorCode

UNKNOWN_EPOCH: Final = -1


class LogView(Protocol):
    """What is looked up in the follower's own log."""

    @property
    def log_end_offset(self) -> int: ...

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch at or below this one, and where it ends; (-1, -1) if there is none."""
        ...


class Append(NamedTuple):
    """Store what came, if anything did, and believe the leader's offsets."""


class TruncateTo(NamedTuple):
    """What lies beyond was never committed."""

    offset: int


class RestartAt(NamedTuple):
    """The leader has deleted what would come next: nothing here continues what it has."""

    offset: int


class FindEnd(NamedTuple):
    """The leader's log may be shorter than this one: ask where it ends, and judge again."""


class Pause(NamedTuple):
    """Ask again a little later; `expected` while an election is on its way to everybody."""

    expected: bool


Verdict = Append | TruncateTo | RestartAt | FindEnd | Pause

_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""One of the two has not heard yet what the other knows."""


def judge(
    log: LogView,
    error: ErrorCode,
    diverging: tuple[int, int] | None,
    leader_start: int,
    leader_end: int | None = None,
) -> Verdict:
    """What to do with an answer. `diverging` is an epoch and where it ended for the leader."""
    if error is ErrorCode.NONE:
        return Append() if diverging is None else TruncateTo(_parting(log, *diverging))
    if error is ErrorCode.OFFSET_OUT_OF_RANGE:
        return _out_of_range(log, leader_start, leader_end)
    return Pause(expected=error in _PASSING)


def _out_of_range(log: LogView, leader_start: int, leader_end: int | None) -> Verdict:
    """Where no epochs tell how logs part, their ends do: after an unclean election a leader may have less than its
    followers, and they cut what it does not have. Kafka: AbstractFetcherThread.fetchOffsetAndTruncate."""
    if leader_start > log.log_end_offset:
        return RestartAt(leader_start)
    if leader_end is None:
        return FindEnd()
    if leader_end < log.log_end_offset:
        return TruncateTo(leader_end)
    return Pause(expected=False)  # it has written since


def has_caught_up(log: LogView, leader_high_watermark: int) -> bool:
    """Whether the leader may count on this replica from now on, so that writes wait for it: it holds all that was
    committed when the leader answered. Kafka: PartitionFetchState.isReplicaInSync."""
    return log.log_end_offset >= leader_high_watermark


def _parting(log: LogView, epoch: int, leader_end: int) -> int:
    """The last offset up to which both may agree."""
    own_epoch, own_end = log.epoch_end(epoch)
    if own_epoch == UNKNOWN_EPOCH:
        own_end = log.log_end_offset
    return min(own_end, leader_end, log.log_end_offset)
