"""Opening a partition's files as they are: segments, epochs, producer states.

This file decides where a log ends. It trusts a clean shutdown so far as not to read every byte, but it checks what it
reads: the walk from the last index entry to the end of the file must go from batch to batch, or `DamagedBatchError`
tells the caller to recover first. It repairs nothing in the log itself.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from bifrost.log import producer_snapshots
from bifrost.log.checkpoints import CorruptCheckpointError, decode_topic_id
from bifrost.log.config import LogConfig
from bifrost.log.disk import Disk, File
from bifrost.log.epochs import LeaderEpochs
from bifrost.log.index import RELATIVE_OFFSET_MAX, CorruptIndexError, IndexBuilder, OffsetIndex, TimeIndex
from bifrost.log.leftovers import tidy
from bifrost.log.names import EPOCHS_FILE, LOG, METADATA_FILE, OFFSET_INDEX, TIME_INDEX, offset_of, segment_path
from bifrost.log.open_files import OpenFiles
from bifrost.log.producers import ProducerStates
from bifrost.log.scan import DamagedBatchError, scan_batches
from bifrost.log.segment import ActiveSegment, Segment
from bifrost.protocol.batch import BatchHeader

_log = logging.getLogger(__name__)

_WINDOW_BYTES: Final = 1 << 20
"""The last batches of producers are looked for in so much of a log's end, give or take a segment."""
_WINDOW_ENTRIES: Final = 256
"""Of an active segment that is longer than that, what lies behind the index entry so many before the end will do;"""
_WINDOW_OFFSETS: Final = 4096
"""of another one, so many offsets."""


class LoadedLog(NamedTuple):
    """The parts of a log; the last segment is the active one."""

    closed: list[Segment]
    active: ActiveSegment
    epochs: LeaderEpochs
    producers: ProducerStates
    log_start_offset: int
    log_end_offset: int
    topic_id: UUID | None


def load(files: OpenFiles, directory: str, config: LogConfig, *, log_start_offset: int, now_ms: int) -> LoadedLog:
    """Everything in the directory; an empty one becomes a log that starts and ends at `log_start_offset`."""
    sizes = tidy(files.disk, directory)
    bases = base_offsets(sizes)
    if bases:
        active, log_end_offset = open_active(files, directory, bases[-1], sizes, config, now_ms=now_ms)
        if log_end_offset < log_start_offset:
            _log.warning("log ends before it starts directory=%s end=%d", directory, log_end_offset)
            for base_offset in reversed(bases):
                Segment(files, directory, base_offset, 0, 0).remove(files.disk)
            bases = []
    if not bases:
        interval_bytes = config.index_interval_bytes
        active = ActiveSegment.create(files, directory, log_start_offset, interval_bytes, now_ms)
        log_end_offset = log_start_offset
    closed = closed_segments(files, directory, bases[:-1], sizes, config)
    log_start_offset = max(log_start_offset, bases[0] if bases else log_start_offset)
    segments = [*closed, active]
    epochs = load_epochs(files, directory, segments, sizes)
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    snapshots = producer_snapshots.offsets(sizes)
    snapshots = producer_snapshots.remove_stray(files.disk, directory, snapshots, bases, log_end_offset)
    producers = load_producers(
        files, directory, segments, snapshots, config, start_offset=log_start_offset, now_ms=now_ms
    )
    restore_windows(segments, producers)
    topic_id = load_topic_id(files.disk, directory) if METADATA_FILE in sizes else None
    return LoadedLog(closed, active, epochs, producers, log_start_offset, log_end_offset, topic_id)


def base_offsets(names: Collection[str]) -> list[int]:
    """Where each segment starts, rising."""
    found = (offset_of(name, LOG) for name in names)
    return sorted(base_offset for base_offset in found if base_offset is not None)


def closed_segments(
    files: OpenFiles, directory: str, bases: Iterable[int], sizes: dict[str, int], config: LogConfig
) -> list[Segment]:
    return [
        Segment(files, directory, base_offset, sizes[f"{base_offset:020d}{LOG}"], config.index_interval_bytes)
        for base_offset in bases
    ]


def open_active(
    files: OpenFiles, directory: str, base_offset: int, sizes: dict[str, int], config: LogConfig, *, now_ms: int
) -> tuple[ActiveSegment, int]:
    """The segment to append to, and the offset that follows its last batch."""
    file = files.disk.open(segment_path(directory, base_offset, LOG))
    size = sizes[f"{base_offset:020d}{LOG}"]
    interval_bytes = config.index_interval_bytes
    next_offset = base_offset
    first_timestamp = -1
    builder = _stored_indexes(files, directory, base_offset, sizes, config) if size else None
    if builder is not None:
        try:
            next_offset = _walk_to_end(file, size, builder)
        except DamagedBatchError as damage:
            _log.warning("index refused %s", damage)  # or the log is damaged: then walking all of it will tell
            builder = None
    if builder is None:
        builder = IndexBuilder(base_offset, interval_bytes)
        next_offset = _walk_to_end(file, size, builder)
    if size:
        offset_end = base_offset + RELATIVE_OFFSET_MAX + 1
        _, first = next(scan_batches(file, 0, size, next_offset=base_offset, offset_end=offset_end))
        first_timestamp = first.max_timestamp
    active = ActiveSegment(
        files,
        directory,
        file,
        size,
        builder,
        next_offset=next_offset,
        first_timestamp=first_timestamp,
        now_ms=now_ms,
    )
    return active, next_offset


def _stored_indexes(
    files: OpenFiles, directory: str, base_offset: int, sizes: dict[str, int], config: LogConfig
) -> IndexBuilder | None:
    """Indexes from their files; None where one is missing or cannot be right."""
    name = f"{base_offset:020d}"
    if f"{name}{OFFSET_INDEX}" not in sizes or f"{name}{TIME_INDEX}" not in sizes:
        return None
    limit = config.segment_index_bytes
    if max(sizes[f"{name}{OFFSET_INDEX}"], sizes[f"{name}{TIME_INDEX}"]) >= limit:
        return None  # preallocated by Kafka, and never trimmed: mostly zeros
    try:
        data = [
            files.disk.read_bytes(f"{directory}/{name}{suffix}") if sizes[f"{name}{suffix}"] else b""
            for suffix in (OFFSET_INDEX, TIME_INDEX)
        ]
        offsets, times = OffsetIndex.decode(base_offset, data[0]), TimeIndex(base_offset, data[1])
    except CorruptIndexError as error:
        _log.warning("index refused segment=%s/%s reason=%r", directory, name, str(error))
        return None
    if not offsets.is_plausible(sizes[f"{name}{LOG}"]) or not times.is_plausible():
        _log.warning("index refused segment=%s/%s reason='last entry is out of range'", directory, name)
        return None
    return IndexBuilder(base_offset, config.index_interval_bytes, offsets, times)


def _walk_to_end(file: File, size: int, builder: IndexBuilder) -> int:
    """Adds the batches behind the last index entry; the offset after the last of them."""
    claimed, start = builder.offsets.last()
    next_offset = builder.offsets.base_offset
    offset_end = next_offset + RELATIVE_OFFSET_MAX + 1
    for position, header in scan_batches(file, start, size, next_offset=next_offset, offset_end=offset_end):
        if position == start and start > 0 and header.last_offset > claimed:
            raise DamagedBatchError(file, position, f"index says that offset {claimed} is here")
        builder.add(position, header.last_offset, header.max_timestamp)
        next_offset = header.next_offset
    return next_offset


def load_topic_id(disk: Disk, directory: str) -> UUID | None:
    """None if the file is missing or unreadable: a crash right after creation leaves it so."""
    path = f"{directory}/{METADATA_FILE}"
    try:
        return decode_topic_id(disk.read_bytes(path)) if disk.exists(path) else None
    except CorruptCheckpointError as error:
        _log.warning("topic id ignored path=%s reason=%r", path, str(error))
        return None


def load_epochs(files: OpenFiles, directory: str, segments: Sequence[Segment], names: Collection[str]) -> LeaderEpochs:
    """The stored epochs; read from every batch header when there are none that can be believed."""
    path = f"{directory}/{EPOCHS_FILE}"
    if EPOCHS_FILE in names:
        try:
            return LeaderEpochs.decode(files.disk.read_bytes(path))
        except CorruptCheckpointError as error:
            _log.warning("epochs read from the log instead of path=%s reason=%r", path, str(error))
    epochs = LeaderEpochs()
    for segment in segments:
        try:
            for _, header in segment.scan():
                if header.leader_epoch > epochs.latest:
                    epochs.assign(header.leader_epoch, header.base_offset)
        except DamagedBatchError as damage:
            _log.warning("epochs stop at damage %s", damage)
    return epochs


def load_producers(
    files: OpenFiles,
    directory: str,
    segments: Sequence[Segment],
    snapshots: Collection[int],
    config: LogConfig,
    *,
    start_offset: int,
    now_ms: int | None,
) -> ProducerStates:
    """The newest of the snapshots, less what is expired by `now_ms`, and what the headers behind it add."""
    newest = producer_snapshots.load_newest(files.disk, directory, snapshots)
    states = ProducerStates()
    if newest is not None:
        start_offset, states = max(start_offset, newest[0]), newest[1]
        if now_ms is not None:
            states.expire(now_ms, config.producer_id_expiration_ms)
    for segment, following in zip(segments, [*segments[1:], None]):
        if segment.size and (following is None or following.base_offset > start_offset):
            replay_producers(segment, states, start_offset)
    return states


def reload_producers(
    files: OpenFiles, directory: str, segments: Sequence[Segment], config: LogConfig, start_offset: int
) -> ProducerStates:
    """The states of a log that was cut."""
    snapshots = producer_snapshots.offsets(files.disk.listdir(directory))
    states = load_producers(files, directory, segments, snapshots, config, start_offset=start_offset, now_ms=None)
    restore_windows(segments, states)
    return states


def restore_windows(segments: Sequence[Segment], states: ProducerStates) -> None:
    """Gives producers back what a snapshot does not hold: of their last five batches it knows only one.

    A client may have had all five on their way when the node stopped, and sends them again from the first.
    """
    if not states.entries:
        return
    recent = ProducerStates()
    try:
        for _, header in _tail(segments):
            if header.producer_id in states.entries:
                recent.record(header, header.base_offset)
    except DamagedBatchError as damage:
        _log.warning("producer states lack their last batches %s", damage)
    for producer_id, entry in recent.entries.items():
        known = states.entries[producer_id]
        if len(entry.batches) > len(known.batches) > 0 and entry.batches[-1] == known.batches[-1]:
            known.batches, known.in_a_row = entry.batches, entry.in_a_row


def _tail(segments: Sequence[Segment]) -> Iterator[tuple[int, BatchHeader]]:
    """Batches near the end of the log, as many as a client can have on their way while others write."""
    first, size = len(segments) - 1, segments[-1].size
    while first > 0 and size < _WINDOW_BYTES:
        first -= 1
        size += segments[first].size
    oldest, start = segments[first], 0
    if oldest.size > _WINDOW_BYTES and isinstance(oldest, ActiveSegment):
        start = oldest.tail_position(_WINDOW_ENTRIES)
    elif oldest.size > _WINDOW_BYTES:
        start = oldest.position_of(max(oldest.base_offset, segments[first + 1].base_offset - _WINDOW_OFFSETS))
    yield from oldest.scan(start)
    for segment in segments[first + 1 :]:
        yield from segment.scan()


def replay_producers(segment: Segment, states: ProducerStates, start_offset: int) -> None:
    """Takes in the segment's batches from `start_offset` on. Damage ends it: nothing behind it can be trusted."""
    try:
        for _, header in segment.scan(segment.position_of(start_offset)):
            if header.producer_id >= 0:
                states.record(header, header.base_offset)
    except DamagedBatchError as damage:
        _log.warning("producer states stop at damage %s", damage)
