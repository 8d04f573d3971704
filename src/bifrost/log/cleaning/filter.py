"""What of a batch survives a cleaning. Kafka: Cleaner.shouldRetainRecord, LogCleaner's RecordFilter.

This file decides. The last record of a key stays, a tombstone among them until its time has come: when one is first
cleaned its batch is marked with a delete horizon, and after that it may go (KIP-534). A batch that is left without
records goes, too, unless it is the last that a producer wrote, for its sequence is needed; or the last of its segment:
then the segment goes on reaching up to the next, and nobody takes the gap for a lost tail.

Must never: touch a transaction. Which of its records count depends on markers that nobody here reads yet, so control
batches and batches of transactions stay as they are, and what they hold makes nothing else go. Whoever brings
transactions changes `is_left_alone`, and knows by then which ones were aborted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bifrost.log.cleaning.offset_map import DIGEST_BYTES, OffsetMap, digest
from bifrost.log.config import INT64_MAX
from bifrost.protocol.batch import BatchHeader
from bifrost.protocol.record_spans import empty, find_records, has_delete_horizon, records_of, rewrite
from bifrost.protocol.records import DECOMPRESSED_BYTES_MAX


def is_left_alone(header: BatchHeader) -> bool:
    """Whether a batch neither loses records nor makes others lose theirs."""
    return header.is_control or header.is_transactional


def note_keys(offsets: OffsetMap, batch: memoryview, header: BatchHeader, first_dirty_offset: int) -> None:
    """Takes in what a batch says about keys from `first_dirty_offset` on, until the map is full: it then ends inside
    the batch. The caller has checked the CRC. Kafka: Cleaner.buildOffsetMapForSegment."""
    if header.record_count and not is_left_alone(header):
        known, base_offset = offsets.offsets, header.base_offset
        entries_max = offsets.entries_max
        may_overfill = len(known) + header.record_count > entries_max
        data = records_of(batch, header, DECOMPRESSED_BYTES_MAX)
        for _, _, _, offset_delta, key, _ in find_records(data, header.record_count, header.last_offset_delta):
            if key is not None and base_offset + offset_delta >= first_dirty_offset:
                if may_overfill and len(known) >= entries_max:
                    offsets.end_offset = base_offset + offset_delta
                    return
                known[key if len(key) < DIGEST_BYTES else digest(key)] = base_offset + offset_delta
    offsets.end_offset = header.next_offset


class _Kept(NamedTuple):
    """What stays of the records of a batch."""

    body: bytes | bytearray
    record_count: int
    newest_delta: int
    has_tombstones: bool


class BatchFilter:
    """Takes records out of batches."""

    __slots__ = ("_delete_retention_ms", "_last_offsets", "_now_ms", "_offsets", "records_dropped")

    def __init__(
        self, offsets: OffsetMap, last_offsets: Mapping[int, int], *, now_ms: int, delete_retention_ms: int
    ) -> None:
        self._offsets = offsets
        self._last_offsets = last_offsets
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self.records_dropped = 0

    def retained(self, batch: memoryview, header: BatchHeader, *, is_last: bool) -> bytes | memoryview | None:
        """The batch, or what is left of it; None if it goes. `is_last`: no other follows in its segment."""
        if is_left_alone(header) or header.base_offset >= self._offsets.end_offset:
            return batch
        must_stay = is_last or (
            header.producer_id >= 0 and self._last_offsets.get(header.producer_id) == header.last_offset
        )
        if not header.record_count:
            return batch if must_stay else None
        data = records_of(batch, header, DECOMPRESSED_BYTES_MAX)
        kept = self._choose(data, header)
        self.records_dropped += header.record_count - kept.record_count
        if not kept.record_count:
            return empty(header) if must_stay else None
        horizon_ms = None
        if kept.has_tombstones and not has_delete_horizon(header):
            horizon_ms = min(self._now_ms + self._delete_retention_ms, INT64_MAX)
        if kept.record_count == header.record_count and horizon_ms is None:
            return batch
        return rewrite(
            header, kept.body, count=kept.record_count, newest_delta=kept.newest_delta, delete_horizon_ms=horizon_ms
        )

    def _choose(self, data: bytes, header: BatchHeader) -> _Kept:
        """The records that stay. A record without a key goes, as in Kafka: it dates from before the topic was
        compacted. What lies behind the map's end stays for another round, whatever it is."""
        last_offset_of = self._offsets.offsets.get
        base_offset, known_deltas = header.base_offset, self._offsets.end_offset - header.base_offset
        tombstones_go = has_delete_horizon(header) and header.base_timestamp <= self._now_ms
        body, run = bytearray(), 0  # where the records begin that stay and are not in the body yet
        count, newest_delta, has_tombstones = 0, -INT64_MAX - 1, False
        records = find_records(data, header.record_count, header.last_offset_delta)
        for start, end, timestamp_delta, offset_delta, key, is_tombstone in records:
            if offset_delta < known_deltas:
                if (
                    key is None
                    or last_offset_of(key if len(key) < DIGEST_BYTES else digest(key), -1) > base_offset + offset_delta
                    or (is_tombstone and tombstones_go)
                ):
                    if start > run:
                        body += data[run:start]
                    run = end
                    continue
                if is_tombstone:
                    has_tombstones = True
            count += 1
            if timestamp_delta > newest_delta:  # noqa: PLR1730  # nothing is called here
                newest_delta = timestamp_delta
        if run:
            body += data[run:]
        return _Kept(body if run else data, count, newest_delta, has_tombstones)
