"""Arrow to record batches: rows are given partitions, brought into their order, and written as whole batches.

Batches are cut by the most that their records can take, so that both kinds of kernels make the very same bytes. They
are complete, with a CRC; a producer that stamps its id and sequence into one computes it again.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from crc32c import crc32c

from bifrost.client.errors import InvalidRequestError
from bifrost.columnar import arrays
from bifrost.columnar.kernels import kernels
from bifrost.columnar.kernels.interface import BinaryColumn, Ints, Kernels, Rows, ShortInts
from bifrost.columnar.partitioning import Partitioner
from bifrost.protocol.batch import HEADER_BYTES, MAGIC
from bifrost.protocol.compression import Codec, compress

if TYPE_CHECKING:
    import pyarrow

BATCH_BYTES: Final = 512 << 10
"""Before compression. Half of what a topic takes by default, so that a batch that compresses badly still fits."""

_BEFORE_CRC: Final = struct.Struct(">qiib")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_CRC_START: Final = 17
_COVERED_START: Final = 21
_NO_PRODUCER: Final = -1
_JOBS_AHEAD: Final = 8


class Encoded(NamedTuple):
    """One record batch, as a producer sends it."""

    partition: int
    batch: bytearray
    records: int
    content_bytes: int
    """The records before compression."""
    first_row: int
    """Which row of the table it begins with, so that a failure can be told by it."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table are what; None: there is none. A value that is missing is null."""

    key: str | None = "key"
    value: str | None = "value"
    headers: str | None = None
    partition: str | None = None
    timestamp: str | None = None

    def named(self) -> Mapping[str, str | None]:
        return {
            "key": self.key,
            "value": self.value,
            "headers": self.headers,
            "partition": self.partition,
            "timestamp": self.timestamp,
        }


def encode(
    table: pyarrow.Table | pyarrow.RecordBatch,
    partitioner: Partitioner,
    *,
    now_ms: int,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    codec: Codec = Codec.NONE,
    batch_bytes: int = BATCH_BYTES,
    using: Kernels | None = None,
    pool: ThreadPoolExecutor | None = None,
) -> Iterator[Encoded]:
    """Every row in a batch of its partition; rows of one partition keep their order.

    A record that is larger than `batch_bytes` has a batch of its own. A row without a time of its own gets `now_ms`.
    With a pool, its threads encode and compress the batches that come next.
    """
    engine = using or kernels()
    _check(table, columns)
    rows = _rows(table, columns, now_ms)
    named = None
    if columns.partition is not None:
        array = arrays.one_array(table.column(columns.partition))
        named = arrays.partition_numbers(array, columns.partition, partitioner.partition_count)
    sizes = _sizes(rows, table.num_rows)
    partitions = partitioner.assign(engine, rows, named, sizes, batch_bytes)
    order = _by_partition(partitions, partitioner.partition_count)
    edges = np.searchsorted(partitions[order], np.arange(partitioner.partition_count + 1))
    jobs = (
        partial(_batch, engine, rows, partition, chosen, int(sizes[chosen].sum()), now_ms, codec)
        for partition, (first, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist()))
        for chosen in _cuts(order[first:end], sizes, batch_bytes - HEADER_BYTES)
    )
    yield from (job() for job in jobs) if pool is None else _ahead(pool, jobs)


def _ahead(pool: ThreadPoolExecutor, jobs: Iterator[Callable[[], Encoded]]) -> Iterator[Encoded]:
    """The results in order, a few of them made before they are asked for."""
    under_way: deque[Future[Encoded]] = deque()
    for job in jobs:
        under_way.append(pool.submit(job))
        if len(under_way) >= _JOBS_AHEAD:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def _rows(table: pyarrow.Table | pyarrow.RecordBatch, columns: Columns, now_ms: int) -> Rows:
    def taken(name: str | None) -> tuple[pyarrow.Array, str] | None:
        return None if name is None else (arrays.one_array(table.column(name)), name)

    key, value, headers, timestamp = map(taken, (columns.key, columns.value, columns.headers, columns.timestamp))
    return Rows(
        keys=arrays.binary_column(*key) if key else None,
        values=arrays.binary_column(*value) if value else None,
        headers=arrays.header_column(*headers) if headers else None,
        timestamps_ms=arrays.timestamps_ms(*timestamp, now_ms) if timestamp else None,
    )


def _check(table: pyarrow.Table | pyarrow.RecordBatch, columns: Columns) -> None:
    for role, name in columns.named().items():
        if name is not None and table.schema.get_field_index(name) < 0:
            raise InvalidRequestError(
                f"the table has no column {name} for {role}, or several",
                f"Its columns are {', '.join(table.schema.names)}.",
            )


def _by_partition(partitions: ShortInts, partition_count: int) -> Ints:
    """The rows of the first partition, then those of the next, each in their own order."""
    if partition_count == 1:
        return np.arange(len(partitions))
    small = partitions.astype(np.uint16) if partition_count <= 1 << 16 else partitions  # numpy sorts these by radix
    return np.argsort(small, kind="stable").astype(np.int64)


def _sizes(rows: Rows, count: int) -> Ints:
    """The most that each record can take: its bytes, and its numbers as long as the longest of them."""
    keys, values = _lengths(rows.keys, count), _lengths(rows.values, count)
    contents = keys + values
    if rows.headers is not None:
        each = _lengths(rows.headers.names, len(rows.headers.names.array))
        each = each + _lengths(rows.headers.values, len(rows.headers.values.array))
        ends = np.zeros(len(each) + 1, np.int64)
        np.cumsum(each + 2 * _varint_size(int(each.max(initial=0))), out=ends[1:])
        contents = contents + np.diff(ends[rows.headers.offsets]) + _varint_size(len(each))
    times = rows.timestamps_ms
    span = int(times.max()) - int(times.min()) if times is not None and len(times) else 0
    numbers = 1 + _varint_size(span) + _varint_size(count) + 1
    numbers += _varint_size(int(keys.max(initial=0))) + _varint_size(int(values.max(initial=0)))
    contents = contents + numbers
    return contents + _varint_size(int(contents.max(initial=0)))


def _lengths(column: BinaryColumn | None, count: int) -> Ints:
    return np.zeros(count, np.int64) if column is None else np.diff(column.offsets).astype(np.int64)


def _varint_size(number: int) -> int:
    return ((number << 1).bit_length() + 6) // 7 or 1


def _cuts(order: Ints, sizes: Ints, room: int) -> Iterator[Ints]:
    """As many rows at a time as fit."""
    reached = np.cumsum(sizes[order])
    first = 0
    while first < len(order):
        before = int(reached[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(reached, before + room, side="right")))
        yield order[first:end]
        first = end


def _batch(engine: Kernels, rows: Rows, partition: int, order: Ints, room: int, now_ms: int, codec: Codec) -> Encoded:
    times = None if rows.timestamps_ms is None else rows.timestamps_ms[order]
    base, latest = (now_ms, now_ms) if times is None else (int(times[0]), int(times.max()))
    batch = bytearray(HEADER_BYTES + room)
    target = np.frombuffer(batch, np.uint8)[HEADER_BYTES:]
    written = engine.encode(rows, order, base, target)
    del target  # a bytearray that is looked at cannot be cut
    del batch[HEADER_BYTES + written :]
    if codec != Codec.NONE:
        batch[HEADER_BYTES:] = compress(codec, memoryview(batch)[HEADER_BYTES:])
    count = len(order)
    _BEFORE_CRC.pack_into(batch, 0, 0, len(batch) - 12, -1, MAGIC)
    _AFTER_CRC.pack_into(
        batch, _COVERED_START, codec, count - 1, base, latest, _NO_PRODUCER, _NO_PRODUCER, _NO_PRODUCER, count
    )
    struct.pack_into(">I", batch, _CRC_START, crc32c(memoryview(batch)[_COVERED_START:]))
    return Encoded(partition, batch, count, written, int(order[0]))
