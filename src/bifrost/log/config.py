"""What a topic's settings mean to its log. Replaced as a whole when the settings change; never changed in place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.batch import BatchHeader

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

    def check_timestamps(self, header: BatchHeader, now_ms: int) -> None:
        """Refuses a producer's batch from too far away in time; one without timestamps is let in.

        Kafka: LogValidator.validateTimestamp, for the records that a header tells of, the first and the greatest.
        """
        if header.max_timestamp - now_ms > self.message_timestamp_after_max_ms or (
            now_ms - header.base_timestamp > self.message_timestamp_before_max_ms and header.base_timestamp >= 0
        ):
            detail = f"timestamps {header.base_timestamp} to {header.max_timestamp} at {now_ms}"
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, detail)
