"""What a member of the quorum keeps on its disk: the metadata log, snapshots of what it adds up to, and its vote.

The log is a partition log like any other, with the rule that everything in it is synced at once, whatever the flush
policy for topics. A snapshot takes the place of the records before it; the log keeps those since the snapshot before
that, so that whoever was away for a while need not begin anew.

This file decides what a start makes of the files that it finds. A torn end is cut off. Anything else that cannot be
read was committed once: a voter that has others to ask sets its files aside and begins anew, without a vote until it
has caught up; one that is alone refuses to start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

from bifrost.clock import Clock
from bifrost.errors import ApiError, StorageError
from bifrost.log.config import LogConfig
from bifrost.log.disk import Disk
from bifrost.log.flusher import Flusher
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import CorruptBatchError, iter_headers, read_header
from bifrost.protocol.records import decode_batch, encode_batch
from bifrost.raft.core.messages import Divergence, ElectionState, SnapshotId
from bifrost.raft.damage import refuse_damage
from bifrost.raft.election_file import ELECTION_FILE, CorruptElectionError, decode_election, encode_election
from bifrost.raft.snapshot_files import SnapshotFiles
from bifrost.settings import Settings
from bifrost.types import TopicPartition

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID: Final = UUID(int=1)
"""Kafka's, of which every cluster has its own."""

_READ_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


class RaftStorage:
    """The files of one member. The log's part of it is what the core looks at (`LogView`)."""

    def __init__(
        self, disk: Disk, log: PartitionLog, snapshots: SnapshotFiles, election: ElectionState, clock: Clock
    ) -> None:
        self.election = election
        self.snapshots = snapshots
        self._disk = disk
        self._log = log
        self._clock = clock

    @classmethod
    def open(cls, disk: Disk, parent: str, settings: Settings, clock: Clock) -> RaftStorage:
        """Open or create the files under `parent`; StorageError if what was committed cannot be read."""
        directory = f"{parent}/{METADATA_PARTITION}"
        election = ElectionState()
        if disk.exists(directory):
            refuse_damage(disk, directory)
            election = _stored_election(disk, directory)
        else:
            disk.makedirs(directory)
        snapshots = SnapshotFiles(disk, directory)
        first = snapshots.oldest
        log = PartitionLog.open(
            disk,
            directory,
            METADATA_PARTITION,
            LogConfig(segment_bytes=settings.metadata_log_segment_bytes, segment_ms=settings.metadata_log_segment_ms),
            clean=False,
            recovery_point=0,
            log_start_offset=0 if first is None else first.end_offset,
            now_ms=clock.now_ms(),
        )
        log.owed.owe([], parent)  # the first sync also makes the directory's own name safe
        election = election._replace(epoch=max(election.epoch, log.epochs.latest, 0))
        newest = snapshots.newest
        if newest is not None and log.log_end_offset < newest.end_offset:
            # It was stored, and the power failed before the log could follow.
            log.truncate_fully_and_start_at(newest.end_offset, clock.now_ms())
        return cls(disk, log, snapshots, election, clock)

    def start(self, loop: asyncio.AbstractEventLoop, on_durable: Callable[[], None],
              on_failure: Callable[[StorageError], None]) -> None:  # fmt: skip
        """From now on whatever is appended is synced, and `on_durable` is told."""
        flusher = Flusher(loop, self._disk, self.name, on_failure)
        self._log.on_dirty = flusher.mark_dirty
        self._log.on_durable = lambda _offset: on_durable()

    # What the core looks at.

    @property
    def name(self) -> str:
        return self._log.directory

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def durable_offset(self) -> int:
        return self._log.durable_offset

    @property
    def snapshot(self) -> SnapshotId | None:
        return self.snapshots.newest

    @property
    def first_epoch(self) -> int:
        first = self.snapshots.oldest
        return 0 if first is None else first.epoch

    @property
    def last_epoch(self) -> int:
        return max(self._log.epochs.latest, self.first_epoch)

    def epoch_end(self, epoch: int) -> Divergence:
        if epoch >= self.last_epoch:
            return Divergence(self.last_epoch, self.end_offset)
        found, end = self._log.epoch_end(epoch)
        if found < 0 or end <= self.start_offset:
            return Divergence(self.first_epoch, self.start_offset)
        return Divergence(found, end)

    # What the driver does.

    def store_election(self, state: ElectionState) -> None:
        """Durable when it returns: somebody is about to rely on it."""
        self._disk.write_atomic(f"{self.name}/{ELECTION_FILE}", encode_election(state))
        self.election = state

    def append(self, values: Sequence[bytes], epoch: int) -> int:
        """The offset of the first value."""
        now_ms = self._clock.now_ms()
        return self.append_batch(encode_batch([(now_ms, None, value, ()) for value in values]), epoch)

    def append_batch(self, batch: bytearray, epoch: int) -> int:
        """The offset that it got."""
        stored = self._log.append(
            memoryview(batch), read_header(batch), leader_epoch=epoch, now_ms=self._clock.now_ms()
        )
        return stored.base_offset

    def append_fetched(self, batches: memoryview) -> None:
        """Batches as the leader wrote them. ApiError if they do not continue this log."""
        self._log.append_replicated(batches, self._clock.now_ms())

    def truncate(self, offset: int) -> None:
        self._log.truncate_to(offset, self._clock.now_ms())

    def restart_behind(self, snapshot: SnapshotId) -> None:
        """The log begins anew behind a snapshot, which is on disk already."""
        self._log.truncate_fully_and_start_at(snapshot.end_offset, self._clock.now_ms())
        self.snapshots.keep_only(snapshot)

    def on_snapshot(self) -> None:
        """There is a new snapshot: what came before the one before it is not needed any more."""
        self._log.roll(self._clock.now_ms())
        self.snapshots.keep_newest(2)
        oldest = self.snapshots.oldest
        if oldest is not None and oldest != self.snapshots.newest:
            self._log.advance_log_start(oldest.end_offset)
            self._log.drop_segments_before(oldest.end_offset)

    def read(self, offset: int, max_bytes: int) -> memoryview:
        """Whole batches from `offset` on, one of them at least; empty at the end."""
        if offset >= self.end_offset:
            return memoryview(b"")
        return self._read(offset, max_bytes, self.end_offset)

    def changes(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Every value from `start` to `end` with its offset; what the quorum writes for itself is passed over."""
        offset = start
        while offset < end:
            data = self._read(offset, _READ_BYTES, end)
            read_from = offset
            try:
                for position, header in iter_headers(data):
                    if header.base_offset >= end:
                        return
                    offset = header.next_offset
                    if header.is_control:
                        continue
                    for record in decode_batch(data[position : position + header.size_bytes]):
                        if record.value is None:
                            raise StorageError(self.name, f"the change at offset {record.offset} is empty")
                        if start <= record.offset < end:
                            yield record.offset, record.value
            except CorruptBatchError as error:
                raise StorageError(self.name, f"the batch before offset {offset}: {error}") from error
            if offset == read_from:
                raise StorageError(self.name, f"there is no batch at offset {offset}")

    def close(self) -> None:
        """Let go of the files, in good order."""
        self._log.close()

    def _read(self, offset: int, max_bytes: int, end: int) -> memoryview:
        try:
            part = self._log.read(offset, max_bytes, end_offset=end, min_one_batch=True)
        except ApiError as error:
            raise StorageError(self.name, error.detail) from error
        if part is None:
            raise StorageError(self.name, f"there is no batch at offset {offset}")
        return memoryview(part.file.read_at(part.size, part.position))


def _stored_election(disk: Disk, directory: str) -> ElectionState:
    path = f"{directory}/{ELECTION_FILE}"
    if not disk.exists(path):
        # A log without it is of a node that was alone, from before there were votes: its records have the epoch.
        return ElectionState(is_newborn=not any(name.endswith(".log") for name in disk.listdir(directory)))
    try:
        return decode_election(disk.read_bytes(path))
    except CorruptElectionError as error:
        raise StorageError(path, f"it cannot be read: {error}") from None
