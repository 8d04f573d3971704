"""Batches that come from a leader: what a follower checks before it stores them. Kafka: UnifiedLog.appendAsFollower.

This file decides whether fetched bytes continue a log, and how many of them one write can take. Offsets and epochs were
given by the leader and are kept; if one batch is wrong all are refused, before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bifrost.errors import ApiError, ErrorCode
from bifrost.log.config import LogConfig
from bifrost.log.index import RELATIVE_OFFSET_MAX
from bifrost.log.segment import ActiveSegment
from bifrost.protocol.batch import BatchHeader, CorruptBatchError, check_crc, iter_headers
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from bifrost.log.partition_log import PartitionLog


def expected_offset(batches: memoryview, start_offset: int, end_offset: int) -> int:
    """Where fetched batches have to begin so that a log of this start and end takes them: at its end.

    But an empty log may begin where records were deleted up to, which may be inside a batch of its leader's. Then it
    takes that batch, and begins inside it likewise. Kafka: Partition.appendRecordsToFollowerOrFutureReplica.
    """
    if start_offset == end_offset:
        try:
            first = next(iter_headers(batches), None)
        except CorruptBatchError:
            return end_offset  # `check_replicated` tells what is wrong with them
        if first is not None and first[1].base_offset < end_offset <= first[1].last_offset:
            return first[1].base_offset
    return end_offset


def begin_inside(log: PartitionLog, batches: memoryview, base_offset: int, now_ms: int) -> int:
    """Stores what begins before this empty log does: it goes on beginning where it did, inside the first batch."""
    start = log.log_start_offset
    log.truncate_fully_and_start_at(base_offset, now_ms)
    try:
        log.append_replicated(batches, now_ms)
    finally:
        if log.log_end_offset > start:
            log.advance_log_start(start)
        else:  # there was no room for it
            log.truncate_fully_and_start_at(start, now_ms)
    return log.log_end_offset


def check_replicated(
    partition: TopicPartition, batches: memoryview, log_end_offset: int
) -> tuple[list[int], list[BatchHeader]]:
    """Positions and headers of all whole batches, and as one more position where they end. Raises `ApiError`.

    A partial batch at the end is left out: a fetch may end inside one.
    """
    positions, headers = [0], []
    try:
        for position, header in iter_headers(batches):
            if header.base_offset < log_end_offset or header.last_offset_delta < 0:
                detail = f"{partition}: a batch at offset {header.base_offset} where {log_end_offset} or more was due"
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
            if not check_crc(batches, position, header):
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: checksum at offset {header.base_offset}")
            positions.append(position + header.size_bytes)
            headers.append(header)
            log_end_offset = header.next_offset
    except CorruptBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: {error}") from error
    return positions, headers


def segment_start(header: BatchHeader, log_end_offset: int) -> int:
    """Where a segment starts that is made for this batch.

    At the log's end even before a gap, so that recovery can tell a lost tail from one; unless the gap is so wide that
    an index could not count across it.
    """
    return header.base_offset if header.last_offset - log_end_offset > RELATIVE_OFFSET_MAX else log_end_offset


def run_length(active: ActiveSegment, headers: Sequence[BatchHeader], now_ms: int, config: LogConfig) -> int:
    """How many of the batches go into the active segment together. The first one does: there was a roll if need be."""
    if active.size == 0:
        return 1  # an empty segment takes its age from its first batch
    size = headers[0].size_bytes
    for count, header in enumerate(headers[1:], 1):
        size += header.size_bytes
        if active.must_roll(size, header.last_offset, header.max_timestamp, now_ms, config):
            return count
    return len(headers)
