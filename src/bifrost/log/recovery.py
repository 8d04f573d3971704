"""Making a partition's directory sound after a crash. Kafka: LogLoader.recoverLog, LogSegment.recover.

This file decides what of a log survives. From the segment with the last batch before the recovery point on, every batch
is read and its CRC checked; indexes, epochs and producer snapshots are written anew. At the first bad batch the log
ends: what follows in that file is cut off and later segments are deleted. Unless the topic is compacted, a segment that
ends before the next one starts, with nothing known to be safe in between, has lost its tail: that ends the log too, or
readers would step over a hole as if nothing had been there. That holds for logs that this node wrote alone: Kafka's
cleaner leaves such gaps, and what the topic's policy was when it did is not to be known.

It works on files alone and leaves a directory that opens plainly, so it can run in another process. It never touches
what lies before that segment.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import Final, NamedTuple

from bifrost.log import producer_snapshots
from bifrost.log.config import LogConfig
from bifrost.log.disk import Disk, File
from bifrost.log.index import RELATIVE_OFFSET_MAX, IndexBuilder
from bifrost.log.leftovers import tidy
from bifrost.log.loading import LoadedLog, base_offsets, closed_segments, load, load_epochs, load_producers
from bifrost.log.names import EPOCHS_FILE, LOG, segment_path
from bifrost.log.open_files import OpenFiles
from bifrost.log.scan import DamagedBatchError, scan_batches
from bifrost.log.segment import Segment, write_indexes

_log = logging.getLogger(__name__)

_PROGRESS_BYTES: Final = 256 << 20
"""A recovery that reads more than this says how far it is."""


class Recovered(NamedTuple):
    """What recovery found, and which files have to be synced before the log's end counts as safe."""

    log_end_offset: int
    scanned_bytes: int
    cut_bytes: int
    written: tuple[str, ...]


def bytes_to_scan(disk: Disk, directory: str, recovery_point: int) -> int:
    """How much `recover` would read."""
    sizes = disk.file_sizes(directory)
    bases = base_offsets(sizes)
    return sum(sizes[f"{base_offset:020d}{LOG}"] for base_offset in bases[_first_to_scan(bases, recovery_point) :])


def _first_to_scan(bases: list[int], recovery_point: int) -> int:
    """The segment with the last safe batch.

    One before that which holds the recovery point itself, if they differ: it was just rolled, and what a roll writes,
    the indexes, is only safe once the recovery point has moved on.
    """
    return max(bisect_right(bases, recovery_point - 1) - 1, 0)


def recover(
    disk: Disk,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    now_ms: int,
    keep_gaps: bool = False,
    sync: bool = True,
) -> Recovered:
    """Cuts what is damaged, rebuilds what is derived. Without `sync` the caller makes `written` safe.

    `keep_gaps` if no crash of this node can have taken the tails of segments.
    """
    sizes = tidy(disk, directory)
    bases = base_offsets(sizes)
    if not bases:
        return Recovered(log_start_offset, 0, 0, ())
    run = _Recovery(
        disk, directory, config, sizes=sizes, bases=bases, recovery_point=recovery_point, keep_gaps=keep_gaps
    )
    run.load_state(log_start_offset, now_ms)
    recovered = run.scan_segments()
    if sync:
        for path in recovered.written:
            disk.open(path).sync()
        disk.sync_directory(directory)
    return recovered


def load_or_recover(
    files: OpenFiles,
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    now_ms: int,
) -> LoadedLog:
    """Opens the log. `clean` is believed if the log then ends at the recovery point; otherwise it is recovered."""
    if clean:
        try:
            loaded = load(files, directory, config, log_start_offset=log_start_offset, now_ms=now_ms)
        except DamagedBatchError as damage:
            _log.warning("a cleanly closed log is damaged %s", damage)
        else:
            if loaded.log_end_offset == recovery_point:
                return loaded
            recovery_point = min(recovery_point, loaded.log_end_offset)
    recover(
        files.disk,
        directory,
        config,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        now_ms=now_ms,
        keep_gaps=clean,  # whoever closed it had synced it, and may have been Kafka
    )
    return load(files, directory, config, log_start_offset=log_start_offset, now_ms=now_ms)


class _Recovery:
    """One run over one directory."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        sizes: dict[str, int],
        bases: list[int],
        recovery_point: int,
        keep_gaps: bool,
    ) -> None:
        self._disk = disk
        self._files = OpenFiles(disk, limit=16)
        self._directory = directory
        self._config = config
        self._sizes = sizes
        self._bases = bases
        self._first = first = _first_to_scan(bases, recovery_point)
        self._recovery_point = recovery_point
        self._keep_gaps = keep_gaps or config.compacted
        self._end_offset = bases[first]
        self._written: list[str] = []

    def load_state(self, log_start_offset: int, now_ms: int) -> None:
        """Epochs and producers as they were where the scan starts."""
        before = closed_segments(self._files, self._directory, self._bases[: self._first], self._sizes, self._config)
        self._epochs = load_epochs(self._files, self._directory, before, self._sizes)
        self._stored_epochs = self._epochs.encode()
        self._epochs.truncate_from_end(self._end_offset)
        snapshots = [offset for offset in producer_snapshots.offsets(self._sizes) if offset <= self._end_offset]
        self._producers = load_producers(
            self._files,
            self._directory,
            before,
            snapshots,
            self._config,
            start_offset=log_start_offset,
            now_ms=now_ms,
        )

    def scan_segments(self) -> Recovered:
        pending = self._bases[self._first :]
        total_bytes = sum(self._size(base_offset) for base_offset in pending)
        scanned = cut = 0
        for number, (base_offset, following) in enumerate(zip(pending, [*pending[1:], None]), 1):
            if total_bytes > _PROGRESS_BYTES:
                _log.info(
                    "recovering directory=%s segment=%d/%d bytes=%d/%d",
                    self._directory,
                    number,
                    len(pending),
                    scanned,
                    total_bytes,
                )
            scanned += self._size(base_offset)
            reason, cut = self._scan_segment(base_offset, following)
            if reason is None and following is not None and self._lost_tail(base_offset, following):
                reason = f"the next segment starts at offset {following}"
            if reason is not None:
                self._end_log(base_offset, pending[number:], cut, reason)
                break
            if following is not None:
                self._write_snapshot(following)
        self._finish()
        return Recovered(self._end_offset, scanned, cut, tuple(self._written))

    def _scan_segment(self, base_offset: int, following: int | None) -> tuple[str | None, int]:
        """Reads one segment and writes its indexes; why it was cut, if it was, and by how many bytes."""
        path = segment_path(self._directory, base_offset, LOG)
        file = self._disk.open(path)
        size, good = self._size(base_offset), 0
        builder = IndexBuilder(base_offset, self._config.index_interval_bytes)
        self._end_offset = max(self._end_offset, base_offset)
        offset_end = base_offset + RELATIVE_OFFSET_MAX + 1
        if following is not None:
            offset_end = min(offset_end, following)
        reason = None
        try:
            for position, header in scan_batches(
                file, 0, size, next_offset=self._end_offset, offset_end=offset_end, crc=True
            ):
                builder.add(position, header.last_offset, header.max_timestamp)
                if header.leader_epoch > self._epochs.latest:
                    self._epochs.assign(header.leader_epoch, header.base_offset)
                if header.producer_id >= 0:
                    self._producers.record(header, header.base_offset)
                self._end_offset = header.next_offset
                good = position + header.size_bytes
        except DamagedBatchError as damage:
            reason = damage.reason
            file.truncate(good)
        self._note_written(file)
        if size:
            builder.finish()
            self._note_written(*write_indexes(self._files, self._directory, builder))
        return reason, size - good

    def _lost_tail(self, base_offset: int, following: int) -> bool:
        """Whether the segment just read once reached up to the next: a roll leaves no gap that it can avoid."""
        return (
            not self._keep_gaps
            and following > max(self._end_offset, self._recovery_point)
            and following - base_offset <= RELATIVE_OFFSET_MAX + 1
        )

    def _end_log(self, base_offset: int, later: list[int], cut_bytes: int, reason: str) -> None:
        _log.warning(
            "log cut directory=%s segment=%020d offset=%d bytes=%d later_segments=%d reason=%r",
            self._directory,
            base_offset,
            self._end_offset,
            cut_bytes,
            len(later),
            reason,
        )
        for doomed in reversed(later):
            Segment(self._files, self._directory, doomed, 0, 0).remove(self._disk)

    def _finish(self) -> None:
        self._epochs.truncate_from_end(self._end_offset)
        producer_snapshots.remove_beyond(self._disk, self._directory, self._end_offset)
        self._write_snapshot(self._end_offset)
        path = f"{self._directory}/{EPOCHS_FILE}"
        if self._epochs.encode() != self._stored_epochs:
            self._disk.write_atomic(path, self._epochs.encode(), sync=False)
            self._written.append(path)

    def _write_snapshot(self, offset: int) -> None:
        if offset > 0:
            self._note_written(producer_snapshots.write(self._disk, self._directory, offset, self._producers))

    def _note_written(self, *files: File) -> None:
        self._written.extend(file.path for file in files)

    def _size(self, base_offset: int) -> int:
        return self._sizes[f"{base_offset:020d}{LOG}"]
