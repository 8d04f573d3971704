"""The log of one partition: segments in a row, and what they say about epochs and producers. Hot path 5/9.

This file decides which offset a batch gets, in which segment it lies, what a reader may be given, and up to where the
log is safe. The high watermark is none of its business.

It runs on the loop's thread. It must never look at a record, and never wait for a sync while it appends, save for one
rare kind of roll: what is owed to the disk is collected (`flush_job`) and handed to a flusher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from bifrost.errors import ApiError, ErrorCode
from bifrost.log import producer_snapshots
from bifrost.log.cleaning.task import Cleaned
from bifrost.log.config import LOG_APPEND_TIME, FlushPolicy, LogConfig
from bifrost.log.disk import Disk
from bifrost.log.flush_job import FlushJob, FlushState
from bifrost.log.index import NO_TIMESTAMP
from bifrost.log.loading import LoadedLog, reload_producers
from bifrost.log.open_files import OpenFiles
from bifrost.log.recovery import load_or_recover
from bifrost.log.replicated import begin_inside, check_replicated, expected_offset, run_length, segment_start
from bifrost.log.scan import LENGTH_END, REMEDY, DamagedBatchError
from bifrost.log.segment import ActiveSegment, Segment
from bifrost.log.segments import Segments
from bifrost.log.slices import AppendResult, LogSlice
from bifrost.protocol.batch import BatchHeader, stamp, stamp_append_time
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)


class PartitionLog:
    """One partition on one disk. Everything public is kept true after every call."""

    __slots__ = (
        "_dirty", "_files", "_safe_at_append", "_segments", "_stored", "config", "directory", "durable_offset",
        "epochs", "first_dirty_offset", "listed_point", "log_end_offset", "log_start_offset", "on_dirty",
        "on_durable", "on_start_moved", "on_start_stored", "owed", "partition", "producers",
        "recovery_point", "replacements", "stored_start_offset", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
        *,
        loaded: LoadedLog,
        policy: FlushPolicy,
    ) -> None:
        self.partition = partition
        self.directory = directory
        self.config = config
        self.topic_id = loaded.topic_id
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.log_start_offset = self.stored_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.durable_offset = loaded.log_end_offset
        """Everything below it survives a crash of the kind that the flush policy guards against."""
        self.recovery_point = loaded.log_end_offset
        """Everything below it was synced: recovery may start here."""
        self.first_dirty_offset = 0
        """Compaction has been through everything before it; whoever knows better says so. It may lie before the log."""
        self.replacements = 0
        """Counts changes of its files by cleaning: whoever holds segments while it waits has to ask for them anew."""
        self.on_dirty: Callable[[PartitionLog], None] | None = None
        """Told once when there is something to sync, and again only after `begin_flush`."""
        self.on_durable: Callable[[int], None] | None = None
        """Told the new `durable_offset` when a flush advanced it."""
        self.on_start_moved: Callable[[PartitionLog], None] | None = None
        """Told when the log begins elsewhere: somebody has to store that, and to call `start_is_stored`."""
        self.on_start_stored: Callable[[], None] | None = None
        self.owed = FlushState()
        self._files = files
        self._segments = Segments(files, directory, loaded.closed, loaded.active)
        self._safe_at_append = policy is not FlushPolicy.ACK
        self._dirty = False
        self.listed_point = self.recovery_point  # the highest that the checkpoint may have
        self._stored = (self.log_end_offset, 0)  # the end and generation that the files beside the log describe

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        now_ms: int,
        log_start_offset: int = 0,
        listed_point: int = 0,
        policy: FlushPolicy = FlushPolicy.ACK,
        files: OpenFiles | None = None,
    ) -> PartitionLog:
        """Opens the log, or makes a new one; recovers it when it was not closed cleanly."""
        files = OpenFiles(disk) if files is None else files
        if new := not disk.exists(directory):
            disk.makedirs(directory)
        loaded = load_or_recover(
            files, directory, config,
            clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset, now_ms=now_ms,
        )  # fmt: skip
        log = cls(files, directory, partition, config, loaded=loaded, policy=policy)
        log.listed_point = max(recovery_point, listed_point, loaded.log_end_offset)
        if loaded.active.size == 0:  # it may be new, and then its name is not safe yet
            log.owed.owe([], directory, *([directory.rpartition("/")[0]] if new else []))
        return log

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def first_offset(self) -> int:
        """Where the first segment begins: not after the log's start, which may lie inside it."""
        return self._segments.first.base_offset

    @property
    def segments(self) -> list[Segment]:
        """All segments, the active one last."""
        return self._segments.all()

    def is_active(self, segment: Segment) -> bool:
        """Whether batches are appended to it."""
        return segment is self._segments.active

    def append(self, batch: memoryview, header: BatchHeader, *, leader_epoch: int, now_ms: int) -> AppendResult:
        """Stores a produced batch, which `header` describes and `accept_produced` has let in. Stamps it in place.

        `ApiError` refuses it, `StorageError` says that it could not be written; either way the log is as before.
        """
        config = self.config
        size, append_time = header.length + LENGTH_END, config.message_timestamp_type == LOG_APPEND_TIME
        if size > config.segment_bytes:
            raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes, a segment holds {config.segment_bytes}")
        producer_id = header.producer_id
        if producer_id >= 0 and (duplicate := self.producers.check(header)) is not None:
            return AppendResult(duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, True)
        if append_time:
            header = stamp_append_time(batch, 0, header, now_ms)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        active = self._segments.active
        if active.must_roll(size, last_offset, max_timestamp, now_ms, config):
            active = self._roll(base_offset, now_ms)
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch)
        stamp(batch, 0, base_offset, leader_epoch)
        active.append(batch, size, last_offset, max_timestamp, config)
        end_offset = self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self.producers.record(header, base_offset)
        if self._safe_at_append:
            self.durable_offset = end_offset
        elif not self._dirty:
            self._mark_dirty()
        return AppendResult(base_offset, last_offset, max_timestamp if append_time else NO_TIMESTAMP, False)

    def append_replicated(self, batches: memoryview, now_ms: int) -> int:
        """Stores batches as a leader wrote them, offsets and epochs included; the log's new end.

        All of them are checked before the first is written. A partial batch at the end is left out. `StorageError`: the
        log ends with the last that found room, and is as good as if no more had come.
        """
        expected = expected_offset(batches, self.log_start_offset, self.log_end_offset)
        positions, headers = check_replicated(self.partition, batches, expected)
        if headers and expected < self.log_end_offset:
            return begin_inside(self, batches, expected, now_ms)
        stored = 0
        while stored < len(headers):
            active, first = self._segments.active, headers[stored]
            if active.must_roll(first.size_bytes, first.last_offset, first.max_timestamp, now_ms, self.config):
                active = self._roll(segment_start(first, self.log_end_offset), now_ms)
            start, count = positions[stored], run_length(active, headers[stored:], now_ms, self.config)
            shift = active.write_at_end(batches[start : positions[stored + count]]) - start
            for header, position in zip(headers[stored : stored + count], positions[stored:]):
                if header.leader_epoch != self.epochs.latest and header.leader_epoch >= 0:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
                last_offset = header.last_offset
                active.note(position + shift, header.size_bytes, last_offset, header.max_timestamp, self.config)
                if header.producer_id >= 0:
                    self.producers.record(header, header.base_offset)
                self.log_end_offset = last_offset + 1
            stored += count
            if self._safe_at_append:  # now, for the next segment may find no room
                self.durable_offset = self.log_end_offset
            elif not self._dirty:
                self._mark_dirty()
        return self.log_end_offset

    def assign_epoch(self, leader_epoch: int) -> None:
        """A leader epoch begins at the log's end, even if nothing is ever written in it."""
        assert leader_epoch >= self.epochs.latest, f"{self.partition}: epoch {leader_epoch} after {self.epochs.latest}"
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def roll(self, now_ms: int, skip_to: int = 0) -> None:
        """Closes the active segment and starts the next, unless it is empty; further on, where a gap is to be left."""
        end_offset = max(self.log_end_offset, skip_to)
        if self._segments.active.size or end_offset > self.log_end_offset:
            self._roll(end_offset, now_ms)
            self.log_end_offset = end_offset

    def _roll(self, base_offset: int, now_ms: int) -> ActiveSegment:
        # What may fail comes first: a file that nobody refers to yet does no harm.
        snapshot = producer_snapshots.write(self._files.disk, self.directory, base_offset, self.producers)
        written = self._segments.roll(base_offset, self.config, now_ms)
        self.owed.owe([*written, snapshot], self.directory)
        if self.recovery_point < self.listed_point and base_offset <= self.listed_point:
            # The log was cut since the recovery point stood so high, or it is a deleted log's of the same name, and the
            # checkpoint may still hold it: recovery would not look at the segment just closed. It must be sound now.
            job = self.begin_flush()
            job.run()
            self.epochs.changed |= job.epochs_lost
        self._mark_dirty()
        _log.info("log rolled partition=%s base_offset=%d", self.partition, base_offset)
        return self._segments.active

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, min_one_batch: bool, whole_batches: bool = False
    ) -> LogSlice | None:
        """Where the bytes from `offset` on are, up to `max_bytes` and never at or beyond `end_offset`.

        None when there is nothing to send: the reader is at the end, or the first batch is larger than `max_bytes` and
        `min_one_batch` does not insist on it. One slice never crosses a segment.
        """
        start, log_end = self.log_start_offset, self.log_end_offset
        if not start <= offset <= log_end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition}: {offset} is not in {start}..{log_end}")
        if offset >= end_offset:
            return None
        try:
            segment, place = self._segments.locate(offset)
            if place is None:
                return None
            position, batch_size = place
            shown = end_offset >= self.log_end_offset
            end = segment.size if shown else self._segments.readable_end(segment, end_offset)
        except DamagedBatchError as damage:
            _log.error("log is damaged partition=%s offset=%d %s remedy=%r", self.partition, offset, damage, REMEDY)
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
        if end <= position or (batch_size > max_bytes and not min_one_batch):
            return None
        size = segment.cut(position, max(max_bytes, batch_size), end, whole=whole_batches)
        return LogSlice(segment.file, position, size, offset)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """The answer to OffsetForLeaderEpoch: (epoch, end offset)."""
        return self.epochs.end_offset(leader_epoch, self.log_end_offset)

    def truncate_to(self, offset: int, now_ms: int = 0) -> None:
        """Cuts every batch that reaches `offset`. Done and durable when it returns."""
        if offset >= self.log_end_offset:
            # Kafka: UnifiedLog.truncateTo. A leader that wrote nothing leaves an epoch here that others never had.
            self.epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self.first_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        _log.info("log truncated partition=%s from=%d to=%d", self.partition, self.log_end_offset, offset)
        self._forget_from(self._segments.truncate(offset, self.config, now_ms))

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Deletes everything; the log is empty and its next offset is `offset`."""
        _log.info("log emptied partition=%s from=%d to=%d", self.partition, self.log_end_offset, offset)
        self.owed.owe(self._segments.restart_at(offset, self.config, now_ms), self.directory)
        self.log_start_offset = offset
        self.epochs.clear()
        self._forget_from(offset)

    def _forget_from(self, end_offset: int) -> None:
        """Brings everything besides the segments back to the log's new end."""
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.first_dirty_offset = min(self.first_dirty_offset, end_offset)
        self.owed.cut_at(end_offset)
        self.epochs.truncate_from_end(end_offset)
        self._tell_start()
        segments = self._segments.all()
        self.producers = reload_producers(self._files, self.directory, segments, self.config, self.log_start_offset)
        self._mark_dirty()

    def advance_log_start(self, offset: int) -> None:
        """Records before `offset` are no longer served (DeleteRecords, retention); `segments` may still hold them."""
        if offset > self.log_start_offset:
            assert offset <= self.log_end_offset, f"{self.partition}: start {offset} beyond {self.log_end_offset}"
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self._tell_start()

    def start_is_stored(self, offset: int) -> None:
        """A loss of power cannot bring back what lies before `offset`, where the log began a moment ago."""
        self.stored_start_offset = min(offset, self.log_start_offset)
        if self.on_start_stored is not None:
            self.on_start_stored()

    def _tell_start(self) -> None:
        self.stored_start_offset = min(self.stored_start_offset, self.log_start_offset)
        if self.on_start_moved is not None and self.log_start_offset > 0:
            self.on_start_moved(self)

    def take_out_segments(self, before: int, limit: int) -> list[str]:
        """The oldest segments, up to `limit`, that lie wholly before this offset and the start, leave the log; what
        their files are called now, for somebody to remove. Whoever reads one of them can finish."""
        renamed = self._segments.take_out(min(before, self.log_start_offset), limit)
        if renamed:
            self.owed.owe([], self.directory)
        return renamed

    def replace_segments(self, cleaned: Cleaned) -> list[str] | None:
        """As `take_out_segments`, for segments that were cleaned. None if they are not in the log any more."""
        self.owed.owe([], self.directory)
        self.replacements += 1
        return self._segments.replace(cleaned, self.config)

    def drop_segments_before(self, offset: int) -> None:
        self._segments.drop_before(offset)

    def continue_as(self, copy: PartitionLog, directory: str, files: OpenFiles) -> None:
        """From here on this log is what the copy was, which is equal to it and whose directory has this name by now.

        Whoever knows this log need not know of it. How far it is safe was true of the old files, and is so of the new
        ones once a flush has said so.
        """
        assert copy.log_end_offset == self.log_end_offset, f"{self.partition}: not equal to {copy.directory}"
        self.owed.deleted = True  # a flush that is under way elsewhere may find nothing any more
        copy.owed.rename(directory, self.owed.generation + 1)
        self.owed, self._segments, self._files, self.directory = copy.owed, copy._segments, files, directory
        self._segments.rehome(files, directory)
        self.recovery_point, self.listed_point = copy.recovery_point, copy.listed_point
        self.first_dirty_offset = min(self.first_dirty_offset, copy.first_dirty_offset)
        self.stored_start_offset = min(self.stored_start_offset, copy.log_start_offset)
        self.epochs.changed, self._stored = True, (-1, 0)

    def begin_flush(self) -> FlushJob:
        """What has to be synced now, for `FlushJob.run`; pass it to `finish_flush` when that is done."""
        self._dirty = False
        epochs = self.epochs.encode() if self.epochs.changed else None
        self.epochs.changed = False
        end = self.log_end_offset
        files = [self._segments.active.file] if self.recovery_point < end else []
        return FlushJob(self._files.disk, self.directory, self.owed, files=files, epochs=epochs, offset=end)

    def finish_flush(self, job: FlushJob) -> None:
        """The job was done. What it covers is safe, unless the log was truncated in the meantime."""
        self.epochs.changed |= job.epochs_lost
        if job.generation != self.owed.generation:
            return
        self.recovery_point = max(self.recovery_point, job.recovery_point)
        self.listed_point = max(self.listed_point, job.recovery_point)
        if job.offset > self.durable_offset:
            self.durable_offset = job.offset
            if self.on_durable is not None:
                self.on_durable(job.offset)

    def flush(self) -> None:
        """Syncs what is owed, here and now. Not while a job of this log is under way elsewhere."""
        job = self.begin_flush()
        job.run()
        self.finish_flush(job)

    def store(self) -> None:
        """Writes what a clean start wants to find, indexes and producer snapshot; a flush makes it safe."""
        now = (self.log_end_offset, self.owed.generation)
        if self._stored != now:
            self.owed.owe(self._segments.active.seal(), self.directory)
            if self.log_end_offset > 0:
                disk, end = self._files.disk, self.log_end_offset
                self.owed.owe([producer_snapshots.write(disk, self.directory, end, self.producers)], self.directory)
            self._stored = now

    def close(self, *, clean: bool = True) -> None:
        """Lets go of the files; first stores and syncs everything unless the disk is not to be touched any more."""
        if clean:
            self.store()
            self.flush()
        self.release()

    def release(self) -> None:
        """Nobody may use the log any more. Readers that hold a slice can finish."""
        self.owed.deleted = True
        self.on_dirty = self.on_durable = self.on_start_moved = self.on_start_stored = None
        for segment in self._segments.all():
            segment.forget_files()

    def _mark_dirty(self) -> None:
        self._dirty = True
        if self.on_dirty is not None:
            self.on_dirty(self)
