"""Which batches of what was fetched hold rows, checked and decompressed: everything that is done once per batch.

Checked here: the header, the CRC, that the records fit the bytes, and that what is compressed stays within a bound.
Left out are batches outside of the range, those of brokers (control batches), and those of transactions that were
aborted. A batch that is cut off at the end is no error: a broker cuts its answer where it is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bifrost.columnar.errors import CorruptBatch
from bifrost.columnar.kernels.interface import RECORD_BYTES_MIN, Bytes, Ints
from bifrost.protocol.batch import HEADER_BYTES, BatchHeader, CorruptBatchError, check_crc, read_header
from bifrost.protocol.compression import Codec, decompress
from bifrost.protocol.records import DECOMPRESSED_BYTES_MAX, decode_batch
from bifrost.protocol.wire import Buffer

CHUNK_BYTES: Final = 32 << 20
"""What is decoded at a time, unless one batch is larger. What was compressed may be many times what was fetched."""

_OFFSET_MAX: Final = 2**63 - 2**32  # base and delta never overflow
_ABORT: Final = 0
_END: Final = 2**63 - 1


@dataclass(slots=True)
class Chunk:
    """Records of several batches, ready for a kernel."""

    data: Bytes
    sections: Ints
    """One row per batch: `kernels.interface.Section`."""
    headers: list[BatchHeader]


@dataclass(slots=True)
class BatchScanner:
    """Goes through what was fetched of one partition."""

    topic: str
    partition: int
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    """What one batch may decompress to."""

    def chunks(
        self, data: Buffer, start: int = 0, end: int | None = None, aborted: Iterable[tuple[int, int]] = ()
    ) -> Iterator[Chunk]:
        """`aborted` is what the broker's answer says: the producer and the first offset of each aborted transaction."""
        transactions = _Aborted(aborted)
        view = memoryview(data).cast("B")
        gathered = _Gathered(view)
        for position, header in self._headers(view, start):
            if header.last_offset < start:
                continue
            if header.base_offset >= (_END if end is None else end):
                break
            if not check_crc(view, position, header):
                raise self._corrupt(header, "its checksum is wrong")
            payload = view[position + HEADER_BYTES : position + header.size_bytes]
            try:
                if transactions.leave_out(header, view[position : position + header.size_bytes]):
                    continue
                records = self._records(header, payload)
            except CorruptBatchError as error:
                raise self._corrupt(header, str(error)) from error
            gathered.add(header, position + HEADER_BYTES, records, is_copy=header.codec != Codec.NONE)
            if gathered.size_bytes >= CHUNK_BYTES:
                yield gathered.chunk()
                gathered = _Gathered(view)
        if gathered.headers:
            yield gathered.chunk()

    def _headers(self, view: memoryview, start: int) -> Iterator[tuple[int, BatchHeader]]:
        position = 0
        expected = start
        while len(view) - position >= HEADER_BYTES:
            try:
                header = read_header(view, position)
            except CorruptBatchError as error:
                raise CorruptBatch(self.topic, self.partition, expected, str(error)) from error
            following = position + header.size_bytes
            if following > len(view):
                return
            if not 0 <= header.base_offset <= _OFFSET_MAX or header.last_offset_delta < 0:
                raise CorruptBatch(self.topic, self.partition, expected, "its offsets are out of range")
            yield position, header
            position, expected = following, header.next_offset

    def _records(self, header: BatchHeader, payload: memoryview) -> Buffer:
        """The records as they were before compression, if there can be as many of them as the header says."""
        if header.codec > Codec.ZSTD:
            raise CorruptBatchError(f"codec {header.codec} is not known")
        records: Buffer = payload
        if header.codec != Codec.NONE:
            records = decompress(Codec(header.codec), payload, self.decompressed_bytes_max)
        if not 0 <= header.record_count <= len(records) // RECORD_BYTES_MIN:
            raise CorruptBatchError(f"{header.record_count} records in {len(records)} bytes")
        return records

    def _corrupt(self, header: BatchHeader, reason: str) -> CorruptBatch:
        return CorruptBatch(self.topic, self.partition, header.base_offset, reason, next_offset=header.next_offset)


class _Aborted:
    """Which producers are in a transaction that was aborted, at the batch that is looked at (Kafka: CompletedFetch)."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda each: each[1]))
        self._producers: set[int] = set()

    def leave_out(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._ahead and self._ahead[0][1] <= header.last_offset:
            self._producers.add(self._ahead.popleft()[0])
        if header.is_control:
            if header.producer_id in self._producers and _is_abort(batch):
                self._producers.remove(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._producers


def _is_abort(batch: memoryview) -> bool:
    """Whether the marker ends a transaction by an abort: version and type are the two numbers of its key."""
    for record in decode_batch(batch):
        if record.key is None or len(record.key) < 4:
            raise CorruptBatchError("a control record without a type")
        return int.from_bytes(record.key[2:4], "big") == _ABORT
    return False


@dataclass(slots=True)
class _Gathered:
    """Batches that will be decoded together."""

    fetched: memoryview
    headers: list[BatchHeader] = field(default_factory=list)
    size_bytes: int = 0
    _records: list[Buffer] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _copies: bool = False

    def add(self, header: BatchHeader, start: int, records: Buffer, *, is_copy: bool) -> None:
        self.headers.append(header)
        self._records.append(records)
        self._starts.append(start)
        self._copies |= is_copy
        self.size_bytes += len(records)

    def chunk(self) -> Chunk:
        starts = self._starts
        source: Buffer = self.fetched
        if self._copies:
            source = self._records[0] if len(self._records) == 1 else b"".join(self._records)
            starts = [0] * len(self._records)
            for index in range(1, len(starts)):
                starts[index] = starts[index - 1] + len(self._records[index - 1])
        rows = [
            (
                start,
                start + len(records),
                header.record_count,
                header.base_offset,
                header.max_timestamp if header.is_append_time else header.base_timestamp,
                header.is_append_time,
                0,
            )
            for start, records, header in zip(starts, self._records, self.headers)
        ]
        return Chunk(np.frombuffer(source, np.uint8), np.array(rows, np.int64), self.headers)
