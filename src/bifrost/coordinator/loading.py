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
from typing import Final, NamedTuple

from bifrost.coordinator.core.shard import GroupShard
from bifrost.protocol.batch import BatchHeader, CorruptBatchError, check_crc, iter_headers
from bifrost.protocol.records import keys_and_values
from bifrost.protocol.wire import Buffer
from bifrost.replication.partition import Partition

_RECORDS_PER_SLICE: Final = 400
_BATCH_IN_RECORDS: Final = 3  # what a batch costs beyond its records
_MARKER = struct.Struct(">hh")
_COMMIT: Final = 1

_Pair = tuple[bytes, bytes | None]


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
                records = self._effective(data, position, header)
                for start in range(0, len(records), _RECORDS_PER_SLICE):
                    part = records[start : start + _RECORDS_PER_SLICE]
                    self._shard.replay(part)
                    in_slice += len(part)
                    if in_slice >= _RECORDS_PER_SLICE:
                        in_slice = 0
                        await asyncio.sleep(0)
                        self._check_leadership()
                offset = header.next_offset
                in_slice += _BATCH_IN_RECORDS
        return Loaded(self._records, len(self._pending))

    def _check_leadership(self) -> None:
        if not self._partition.is_leader or self._partition.leader.epoch != self._epoch:
            raise LeadershipLostError

    def _effective(self, data: Buffer, position: int, header: BatchHeader) -> list[_Pair]:
        """The records that take effect with this batch."""
        if not check_crc(data, position, header):
            raise CorruptBatchError(f"the checksum of the batch at offset {header.base_offset} is wrong")
        found = keys_and_values(memoryview(data)[position : position + header.size_bytes], header)
        records = [(key, value) for key, value in found if key is not None]
        self._records += len(records)
        if header.is_control:
            return self._end_transaction(header.producer_id, records)
        if header.is_transactional:
            self._pending.setdefault(header.producer_id, {}).update(records)
            return []
        for pending in self._pending.values():
            for key, _ in records:
                pending.pop(key, None)
        return records

    def _end_transaction(self, producer_id: int, markers: list[_Pair]) -> list[_Pair]:
        pending = self._pending.pop(producer_id, {})
        committed = any(len(key) >= _MARKER.size and _MARKER.unpack_from(key)[1] == _COMMIT for key, _ in markers)
        return list(pending.items()) if committed else []
