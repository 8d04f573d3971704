"""A partition of `__consumer_offsets` on a disk in memory, with real waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bifrost.broker.waiters import Waiters
from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.router import OFFSETS_TOPIC
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import decode_batch, encode_batch
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.types import NodeId, TopicPartition

ME = NodeId(1)
NOW = 1_700_000_000_000


class FixedClock:
    """A wall clock that stands still."""

    def now_ms(self) -> int:
        return NOW


class LedPartition:
    """What is appended becomes safe when `sync` is called, as with a disk."""

    def __init__(self, index: int = 0, *, policy: FlushPolicy = FlushPolicy.ACK) -> None:
        self.waiters = Waiters(asyncio.get_running_loop())
        self.disk = MemoryDisk()
        tp = TopicPartition(OFFSETS_TOPIC, index)
        self.log = PartitionLog.open(
            self.disk, f"/{tp}", tp, LogConfig(), clean=False, recovery_point=0, now_ms=NOW, policy=policy
        )
        around = Surroundings(me=ME, wake=self.waiters.wake, nudge=self.waiters.nudge)
        self.partition = Partition(tp, self.log, around, min_insync_replicas=1)
        self.epoch = -1
        self.lead()

    def lead(self) -> None:
        """This node is elected, again."""
        self.epoch += 1
        self.partition.lead(self.epoch, (ME,), frozenset({ME}), self.epoch)

    def sync(self) -> None:
        """Everything written so far is on the disk."""
        self.log.flush()

    def append(self, *records: LogRecord, codec: Codec = Codec.NONE) -> None:
        """As a coordinator before this one wrote them."""
        batch = encode_batch([(NOW, key, value, ()) for key, value in records], codec=codec)
        self.partition.append_own(batch, now_ms=NOW)

    def append_of(self, producer_id: int, *records: LogRecord, control: bool = False) -> None:
        """A part of a transaction, as another leader wrote it before this node was elected."""
        batch = encode_batch(
            [(NOW, key, value, ()) for key, value in records],
            base_offset=self.log.log_end_offset,
            leader_epoch=self.epoch,
            producer_id=producer_id,
            producer_epoch=0,
            transactional=True,
            control=control,
        )
        self.log.append_replicated(memoryview(batch), NOW)
        self.lead()

    def records(self) -> list[LogRecord]:
        """All of the log."""
        return [LogRecord(key, value) for key, value in self._pairs() if key is not None]

    def _pairs(self) -> Iterable[tuple[bytes | None, bytes | None]]:
        for segment in self.log.segments:
            data = bytes(segment.file.read_at(segment.size, 0))
            for position, header in iter_headers(data):
                for record in decode_batch(data[position : position + header.size_bytes]):
                    yield record.key, record.value
