"""The kernels as numba compiles them: arrays are made here, and filled in `numba_code`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from bifrost.columnar.kernels import numba_code
from bifrost.columnar.kernels.interface import (
    BinaryColumn,
    Bytes,
    Fault,
    HeaderIndex,
    Index,
    Ints,
    MalformedError,
    Rows,
    Section,
    ShortInts,
    Slices,
    Wanted,
)

_NO_INTS: Final = np.empty(0, np.int64)
_NO_SHORTS: Final = np.empty(0, np.int32)
_NO_BYTES: Final = np.empty(0, np.uint8)
_NO_FLAGS: Final = np.empty(0, np.bool_)


class CompiledKernels:
    """See `interface.Kernels`."""

    name = "numba"

    def index(self, data: Bytes, sections: Ints, wanted: Wanted, start: int, end: int) -> Index:
        room = int(sections[:, Section.RECORDS].sum())
        offsets, timestamps = np.empty(room, np.int64), np.empty(room, np.int64)
        keys = _slices(room, Wanted.KEY in wanted)
        values = _slices(room, Wanted.VALUE in wanted)
        headers = _slices(room, Wanted.HEADERS in wanted)
        rows, section, fault = numba_code.index_records(
            data, sections, int(wanted), start, end, offsets, timestamps, *keys, *values, *headers
        )
        if fault:
            raise MalformedError(section, Fault(fault))
        return Index(
            rows,
            offsets[:rows],
            timestamps[:rows],
            _first(keys, rows) if Wanted.KEY in wanted else None,
            _first(values, rows) if Wanted.VALUE in wanted else None,
            _first(headers, rows) if Wanted.HEADERS in wanted else None,
        )

    def index_headers(self, data: Bytes, headers: Slices) -> HeaderIndex:
        offsets = np.zeros(len(headers.starts) + 1, np.int32)
        nothing = (_NO_INTS,) * 4
        count, row, fault = numba_code.index_headers(data, *headers, 0, offsets, *nothing)
        if fault:
            raise MalformedError(row, Fault(fault))
        names, values = _slices(count, True), _slices(count, True)
        if count:
            numba_code.index_headers(data, *headers, 1, offsets, *names, *values)
        return HeaderIndex(offsets, names, values)

    def gather(self, data: Bytes, slices: Slices) -> pa.Array:
        rows = len(slices.starts)
        present = slices.lengths >= 0
        nulls = rows - int(np.count_nonzero(present))
        lengths = np.maximum(slices.lengths, 0) if nulls else slices.lengths
        offsets, target = np.empty(rows + 1, np.int32), np.empty(int(lengths.sum()), np.uint8)
        numba_code.gather(data, slices.starts, lengths, offsets, target)
        validity = pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None
        return pa.Array.from_buffers(pa.binary(), rows, [validity, pa.py_buffer(offsets), pa.py_buffer(target)], nulls)

    def hash_keys(self, keys: BinaryColumn, partition_count: int, partitions: ShortInts) -> None:
        numba_code.hash_keys(keys.offsets, keys.data, keys.valid, partition_count, partitions)

    def encode(self, rows: Rows, order: Ints, base_timestamp_ms: int, target: Bytes) -> int:
        headers = rows.headers
        written: int = numba_code.encode_rows(
            order, base_timestamp_ms, _NO_INTS if rows.timestamps_ms is None else rows.timestamps_ms,
            *_buffers(rows.keys), *_buffers(rows.values),
            *(
                (_NO_SHORTS, *_buffers(None), *_buffers(None))
                if headers is None
                else (headers.offsets, *_buffers(headers.names), *_buffers(headers.values))
            ),
            target,
        )  # fmt: skip
        assert written >= 0, "the encoder makes room for the largest form of every record"
        return written


def _slices(room: int, wanted: bool) -> Slices:
    return Slices(np.empty(room, np.int64), np.empty(room, np.int64)) if wanted else Slices(_NO_INTS, _NO_INTS)


def _first(slices: Slices, rows: int) -> Slices:
    return Slices(slices.starts[:rows], slices.lengths[:rows])


def _buffers(column: BinaryColumn | None) -> tuple[Any, Any, Any]:
    return (_NO_SHORTS, _NO_BYTES, _NO_FLAGS) if column is None else (column.offsets, column.data, column.valid)
