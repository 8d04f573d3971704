"""A quorum of one: the metadata log of a cluster with a single controller, kept in one partition log on one disk.

A change is committed once it was synced, whatever the flush policy for topics. Every start is an election that this
node wins: it writes in a leader epoch of its own. The log belongs to one process; nothing here follows or votes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from bifrost.clock import Clock
from bifrost.errors import ApiError, StorageError
from bifrost.log.config import LogConfig
from bifrost.log.disk import Disk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import CorruptBatchError, iter_headers, read_header
from bifrost.protocol.records import decode_batch, encode_batch
from bifrost.raft.damage import refuse_damage
from bifrost.settings import Settings
from bifrost.types import TopicPartition

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
_READ_BYTES: Final = 1 << 20


class SoloLog:
    """Implements `MetadataLog`."""

    def __init__(self, log: PartitionLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._leader_epoch = max(log.epochs.latest, 0) + 1

    @classmethod
    def open(cls, disk: Disk, parent: str, settings: Settings, clock: Clock) -> SoloLog:
        """Open or create the log under `parent`. A torn tail is cut off; StorageError if more than that is wrong."""
        directory = f"{parent}/{METADATA_PARTITION}"
        if disk.exists(directory):
            refuse_damage(disk, directory)
        config = LogConfig(
            segment_bytes=settings.metadata_log_segment_bytes, segment_ms=settings.metadata_log_segment_ms
        )
        log = PartitionLog.open(
            disk, directory, METADATA_PARTITION, config, clean=False, recovery_point=0, now_ms=clock.now_ms()
        )
        log.owed.owe([], parent)  # the first sync also makes the directory's own name safe
        return cls(log, clock)

    @property
    def name(self) -> str:
        return self._log.directory

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def replay(self) -> Iterator[tuple[int, bytes]]:
        """Every change with its offset; control batches, which only a quorum of several writes, are passed over."""
        offset, end = self._log.log_start_offset, self._log.log_end_offset
        while offset < end:
            data = self._read(offset, end)
            read_from = offset
            try:
                for position, header in iter_headers(data):
                    offset = header.next_offset
                    if header.is_control:
                        continue
                    for record in decode_batch(data[position : position + header.size_bytes]):
                        if record.value is None:
                            raise StorageError(self.name, f"the change at offset {record.offset} is empty")
                        yield record.offset, record.value
            except CorruptBatchError as error:
                raise StorageError(self.name, f"the batch before offset {offset}: {error}") from error
            if offset == read_from:
                raise StorageError(self.name, f"there is no batch at offset {offset}")

    async def append(self, values: Sequence[bytes]) -> int:
        now_ms = self._clock.now_ms()
        batch = encode_batch([(now_ms, None, value, ()) for value in values])
        stored = self._log.append(memoryview(batch), read_header(batch), leader_epoch=self._leader_epoch, now_ms=now_ms)
        job = self._log.begin_flush()
        try:
            await asyncio.get_running_loop().run_in_executor(None, job.run)
        except StorageError as error:
            # Not even "disk full" can be taken back here: the bytes are written, and whether they stay is unknown.
            raise StorageError(error.path, f"sync failed: {error.detail}") from error
        self._log.finish_flush(job)
        return stored.base_offset

    def close(self) -> None:
        """Let go of the files; everything that was appended is safe already."""
        self._log.close()

    def _read(self, offset: int, end: int) -> memoryview:
        try:
            part = self._log.read(offset, _READ_BYTES, end_offset=end, min_one_batch=True)
        except ApiError as error:
            raise StorageError(self.name, error.detail) from error
        if part is None:
            raise StorageError(self.name, f"there is no batch at offset {offset}")
        return memoryview(part.file.read_at(part.size, part.position))
