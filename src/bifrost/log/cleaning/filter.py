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

from bifrost.log.cleaning.offset_map import DIGEST_BYTES, OffsetMap, digest
from bifrost.protocol.batch import BatchHeader
from bifrost.protocol.record_spans import Span, empty, find_records, has_delete_horizon, records_of, rewrite
from bifrost.protocol.records import DECOMPRESSED_BYTES_MAX


def is_left_alone(header: BatchHeader) -> bool:
    """Whether a batch neither loses records nor makes others lose theirs."""
    return header.is_control or header.is_transactional


def note_keys(offsets: OffsetMap, batch: memoryview, header: BatchHeader, first_dirty_offset: int) -> None:
    """Takes in what a batch says about keys from `first_dirty_offset` on. The caller has checked the CRC."""
    if header.record_count and not is_left_alone(header):
        known, base_offset = offsets.offsets, header.base_offset
        data = records_of(batch, header, DECOMPRESSED_BYTES_MAX)
        for _, _, _, offset_delta, key, _ in find_records(data, header.record_count):
            if key is not None and base_offset + offset_delta >= first_dirty_offset:
                known[key if len(key) < DIGEST_BYTES else digest(key)] = base_offset + offset_delta


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
        spans = find_records(data, header.record_count)
        kept, has_tombstones = self._choose(spans, header)
        self.records_dropped += len(spans) - len(kept)
        if not kept:
            return empty(header) if must_stay else None
        horizon_ms = None
        if has_tombstones and not has_delete_horizon(header):
            horizon_ms = self._now_ms + self._delete_retention_ms
        if len(kept) == len(spans) and horizon_ms is None:
            return batch
        return rewrite(header, data, kept, horizon_ms)

    def _choose(self, spans: list[Span], header: BatchHeader) -> tuple[list[Span], bool]:
        """The records that stay, and whether there are tombstones among them. A record without a key goes, as in Kafka:
        it dates from before the topic was compacted."""
        last_offset_of = self._offsets.offsets.get
        base_offset = header.base_offset
        tombstones_go = has_delete_horizon(header) and header.base_timestamp <= self._now_ms
        kept, has_tombstones = [], False
        for span in spans:
            _, _, _, offset_delta, key, is_tombstone = span
            if key is None:
                continue
            known = key if len(key) < DIGEST_BYTES else digest(key)
            if last_offset_of(known, -1) > base_offset + offset_delta:
                continue
            if is_tombstone:
                if tombstones_go:
                    continue
                has_tombstones = True
            kept.append(span)
        return kept, has_tombstones
