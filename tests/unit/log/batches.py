"""Batches for tests of the log, as the network layer would hand them over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bifrost.log.config import LogConfig
from bifrost.log.disk import Disk
from bifrost.log.partition_log import PartitionLog
from bifrost.log.slices import AppendResult
from bifrost.protocol.batch import BatchHeader, check_crc, iter_headers, read_header
from bifrost.protocol.records import Record, decode_batch, encode_batch
from bifrost.types import TopicPartition

PARTITION = TopicPartition("orders", 0)
DIRECTORY = "/data/orders-0"
NOW = 1_700_000_000_000


def produced(
    values: Sequence[bytes],
    *,
    timestamp: int = NOW,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
) -> tuple[memoryview, BatchHeader]:
    """A batch as a producer sends it, and its header."""
    data = encode_batch(
        [(timestamp, None, value, ()) for value in values],
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
    )
    return memoryview(data), read_header(data)


def replicated(base_offset: int, values: Sequence[bytes], *, leader_epoch: int = 0, timestamp: int = NOW) -> bytes:
    """A batch as a leader stored it."""
    records = [(timestamp, None, value, ()) for value in values]
    return bytes(encode_batch(records, base_offset=base_offset, leader_epoch=leader_epoch))


def append(
    log: PartitionLog,
    *values: bytes,
    leader_epoch: int = 0,
    timestamp: int = NOW,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
) -> AppendResult:
    batch, header = produced(
        values, timestamp=timestamp, producer_id=producer_id, producer_epoch=producer_epoch, sequence=sequence
    )
    return log.append(batch, header, leader_epoch=leader_epoch, now_ms=NOW)


def open_log(
    disk: Disk, config: LogConfig | None = None, *, clean: bool = False, recovery_point: int = 0, now_ms: int = NOW
) -> PartitionLog:
    return PartitionLog.open(
        disk,
        DIRECTORY,
        PARTITION,
        config or LogConfig(),
        clean=clean,
        recovery_point=recovery_point,
        now_ms=now_ms,
    )


class ChecksumError(Exception):
    """What a client raises on a batch whose CRC is wrong."""


def read_batches(log: PartitionLog, start: int, end: int, max_bytes: int = 1 << 20) -> Iterator[bytes]:
    """Whole batches from `start` to `end`, fetched and checked as a consumer does it."""
    offset = start
    while True:
        chunk = log.read(offset, max_bytes, end_offset=end, min_one_batch=True)
        if chunk is None:
            return
        data = chunk.file.read_at(chunk.size, chunk.position)
        previous = offset
        for position, header in iter_headers(data):
            if not check_crc(data, position, header):
                raise ChecksumError(f"offset {header.base_offset}")
            yield bytes(data[position : position + header.size_bytes])
            offset = header.next_offset
        assert offset > previous, "a fetch must make progress"


def read_records(log: PartitionLog, start: int | None = None, end: int | None = None) -> list[Record]:
    start = log.log_start_offset if start is None else start
    end = log.log_end_offset if end is None else end
    records = [record for batch in read_batches(log, start, end) for record in decode_batch(batch)]
    return [record for record in records if record.offset >= start]


def values_of(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in read_records(log)]
