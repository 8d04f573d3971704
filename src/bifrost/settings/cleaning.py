"""What a node can be told about compaction."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.settings.fields import LONG_MAX, key, long
from bifrost.settings.http import HttpSettings
from bifrost.settings.keys import Update

CLUSTER_WIDE = Update.CLUSTER_WIDE

UNLIMITED_RATE = 1.7976931348623157e308
"""Kafka's Double.MAX_VALUE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings(HttpSettings):
    """A part of `Settings`."""

    # fmt: off
    log_cleaner_enable: bool = key(
        "log.cleaner.enable", True, doc="Whether anything is compacted at all, the topics of consumer groups included."
    )
    log_cleaner_threads: int = key(
        "log.cleaner.threads", 1, at_least=0, update=CLUSTER_WIDE,
        doc="How many logs are compacted at once, each by a process of its own.",
    )
    log_cleaner_backoff_ms: int = long(
        "log.cleaner.backoff.ms", 15_000, at_least=0, update=CLUSTER_WIDE,
        doc="How long to wait before logs are looked at again when there is nothing to compact.",
    )
    log_cleaner_dedupe_buffer_size: int = long(
        "log.cleaner.dedupe.buffer.size", 128 << 20, update=CLUSTER_WIDE,
        doc="Memory for keys, of all that is compacted at once. A log with more keys takes more rounds.",
    )
    log_cleaner_io_buffer_load_factor: float = key(
        "log.cleaner.io.buffer.load.factor", 0.9, update=CLUSTER_WIDE, doc="How much of that memory may be used.",
    )
    log_cleaner_io_buffer_size: int = key(
        "log.cleaner.io.buffer.size", 512 << 10, at_least=0, update=CLUSTER_WIDE,
        doc="How much is read and written at a time, by all that is compacted at once.",
    )
    log_cleaner_io_max_bytes_per_second: float = key(
        "log.cleaner.io.max.bytes.per.second", UNLIMITED_RATE, update=CLUSTER_WIDE,
        doc="How much compaction may read and write a second, on average.",
    )
    log_cleaner_delete_retention_ms: int = long(
        "log.cleaner.delete.retention.ms", 86_400_000, at_least=0, update=CLUSTER_WIDE,
        doc="How long compaction keeps tombstones after it has first met them.",
    )
    log_cleaner_min_cleanable_ratio: float = key(
        "log.cleaner.min.cleanable.ratio", 0.5, at_least=0, at_most=1, update=CLUSTER_WIDE,
        doc="Compact once more than this share of a log is new.",
    )
    log_cleaner_min_compaction_lag_ms: int = long(
        "log.cleaner.min.compaction.lag.ms", 0, at_least=0, update=CLUSTER_WIDE,
        doc="Records younger than this are not compacted.",
    )
    log_cleaner_max_compaction_lag_ms: int = long(
        "log.cleaner.max.compaction.lag.ms", LONG_MAX, at_least=1, update=CLUSTER_WIDE,
        doc="Records older than this are compacted whatever the ratio.",
    )
    # fmt: on
