"""What a topic's settings mean to its log. Replaced as a whole when the settings change; never changed in place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bifrost.protocol.batch import APPEND_TIME_BIT, BatchHeader
from bifrost.protocol.inspection import Recompression, Rules

INT64_MAX: Final = (1 << 63) - 1

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


class FlushPolicy(StrEnum):
    """When a write counts as safe."""

    ACK = "ack"
    """Once it was synced: it survives a loss of power."""
    OS = "os"
    """At once: it survives the end of the process. Kafka's way; segments are synced when they are full."""
    MEMORY = "memory"
    """At once, and nothing survives: there are no files."""


@dataclass(slots=True)
class LogConfig:
    """Topic settings under their Kafka names, with Kafka's defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    """At most so much is taken off `segment_ms`, which is never less."""
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = (1 << 20) + 12
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    """KIP-1030: an hour, so that a producer that counts in microseconds is noticed at once."""
    producer_id_expiration_ms: int = 24 * 3_600_000
    compacted: bool = False
    """Whether of all records with one key only the last is kept, some time after it was written."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = 24 * 3_600_000
    """How long a tombstone stays after it was first cleaned."""
    deletes: bool = True
    """Whether segments go because of their age, or of the log's size. Those wholly before its start go in any case."""
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000

    validates: bool = False
    """Whether every record that a producer sends is looked at."""
    recompression: Recompression | None = None
    """How batches are stored; None: as producers send them."""
    inflated_bytes_max: int = 64 << 20
    """What a batch may inflate to, where somebody has to look inside."""

    def inspection(self, header: BatchHeader, now_ms: int) -> Rules | None:
        """What a look inside a producer's batch has to show; None where its header says all that is wanted.

        Kafka: LogValidator.validateTimestamp, which looks at every record. A header tells of the greatest timestamp,
        and of the first: where a topic bounds the past, that is not enough.
        """
        append_time = self.message_timestamp_type == LOG_APPEND_TIME
        latest = now_ms + self.message_timestamp_after_max_ms
        bounds_the_past = self.message_timestamp_before_max_ms < INT64_MAX
        walk = (
            self.validates
            or self.compacted
            or header.attributes & APPEND_TIME_BIT != 0
            or (not append_time and (header.max_timestamp > latest or bounds_the_past))
        )
        wanted = self.recompression
        if not walk and (wanted is None or wanted.codec == header.codec):
            return None
        return Rules(
            limit_bytes=max(self.inflated_bytes_max, self.max_message_bytes),
            walk=walk,
            keys=self.compacted,
            append_time=append_time,
            earliest=now_ms - self.message_timestamp_before_max_ms,
            latest=latest,
            recompression=wanted,
        )
