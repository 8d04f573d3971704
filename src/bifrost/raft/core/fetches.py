"""Where two logs part, and what a leader answers to a replica whose log is not a part of its own. Pure.

Kafka: ReplicatedLog.validateOffsetAndEpoch, KafkaMetadataLog.truncateToEndOffset.
"""

from __future__ import annotations

from bifrost.raft.core.messages import Answer, Divergence, FetchVerdict, LogView


def judge_fetch(log: LogView, answer: Answer, *, offset: int, last_epoch: int) -> FetchVerdict:
    """Whether a log that ends at `offset`, in `last_epoch`, can simply be continued; else where to cut it, or with
    which snapshot to begin anew."""
    if log.start_offset == 0 and offset == 0:
        return FetchVerdict(answer)
    too_old = offset < log.start_offset or (offset == log.start_offset and last_epoch != log.first_epoch)
    if log.start_offset > 0 and (too_old or last_epoch < log.first_epoch):
        assert log.snapshot is not None, f"the log begins at {log.start_offset} and no snapshot tells what came before"
        return FetchVerdict(answer, snapshot=log.snapshot)
    shared = log.epoch_end(last_epoch)
    if shared.epoch != last_epoch or shared.end_offset < offset:
        return FetchVerdict(answer, divergence=shared)
    return FetchVerdict(answer)


def shared_end(log: LogView, divergence: Divergence) -> int:
    """Where a follower has to cut its log before it asks again; maybe not for the last time.

    Kafka does not look at the end that the leader names if it is that of an epoch which the follower does not have.
    But beyond it the leader has nothing of any epoch that the follower knows: who keeps more, such as a snapshot
    that the leader has never heard of, would ask about it for ever.
    """
    return min(log.epoch_end(divergence.epoch).end_offset, divergence.end_offset)
