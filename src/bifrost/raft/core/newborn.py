"""What a voter may decide that began with an empty disk: it is one of a new cluster, or has lost its disk. Pure.

It cannot tell which, nor what it once acknowledged or whom it voted for. So those with a past elect each other, and so
do those without one; which of the two has a majority tells what kind of cluster it is. A newborn gets its past from a
leader. All of this holds while disks of a minority are lost at a time, and to replace one takes longer than a leader
goes on that has no majority (Kafka instead gives each disk an identity: KIP-853).
"""

from __future__ import annotations

from bifrost.raft.core.messages import ElectionState, LogEnd, LogView


def may_elect(voter: ElectionState, own_end: LogEnd, candidate_end: LogEnd, *, is_newborn: bool) -> bool:
    """Whether the candidate's log holds all that may be committed, as far as the voter can tell (Raft, 5.4.1)."""
    return candidate_end >= own_end and is_newborn == voter.is_newborn and (not is_newborn or candidate_end.offset == 0)


def has_caught_up(log: LogView, epoch: int, high_watermark: int) -> bool:
    """Whether a log, which the leader of `epoch` continues, holds all that was committed before this voter was born.

    The leader's high watermark tells of what earlier leaders committed once it has passed a record of its own epoch
    (Raft, 5.4.2). Where there were none, because the log begins with this epoch, it always does.
    """
    if log.last_epoch != epoch or log.durable_offset < high_watermark:
        return False
    epoch_start = log.epoch_end(epoch - 1).end_offset
    return epoch_start == 0 or epoch_start < high_watermark or log.first_epoch == epoch
