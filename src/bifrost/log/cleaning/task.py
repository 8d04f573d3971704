"""What a worker is told, and what it tells: values that travel between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from bifrost.log.disk import Disk
from bifrost.log.scan import DamagedBatchError


class OversizedBatchError(DamagedBatchError):
    """The batch may be sound, but it holds more than a cleaning takes into memory."""


_STEP_READS: Final = 8


class Source(NamedTuple):
    """A closed segment, as it is before the cleaning."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTask:
    """One round over one log."""

    disk: Disk
    directory: str
    sources: tuple[Source, ...]
    """Every segment from the log's first up to `end_offset`, in a row."""
    first_dirty_offset: int
    end_offset: int
    """Where the first segment begins that must be left alone."""
    last_offsets: Mapping[int, int]
    """The last offset of each producer that is known: the batch that ends there stays, if only its header."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_entries_max: int
    read_bytes: int
    """How much is read at a time, and written."""

    @property
    def step_bytes(self) -> int:
        """How much is done before whoever waits is told: each time costs the node's loop a moment."""
        return _STEP_READS * self.read_bytes


class Cleaned(NamedTuple):
    """Segments whose successor lies beside them, synced, under the name of the first and with the suffix `.cleaned`."""

    base_offsets: tuple[int, ...]
    size: int


class Step(NamedTuple):
    """A part of the work that was done."""

    moved_bytes: int
    """Read and written."""
    cleaned: Cleaned | None = None
    """Segments that can now be replaced; the worker goes on to the next when it is asked to."""
    clean_to: int | None = None
    """All is done: the log is clean up to here. Less than `end_offset` if the map was full."""
