"""A copy of a log in another directory of the same node, which takes the log's place once it holds the same (KIP-113).

This file decides what the copy needs next, and does it, a piece at a time: a piece may run in a thread, for nobody else
touches the copy, and the log itself is only read, through files that stay readable whatever becomes of their names. The
log goes on meanwhile. It may be written to, cut, emptied, compacted, and begin later; whatever it is after a piece, the
next one brings the copy closer to it. When little is missing the rest is copied on the loop, in one go with the change
of names, so that nobody can write in between.

Kafka: ReplicaAlterLogDirsThread, where the copy is a follower of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from bifrost.errors import ApiError, StorageError
from bifrost.log.flush_job import NO_CUT
from bifrost.log.home import Home
from bifrost.log.partition_log import PartitionLog
from bifrost.log.slices import LogSlice


class CutTo(NamedTuple):
    """The log was cut here, and what the copy has behind it may be something else by now."""

    offset: int


class RestartAt(NamedTuple):
    """The log begins later than the copy ends, or it was emptied and begins before the copy does."""

    offset: int


class SkipTo(NamedTuple):
    """Compaction has left nothing before the log's end."""

    offset: int


class Append(NamedTuple):
    """What follows in the log."""

    found: LogSlice


Piece = CutTo | RestartAt | SkipTo | Append


class FutureLog:
    """A log, and the copy on its way. `perform` and `flush` may run in any thread, one at a time; the rest belongs to
    the loop, while neither is under way."""

    __slots__ = ("copy", "home", "is_given_up", "log", "start_is_stored")

    def __init__(self, log: PartitionLog, copy: PartitionLog, home: Home) -> None:
        self.log = log
        self.copy = copy
        self.home = home
        """The directory that the log is going to live in."""
        self.is_given_up = False
        """Nobody wants it any more: its files may be gone at any time."""
        self.start_is_stored = False
        log.owed.lowest_cut = NO_CUT
        copy.first_dirty_offset = log.first_dirty_offset

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind."""
        return self.log.log_end_offset - self.copy.log_end_offset

    def next_piece(self, max_bytes: int) -> Piece | None:
        """What the copy needs next; None if it ends where the log does."""
        log, copy = self.log, self.copy
        cut, log.owed.lowest_cut = log.owed.lowest_cut, NO_CUT
        if cut < copy.log_end_offset:
            return CutTo(cut)
        offset, end = copy.log_end_offset, log.log_end_offset
        if offset < log.log_start_offset or copy.log_start_offset > log.log_start_offset:
            return RestartAt(log.log_start_offset)
        if offset == end:
            return None
        found = log.read(offset, max_bytes, end_offset=end, min_one_batch=True, whole_batches=True)
        return SkipTo(end) if found is None else Append(found)

    def perform(self, piece: Piece, now_ms: int) -> int:
        """Brings the copy closer to the log; how many bytes that took. Blocks."""
        copy = self.copy
        match piece:
            case CutTo(offset):
                copy.truncate_to(offset, now_ms)
            case RestartAt(offset):
                copy.truncate_fully_and_start_at(offset, now_ms)
            case SkipTo(offset):
                copy.roll(now_ms, skip_to=offset)
            case Append(found):
                return self._append(found, now_ms)
        return 0

    def _append(self, found: LogSlice, now_ms: int) -> int:
        before = self.copy.log_end_offset
        try:
            data = found.file.read_at(found.size, found.position)
            self.copy.append_replicated(memoryview(data), now_ms)
        except ApiError:
            if self.log.owed.lowest_cut != NO_CUT:
                return 0  # it was cut while it was read
            raise
        if self.copy.log_end_offset == before and self.log.owed.lowest_cut == NO_CUT:
            raise StorageError(found.file.path, f"there is no whole batch at position {found.position}")
        return found.size

    def flush(self) -> None:
        """What the copy holds so far is safe. Blocks."""
        self.copy.flush()

    def is_nearly_equal(self, max_bytes: int) -> bool:
        """Whether not more than this is missing, and nothing else. The copy is closer to the log then, or equal."""
        while max_bytes > 0:
            piece = self.next_piece(max_bytes)
            if piece is None:
                return self.start_is_stored and self.copy.log_start_offset == self.log.log_start_offset
            if not isinstance(piece, Append):
                self.log.owed.lowest_cut = piece.offset if isinstance(piece, CutTo) else NO_CUT
                return False
            max_bytes -= max(self.perform(piece, 0), 1)
        return False

    def note_start(self) -> bool:
        """The copy begins where the log does; whether there is anything to store about that."""
        start = self.log.log_start_offset
        self.start_is_stored = True
        if start > self.copy.log_end_offset:
            self.start_is_stored = False
            return False
        self.copy.advance_log_start(start)
        return start > 0
