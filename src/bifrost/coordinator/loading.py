"""Reading a partition of `__consumer_offsets` back into a shard, without holding up the loop.

The file is read by a thread; records are replayed in slices of about a millisecond. Everything up to the end of the log
counts: what lies above the high watermark was written by a leader before, and answers wait until it is safe.

Offsets of transactions take effect at their commit marker, unless a later commit was faster (Kafka:
OffsetMetadataManager.replayEndTransactionMarker). A transaction without a marker leaves the offsets as they were: there
is nobody yet who could end it.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.core.shard import GroupShard
from bifrost.protocol.batch import BatchHeader, CorruptBatchError, check_crc, iter_headers
from bifrost.protocol.records import iter_keys_and_values
from bifrost.protocol.wire import Buffer
from bifrost.replication.partition import Partition

_RECORDS_PER_SLICE: Final = 400
_MARKER = struct.Struct(">hh")
_COMMIT: Final = 1


class Loaded(NamedTuple):
    """What was found."""

    records: int
    open_transactions: int


class LeadershipLostError(Exception):
    """Another node leads by now; what was read is of no use."""


class Loading:
    """One partition on its way into one shard."""

    def __init__(self, partition: Partition, shard: GroupShard, *, buffer_bytes: int) -> None:
        self._partition = partition
        self._epoch = partition.leader.epoch
        self._shard = shard
        self._buffer_bytes = buffer_bytes
        self._pending: dict[int, dict[bytes, bytes | None]] = {}  # by producer id
        self._records = 0

    async def run(self) -> Loaded:
        """Replay everything; `CorruptBatchError`, `UnreadableRecordError`, `ApiError` or `StorageError` if it fails."""
        loop = asyncio.get_running_loop()
        log = self._partition.log
        offset, end = log.log_start_offset, log.log_end_offset
        in_slice = 0
        while offset < end:
            found = log.read(offset, self._buffer_bytes, end_offset=end, min_one_batch=True)
            if found is None:
                break  # compaction may have left nothing at the end
            data = await loop.run_in_executor(None, found.file.read_at, found.size, found.position)
            self._check_leadership()
            for position, header in iter_headers(data):
                if header.last_offset < offset:
                    continue
                for record in self._records_of(data, position, header):
                    self._shard.replay(*record)
                    in_slice += 1
                    if in_slice >= _RECORDS_PER_SLICE:
                        in_slice = 0
                        await asyncio.sleep(0)
                        self._check_leadership()
                offset = header.next_offset
                in_slice += 1
        return Loaded(self._records, len(self._pending))

    def _check_leadership(self) -> None:
        if not self._partition.is_leader or self._partition.leader.epoch != self._epoch:
            raise LeadershipLostError

    def _records_of(self, data: Buffer, position: int, header: BatchHeader) -> Iterator[LogRecord]:
        """What takes effect with this batch."""
        if not check_crc(data, position, header):
            raise CorruptBatchError(f"the checksum of the batch at offset {header.base_offset} is wrong")
        batch = memoryview(data)[position : position + header.size_bytes]
        records = iter_keys_and_values(batch, header)
        self._records += header.record_count
        if header.is_control:
            yield from self._end_transaction(header.producer_id, records)
        elif header.is_transactional:
            pending = self._pending.setdefault(header.producer_id, {})
            pending.update((key, value) for key, value in records if key is not None)
        else:
            for key, value in records:
                if key is not None:
                    for pending in self._pending.values():
                        pending.pop(key, None)
                    yield LogRecord(key, value)

    def _end_transaction(
        self, producer_id: int, markers: Iterator[tuple[bytes | None, bytes | None]]
    ) -> Iterator[LogRecord]:
        for key, _ in markers:
            pending = self._pending.pop(producer_id, {})
            if key is not None and len(key) >= _MARKER.size and _MARKER.unpack_from(key)[1] == _COMMIT:
                yield from (LogRecord(*record) for record in pending.items())
