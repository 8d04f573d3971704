"""What a partition's log answers with: where a batch was put, and where bytes to send are."""

from __future__ import annotations

from typing import NamedTuple

from bifrost.log.disk import File


class AppendResult(NamedTuple):
    """Where a produced batch is."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    """-1 unless the topic's timestamps are the broker's; a duplicate has that of the first one."""
    duplicate: bool
    """It was in the log already; nothing was written."""


class LogSlice(NamedTuple):
    """Bytes to send: they start with the batch that holds `start_offset` and may end inside another."""

    file: File
    position: int
    size: int
    start_offset: int
