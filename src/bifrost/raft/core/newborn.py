"""What a voter may decide that began with an empty disk: it is one of a new cluster, or has lost its disk. Pure.

It cannot tell which, nor what it once acknowledged or whom it voted for. So those with a past elect each other, and so
do those without one; which of the two has a majority tells what kind of cluster it is. A newborn gets its past from a
leader. All of this holds while disks of a minority are lost at a time.

What it acknowledged in an earlier life does not count any more once a leader has heard of this one (`Progress.is_of`),
and before that it elects nobody who could lack it. A vote that it gave and has forgotten is counted for as long as its
candidate waits, which is two election timeouts at most: a disk must not be replaced faster than that. (Kafka instead
gives each disk an identity, which voters and candidates compare: KIP-853.)
"""

from __future__ import annotations

from bifrost.raft.core.messages import ElectionState, LogEnd, LogView


def may_elect(voter: ElectionState, own_end: LogEnd, candidate_end: LogEnd, *, is_newborn: bool) -> bool:
    """Whether the candidate's log holds all that may be committed, as far as the voter can tell (Raft, 5.4.1)."""
    return candidate_end >= own_end and is_newborn == voter.is_newborn and (not is_newborn or candidate_end.offset == 0)


def grown_up(voter: ElectionState, log: LogView, leader_high_watermark: int) -> ElectionState:
    """What the voter is once its log has grown: a newborn that has caught up is one no more."""
    if voter.is_newborn and has_caught_up(log, voter.epoch, leader_high_watermark):
        return voter._replace(is_newborn=False)
    return voter


def has_caught_up(log: LogView, epoch: int, high_watermark: int) -> bool:
    """Whether a log, which the leader of `epoch` continues, holds all that was committed before this voter was born.

    The leader's high watermark tells of what earlier leaders committed once it has passed a record of its own epoch
    (Raft, 5.4.2). Where there were none, because the log begins with this epoch, it always does.
    """
    if log.last_epoch != epoch or not 0 <= high_watermark <= log.durable_offset:  # which a piece of a snapshot lacks
        return False
    epoch_start = log.epoch_end(epoch - 1).end_offset
    return epoch_start == 0 or epoch_start < high_watermark or log.first_epoch == epoch
