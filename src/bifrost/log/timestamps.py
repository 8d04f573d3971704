"""Looking up records by time, for ListOffsets. Kafka: UnifiedLog.fetchOffsetByTimestamp.

This file decides which record answers. Headers and the time index find the batch; only then is one batch opened,
because clients expect the record's own offset and not its batch's. It is the one file of the log that looks inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bifrost.errors import ApiError, ErrorCode
from bifrost.log.scan import DamagedBatchError
from bifrost.log.segment import Segment
from bifrost.protocol.batch import BatchHeader, CorruptBatchError
from bifrost.protocol.records import Record, decode_batch

if TYPE_CHECKING:
    from bifrost.log.partition_log import PartitionLog


class TimestampAndOffset(NamedTuple):
    """A record's timestamp and offset, and the epoch of the leader that wrote it (-1 if unknown)."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def find_timestamp(log: PartitionLog, timestamp_ms: int, end_offset: int) -> TimestampAndOffset | None:
    """The first record with this timestamp or a later one; None if there is none before `end_offset`.

    Timestamps need not rise with offsets: the first segment whose greatest is high enough holds the answer, unless
    that record was deleted from the beginning of the log, or compaction left nothing of its batch but the header.
    """
    start_offset = log.log_start_offset
    try:
        for segment in _shown_segments(log, start_offset):
            if segment.greatest_timestamp()[0] >= timestamp_ms:
                found = _find_in_segment(segment, timestamp_ms, start_offset, end_offset)
                if found is not None:
                    return found
    except DamagedBatchError as damage:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
    return None


def max_timestamp(log: PartitionLog, end_offset: int) -> TimestampAndOffset | None:
    """The first record that carries the greatest timestamp of the log, if it is before `end_offset`."""
    start_offset = log.log_start_offset
    best: tuple[int, int, Segment] | None = None
    try:
        for each in _shown_segments(log, start_offset):
            greatest, batch_end = each.greatest_timestamp()
            if each.base_offset < start_offset:
                greatest, batch_end = _greatest_shown(each, start_offset, (greatest, batch_end))
            if greatest >= 0 and (best is None or greatest > best[0]):
                best = greatest, batch_end, each
        if best is None:
            return None
        greatest, batch_end, segment = best
        for position, header in segment.scan(segment.position_of(batch_end)):
            if header.max_timestamp >= greatest:
                records = _records(segment, position, header)
                shown = (record for record in records if record.offset >= start_offset)
                found = next((record for record in shown if record.timestamp == greatest), None)
                return _answer(found, header, end_offset) if header.record_count else _greatest_left(log, end_offset)
    except DamagedBatchError as damage:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
    return None


def _greatest_left(log: PartitionLog, end_offset: int) -> TimestampAndOffset | None:
    """As `max_timestamp`, where compaction left no record in the batch with the greatest. Slow, and rare."""
    best: TimestampAndOffset | None = None
    for segment in _shown_segments(log, log.log_start_offset):
        for position, header in segment.scan(segment.position_of(log.log_start_offset)):
            if header.record_count and (best is None or header.max_timestamp > best.timestamp_ms):
                shown = [each for each in _records(segment, position, header) if each.offset >= log.log_start_offset]
                first = max(shown, key=lambda each: each.timestamp, default=None)
                if first is not None and (best is None or first.timestamp > best.timestamp_ms):
                    best = _answer(first, header, end_offset) or best
    return best


def _shown_segments(log: PartitionLog, start_offset: int) -> list[Segment]:
    """Those that hold something from the log's start on."""
    segments = log.segments
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    return [segment for segment, end in zip(segments, ends) if segment.size and end > start_offset]


def _greatest_shown(segment: Segment, start_offset: int, told: tuple[int, int]) -> tuple[int, int]:
    """The greatest timestamp, and the end of its batch, of what a segment holds from `start_offset` on; all of its
    batches together have `told`. Only the batch that holds the start is opened: the others are all shown."""
    best = (-1, -1)
    for position, header in segment.scan(segment.position_of(start_offset)):
        greatest = header.max_timestamp
        if header.base_offset < start_offset:
            records = _records(segment, position, header)
            greatest = max((record.timestamp for record in records if record.offset >= start_offset), default=-1)
        if greatest > best[0]:
            best = greatest, header.last_offset
        if best[0] == told[0]:
            break
    return best


def _find_in_segment(
    segment: Segment, timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampAndOffset | None:
    start = _search_start(segment, timestamp_ms, start_offset)
    for position, header in segment.scan(start):
        if header.max_timestamp >= timestamp_ms:
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    return _answer(record, header, end_offset)
    return None


def _search_start(segment: Segment, timestamp_ms: int, start_offset: int) -> int:
    """A position before which every timestamp is too low. The index is believed only if its batch agrees with it."""
    entry_timestamp, entry_offset = segment.lookup_timestamp(timestamp_ms)
    place = segment.locate(max(entry_offset, start_offset))
    if place is None or entry_timestamp < 0 or entry_offset < start_offset:
        return segment.position_of(start_offset)
    _, header = next(segment.scan(place[0]))
    if header.last_offset == entry_offset and header.max_timestamp == entry_timestamp:
        return place[0]
    segment.distrust_indexes(f"time index says {entry_timestamp} ends at offset {entry_offset}")
    return segment.position_of(start_offset)


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    try:
        return decode_batch(segment.file.read_at(header.size_bytes, position))
    except CorruptBatchError as error:
        raise DamagedBatchError(segment.file, position, str(error)) from error


def _answer(record: Record | None, header: BatchHeader, end_offset: int) -> TimestampAndOffset | None:
    if record is None or record.offset >= end_offset:
        return None
    return TimestampAndOffset(record.timestamp, record.offset, header.leader_epoch)
