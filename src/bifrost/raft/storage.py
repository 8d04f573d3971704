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
from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.log.config import LogConfig
from bifrost.log.disk import Disk
from bifrost.log.flusher import Flusher
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import BatchHeader, CorruptBatchError, check_crc, iter_headers, read_header
from bifrost.protocol.control_records import LeaderChange, decode_control
from bifrost.protocol.records import Record, decode_batch, encode_batch
from bifrost.raft.core.messages import Divergence, ElectionState, SnapshotId
from bifrost.raft.damage import DamagedMetadataError, refuse_damage
from bifrost.raft.election_file import ELECTION_FILE, CorruptElectionError, decode_election, encode_election
from bifrost.raft.metadata_log import Entry, EpochBegun
from bifrost.raft.rebuilding import begin_anew, refused
from bifrost.raft.snapshot_files import SnapshotFiles
from bifrost.raft.synced_mark import SyncedMark
from bifrost.settings import Settings
from bifrost.types import TopicPartition

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID: Final = UUID(int=1)
"""Kafka's, of which every cluster has its own."""

SNAPSHOTS_KEPT: Final = 2
_READ_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


class RaftStorage:
    """The files of one member. The log's part of it is what the core looks at (`LogView`)."""

    def __init__(
        self,
        disk: Disk,
        log: PartitionLog,
        synced: SyncedMark,
        snapshots: SnapshotFiles,
        election: ElectionState,
        clock: Clock,
    ) -> None:
        self.election = election
        self.snapshots = snapshots
        self.is_vote_lost = False
        """Whether it may have voted in an epoch that it has forgotten, not long ago."""
        self._disk = disk
        self._synced = synced
        self._log = log
        self._clock = clock
        self._owes_roll = False

    @classmethod
    def open(
        cls, disk: Disk, parent: str, settings: Settings, clock: Clock, *, has_others: bool = False
    ) -> RaftStorage:
        """Open or create the files under `parent`.

        If what was committed cannot be read, whoever has others begins anew; for others it is a StorageError.
        """
        directory = f"{parent}/{METADATA_PARTITION}"
        if not disk.exists(directory):
            disk.makedirs(directory)
        disk.sync_directory(parent)  # also of a crashed predecessor's: a vote is lost with the name of its directory
        synced = SyncedMark(disk, directory)
        election: ElectionState | None = None
        is_vote_lost = False
        try:
            election = stored_election(disk, directory, has_others=has_others)
            stored_epoch = election.epoch if disk.exists(f"{directory}/{ELECTION_FILE}") else None
            refuse_damage(disk, directory, synced_to=synced.offset, epoch_max=stored_epoch, is_of_quorum=has_others)
            snapshots = _usable_snapshots(disk, directory)
        except DamagedMetadataError as damage:
            if not has_others:
                raise refused(damage) from None
            begin_anew(disk, directory, damage, election)
            is_vote_lost = election is None
            election = (election or ElectionState())._replace(is_newborn=True)
            snapshots, synced = SnapshotFiles(disk, directory), SyncedMark(disk, directory)
        log = _open_log(disk, directory, snapshots, settings, clock)
        synced.begin(log.log_end_offset)
        election = election._replace(epoch=max(election.epoch, log.epochs.latest, 0))
        storage = cls(disk, log, synced, snapshots, election, clock)
        storage.is_vote_lost = is_vote_lost
        return storage

    def start(self, loop: asyncio.AbstractEventLoop, on_durable: Callable[[], None],
              on_failure: Callable[[StorageError], None]) -> None:  # fmt: skip
        """From now on whatever is appended is synced, and `on_durable` is told."""
        flusher = Flusher(loop, self._disk, self.name, on_failure)
        self._log.on_dirty = flusher.mark_dirty

        def tell(offset: int) -> None:
            self._synced.advance(offset)
            try:
                self._roll_if_owed()
            except DiskFullError as error:  # it is still owed, and what was synced is as durable as before
                _log.warning("metadata log not rolled reason=disk-full path=%s", error.path)
            except StorageError as error:
                on_failure(error)
                return
            on_durable()

        self._log.on_durable = tell

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
        """Batches as the leader wrote them. ApiError if they do not continue this log, without a gap."""
        expected = self.end_offset
        try:
            for _, header in iter_headers(batches):
                if header.base_offset != expected:
                    raise CorruptBatchError(f"offset {header.base_offset} came where {expected} was due")
                expected = header.next_offset
        except CorruptBatchError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        self._log.append_replicated(batches, self._clock.now_ms())

    def truncate(self, offset: int) -> None:
        self._synced.lower(offset)
        self._log.truncate_to(offset, self._clock.now_ms())

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record that ends there."""
        return self._log.epochs.epoch_at(offset - 1) if offset > self.start_offset else self.first_epoch

    def restart_behind(self, snapshot: SnapshotId) -> None:
        """The log begins anew behind a snapshot, which is on disk already."""
        self._synced.lower(snapshot.end_offset)
        self._log.truncate_fully_and_start_at(snapshot.end_offset, self._clock.now_ms())
        self.snapshots.keep_only(snapshot)

    def on_snapshot(self) -> None:
        """There is a new snapshot: what came before the one before it is not needed any more."""
        self._owes_roll = True
        self._roll_if_owed()
        self.snapshots.keep_newest(SNAPSHOTS_KEPT)
        oldest = self.snapshots.oldest
        if oldest is not None and oldest != self.snapshots.newest:
            self._log.advance_log_start(oldest.end_offset)
            self._log.drop_segments_before(oldest.end_offset)

    def on_damaged_snapshot(self, snapshot: SnapshotId) -> None:
        """A snapshot cannot be read any more. StorageError if nothing else tells what is in it."""
        self.snapshots.set_aside(snapshot)
        oldest = self.snapshots.oldest
        if oldest is not None:
            self._log.advance_log_start(oldest.end_offset)
        elif self.start_offset > 0:
            raise StorageError(self.snapshots.path(snapshot), "it is damaged, and was the only snapshot")

    def _roll_if_owed(self) -> None:
        """Never while the last segment is not durable: a loss of power would leave one that ends too early, and another
        behind it, which is what damage looks like."""
        if self._owes_roll and self.durable_offset == self.end_offset:
            self._log.roll(self._clock.now_ms())
            self._owes_roll = False

    def read(self, offset: int, max_bytes: int) -> memoryview:
        """Whole batches from `offset` on, one of them at least; empty at the end. StorageError if they are damaged."""
        if offset >= self.end_offset:
            return memoryview(b"")
        return self._read(offset, max_bytes, self.end_offset)

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Every change from `start` to `end`, and every begin of an epoch."""
        offset = start
        while offset < end:
            data = self._read(offset, _READ_BYTES, end)
            read_from = offset
            try:
                for position, header in iter_headers(data):
                    if header.base_offset >= end:
                        return
                    offset = header.next_offset
                    for record in decode_batch(data[position : position + header.size_bytes]):
                        value = _begun(record, header) if header.is_control else record.value
                        if header.is_control and value is None:
                            continue
                        if value is None:
                            raise StorageError(self.name, f"the change at offset {record.offset} is empty")
                        if start <= record.offset < end:
                            yield Entry(record.offset, record.timestamp, value)
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
        data = memoryview(part.file.read_at(part.size, part.position))
        self._check(data, offset)
        return data

    def _check(self, data: memoryview, offset: int) -> None:
        """StorageError unless these are the batches that were once stored from `offset` on."""
        expected: int | None = None
        try:
            for position, header in iter_headers(data):
                if not check_crc(data, position, header):
                    raise CorruptBatchError("checksum does not match")
                at = header.base_offset
                is_due = at <= offset < header.next_offset if expected is None else at == expected
                if not is_due or header.leader_epoch != self._log.epochs.epoch_at(max(at, self.start_offset)):
                    raise CorruptBatchError(f"it says offset {at} of epoch {header.leader_epoch}")
                expected = header.next_offset
            if expected is None:
                raise CorruptBatchError("its length is wrong")
        except CorruptBatchError as error:
            told = f"committed metadata is damaged behind offset {offset if expected is None else expected}: {error}"
            raise StorageError(self.name, told) from error


def _begun(record: Record, header: BatchHeader) -> EpochBegun | None:
    """None: another of the records that the quorum keeps for itself."""
    control = decode_control(record.key, record.value)
    return EpochBegun(control.leader_id, header.leader_epoch) if isinstance(control, LeaderChange) else None


def stored_election(disk: Disk, directory: str, *, has_others: bool) -> ElectionState:
    """What the member has promised; DamagedMetadataError if that cannot be known any more."""
    path = f"{directory}/{ELECTION_FILE}"
    if not disk.exists(path):
        used = any(size and name.endswith((".log", ".checkpoint")) for name, size in disk.file_sizes(directory).items())
        if used and has_others:
            raise DamagedMetadataError(path, "it is missing: nobody knows whom this node has voted for")
        # A log without it is of a node that was alone, from before there were votes: its records have the epoch.
        return ElectionState(is_newborn=not used)
    try:
        return decode_election(disk.read_bytes(path))
    except CorruptElectionError as error:
        raise DamagedMetadataError(path, f"it cannot be read: {error}") from None


def _usable_snapshots(disk: Disk, directory: str) -> SnapshotFiles:
    """Those that the log continues, without damaged ones; DamagedMetadataError if one is needed and none is left."""
    snapshots = SnapshotFiles(disk, directory)
    snapshots.set_damaged_aside()
    bases = sorted(int(name.removesuffix(".log")) for name in disk.listdir(directory) if name.endswith(".log"))
    begins = bases[0] if bases else 0
    snapshots.keep_from(begins)
    if begins > 0 and snapshots.oldest is None:
        raise DamagedMetadataError(directory, f"no snapshot tells what came before offset {begins}")
    return snapshots


def _open_log(disk: Disk, directory: str, snapshots: SnapshotFiles, settings: Settings, clock: Clock) -> PartitionLog:
    oldest, newest = snapshots.oldest, snapshots.newest
    log = PartitionLog.open(
        disk,
        directory,
        METADATA_PARTITION,
        LogConfig(segment_bytes=settings.metadata_log_segment_bytes, segment_ms=settings.metadata_log_segment_ms),
        clean=False,
        recovery_point=0,
        log_start_offset=0 if oldest is None else oldest.end_offset,
        now_ms=clock.now_ms(),
    )
    if newest is not None and log.log_end_offset < newest.end_offset:
        # It was stored, and the power failed before the log could follow.
        log.truncate_fully_and_start_at(newest.end_offset, clock.now_ms())
        log.flush()  # nobody follows yet what has to be
        snapshots.keep_only(newest)
    return log
