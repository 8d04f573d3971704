"""The kernels where numba is not installed: whole columns at a time with numpy and pyarrow.

It is ten to twenty times slower than compiled code, and still faster than a loop over records.

Only the lengths of records, each of which says where the next one starts, have to be walked one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bifrost.columnar.kernels.interface import (
    MILLIS_MAX,
    BinaryColumn,
    Bytes,
    Fault,
    Flags,
    HeaderColumn,
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
from bifrost.protocol.partitioners import partition_for_key

_VARINT_BYTES_MAX: Final = 10
_LONG_KEY_BYTES: Final = 1024  # hashed one by one: a step of numpy for each of its words would take longer
_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_EMPTY: Final = pa.scalar(b"", pa.binary())


class VectorisedKernels:
    """See `interface.Kernels`."""

    name = "numpy"

    def index(self, data: Bytes, sections: Ints, wanted: Wanted, start: int, end: int) -> Index:
        starts, stops, fault, whole = _walk(data, sections)
        section_of = np.repeat(np.arange(len(sections)), sections[:, Section.RECORDS])[: len(starts)]
        cursor = _Cursor(data, starts + 1, stops, section_of)
        deltas = cursor.number()
        offset_deltas = cursor.number()
        cursor.refuse((offset_deltas < -(2**31)) | (offset_deltas >= 2**31), Fault.OFFSET_DELTA)
        keys = cursor.field() if wanted else None
        values = cursor.field() if wanted & (Wanted.VALUE | Wanted.HEADERS) else None
        cursor.told()
        if fault:
            raise MalformedError(whole, fault)
        offsets = sections[section_of, Section.BASE_OFFSET] + offset_deltas
        inside = (offsets >= start) & (offsets < end)
        sections[:, Section.ROWS] = np.bincount(section_of[inside], minlength=len(sections))
        deltas[sections[section_of, Section.APPEND_TIME] != 0] = 0
        times = np.clip(sections[section_of, Section.BASE_TIMESTAMP] + deltas, -MILLIS_MAX, MILLIS_MAX) * 1000
        headers = Slices(cursor.positions, stops - cursor.positions)
        return Index(
            int(np.count_nonzero(inside)),
            offsets[inside],
            times[inside],
            _only(keys, inside) if Wanted.KEY in wanted else None,
            _only(values, inside) if Wanted.VALUE in wanted else None,
            _only(headers, inside) if Wanted.HEADERS in wanted else None,
        )

    def index_headers(self, data: Bytes, headers: Slices) -> HeaderIndex:
        cursor = _Cursor(data, headers.starts, headers.starts + headers.lengths, np.arange(len(headers.starts)))
        counts = cursor.number()
        cursor.refuse((counts < 0) | (counts > (cursor.stops - cursor.positions) // 2), Fault.HEADERS)
        cursor.told()
        offsets = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        names, values = _empty_slices(int(offsets[-1])), _empty_slices(int(offsets[-1]))
        rows = np.flatnonzero(counts)
        for nth in range(int(counts.max(initial=0))):  # the nth header of every row that has so many
            rows = rows[counts[rows] > nth]
            each = _Cursor(data, cursor.positions[rows], cursor.stops[rows], rows)
            name = each.field()
            each.refuse(name.lengths < 0, Fault.FIELD_LENGTH)
            value = each.field()
            each.told()
            places = offsets[rows] + nth
            names.starts[places], names.lengths[places] = name
            values.starts[places], values.lengths[places] = value
            cursor.positions[rows] = each.positions
        cursor.refuse(cursor.positions != cursor.stops, Fault.STRAY_BYTES)
        cursor.told()
        return HeaderIndex(offsets, names, values)

    def gather(self, data: Bytes, slices: Slices) -> pa.Array:
        """Values and the gaps between them as one array, of which every second element is taken."""
        rows = len(slices.starts)
        present = slices.lengths >= 0
        edges = np.empty(2 * rows + 1, np.int32)
        edges[0:-1:2] = slices.starts
        edges[1::2] = slices.starts + np.maximum(slices.lengths, 0)
        edges[-1] = edges[-2] if rows else 0
        between = pa.Array.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(edges), pa.py_buffer(data)])
        dense = between.take(pa.array(np.arange(0, 2 * rows, 2)))
        _, offsets, contents = dense.buffers()
        nulls = rows - int(np.count_nonzero(present))
        validity = pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None
        return pa.Array.from_buffers(pa.binary(), rows, [validity, offsets, contents], nulls)

    def hash_keys(self, keys: BinaryColumn, partition_count: int, partitions: ShortInts) -> None:
        starts, lengths = keys.offsets[:-1].astype(np.int64), np.diff(keys.offsets).astype(np.int64)
        present = keys.valid if len(keys.valid) else np.ones(len(lengths), np.bool_)
        for row in np.flatnonzero(present & (lengths > _LONG_KEY_BYTES)):
            key = keys.data[starts[row] : starts[row] + lengths[row]].tobytes()
            partitions[row] = partition_for_key(key, partition_count)
        short = np.flatnonzero(present & (lengths <= _LONG_KEY_BYTES))
        hashed = _murmur2(keys.data, starts[short], lengths[short])
        partitions[short] = (hashed & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)

    def encode(self, rows: Rows, order: Ints, base_timestamp_ms: int, target: Bytes) -> int:
        nothing = np.zeros(len(order), np.int64)
        deltas = nothing if rows.timestamps_ms is None else rows.timestamps_ms[order] - base_timestamp_ms
        chosen = pa.array(order)
        parts = [
            pa.repeat(pa.scalar(b"\0", pa.binary()), len(order)),  # attributes, of which there are none
            _varints(deltas),
            _varints(np.arange(len(order))),
            *_fields(rows.keys, chosen),
            *_fields(rows.values, chosen),
            *((_varints(nothing),) if rows.headers is None else _header_parts(rows.headers, order)),
        ]
        records = pc.binary_join_element_wise(*parts, _EMPTY)
        lengths = pc.binary_length(records).to_numpy().astype(np.int64)
        framed = pc.binary_join_element_wise(_varints(lengths), records, _EMPTY)
        written = np.frombuffer(framed.buffers()[2], np.uint8)[: int(pc.sum(pc.binary_length(framed)).as_py())]
        target[: len(written)] = written
        return len(written)


class _Cursor:
    """Reads the same kind of field from many records at once, and remembers the first of them that is malformed."""

    def __init__(self, data: Bytes, positions: Ints, stops: Ints, places: Ints) -> None:
        self._data = data
        self.positions = positions.copy()
        self.stops = stops
        self._places = places
        self._refused: tuple[int, Fault] | None = None

    def number(self) -> Ints:
        """A varint of each record."""
        coded = np.zeros(len(self.positions), np.uint64)
        live = np.arange(len(self.positions))
        for index in range(_VARINT_BYTES_MAX):
            reached = self.positions[live]
            inside = reached < self.stops[live]
            if not inside.all():
                self._refuse_rows(live[~inside], Fault.NUMBER)
                live, reached = live[inside], reached[inside]
            byte = self._data[reached]
            self.positions[live] = reached + 1
            coded[live] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * index)
            live = live[byte >= 0x80]
            if not len(live):
                break
        self._refuse_rows(live, Fault.NUMBER)
        return (coded >> np.uint64(1)).astype(np.int64) ^ -(coded & np.uint64(1)).astype(np.int64)

    def field(self) -> Slices:
        """A length, and behind it so many bytes."""
        lengths = self.number()
        too_long = lengths > self.stops - self.positions
        self.refuse(too_long, Fault.FIELD_LENGTH)
        starts = self.positions.copy()
        self.positions += np.where(too_long, 0, np.maximum(lengths, 0))
        return Slices(starts, lengths)

    def refuse(self, bad: Flags, fault: Fault) -> None:
        self._refuse_rows(np.flatnonzero(bad), fault)

    def told(self) -> None:
        """Raises what was found, if anything was."""
        if self._refused is not None:
            row, fault = self._refused
            raise MalformedError(int(self._places[row]), fault)

    def _refuse_rows(self, rows: Ints, fault: Fault) -> None:
        if len(rows) and (self._refused is None or rows[0] < self._refused[0]):
            self._refused = int(rows[0]), fault


def _walk(data: Bytes, sections: Ints) -> tuple[Ints, Ints, Fault, int]:
    """Start and stop of every record; or those before the first malformed section, the fault and the section."""
    starts: list[int] = []
    stops: list[int] = []
    view = data.data
    for number, (start, stop, records) in enumerate(sections[:, : Section.RECORDS + 1].tolist()):
        position = start
        whole = len(starts)
        fault = Fault.NONE
        for _ in range(records):
            # Nearly every record is shorter than 8 kB, and its length is one byte or two
            if stop - position < 2:
                coded, position = -1, stop
            elif (low := view[position]) < 0x80:
                coded, position = low, position + 1
            elif (high := view[position + 1]) < 0x80:
                coded, position = (low & 0x7F) | high << 7, position + 2
            else:
                coded, position = _read_coded(view, position, stop)
            if coded & 1 or not 2 <= coded <= (stop - position) << 1:
                fault = Fault.RECORD_LENGTH
                break
            starts.append(position)
            position += coded >> 1
            stops.append(position)
        if not fault and position != stop:
            fault = Fault.STRAY_BYTES
        if fault:
            return np.array(starts[:whole], np.int64), np.array(stops[:whole], np.int64), fault, number
    return np.array(starts, np.int64), np.array(stops, np.int64), Fault.NONE, len(sections)


def _read_coded(view: memoryview, position: int, stop: int) -> tuple[int, int]:
    """A varint in zig-zag form, where negative numbers are odd, and the position behind it; -1 if it has no end."""
    coded = shift = 0
    for byte in view[position : min(stop, position + _VARINT_BYTES_MAX)]:
        position += 1
        coded |= (byte & 0x7F) << shift
        if byte < 0x80:
            return coded & (2**64 - 1), position
        shift += 7
    return -1, stop


def _only(slices: Slices | None, inside: Flags) -> Slices | None:
    return None if slices is None else Slices(slices.starts[inside], slices.lengths[inside])


def _empty_slices(room: int) -> Slices:
    return Slices(np.empty(room, np.int64), np.empty(room, np.int64))


def _murmur2(data: Bytes, starts: Ints, lengths: Ints) -> Any:
    """MurmurHash2 of many keys at once, a word of all of them at a time (Kafka: Utils.murmur2)."""
    hashed = _SEED ^ lengths.astype(np.uint32)
    for word in range(int(lengths.max(initial=0)) // 4):
        live = np.flatnonzero(lengths >= 4 * (word + 1))
        mixed = _little_endian(data, starts[live] + 4 * word, 4) * _MULTIPLIER
        mixed = (mixed ^ (mixed >> np.uint32(24))) * _MULTIPLIER
        hashed[live] = (hashed[live] * _MULTIPLIER) ^ mixed
    for rest in (1, 2, 3):
        live = np.flatnonzero(lengths % 4 == rest)
        tail = _little_endian(data, starts[live] + lengths[live] - rest, rest)
        hashed[live] = (hashed[live] ^ tail) * _MULTIPLIER
    hashed = (hashed ^ (hashed >> np.uint32(13))) * _MULTIPLIER
    return hashed ^ (hashed >> np.uint32(15))


def _little_endian(data: Bytes, positions: Ints, size: int) -> Any:
    number = np.zeros(len(positions), np.uint32)
    for index in range(size):
        number |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return number


def _varints(values: Ints) -> pa.Array:
    """Every number as the bytes of its zig-zag varint."""
    coded = (values.astype(np.uint64) << np.uint64(1)) ^ (values >> 63).astype(np.uint64)
    shifts = np.arange(_VARINT_BYTES_MAX, dtype=np.uint64) * np.uint64(7)
    groups = coded[:, None] >> shifts
    used = groups != 0
    used[:, 0] = True
    sizes = used.sum(axis=1)
    encoded = (groups & np.uint64(0x7F)).astype(np.uint8)
    encoded[:, :-1] |= np.where(used[:, 1:], np.uint8(0x80), np.uint8(0))
    return _binary(encoded[used], sizes)


def _binary(data: Any, sizes: Any) -> pa.Array:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _fields(column: BinaryColumn | None, chosen: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Lengths and bytes of the rows that were chosen; null has the length -1 and no bytes."""
    if column is None:
        return _varints(np.full(len(chosen), -1)), pa.repeat(_EMPTY, len(chosen))
    taken = column.array.take(chosen)
    lengths = pc.fill_null(pc.binary_length(taken), -1).to_numpy().astype(np.int64)
    return _varints(lengths), pc.fill_null(taken, _EMPTY)


def _header_parts(headers: HeaderColumn, order: Ints) -> tuple[pa.Array, pa.Array]:
    """The count of headers of each row, and all of them as bytes: those of a row lie behind each other."""
    every = pa.array(np.arange(len(headers.names.array)))
    items = pc.binary_join_element_wise(*_fields(headers.names, every), *_fields(headers.values, every), _EMPTY)
    ends = np.zeros(len(items) + 1, np.int32)
    np.cumsum(pc.binary_length(items).to_numpy(), out=ends[1:])
    edges = ends[headers.offsets]
    contents = items.buffers()[2] if len(items) else pa.py_buffer(b"")
    whole = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), contents])
    return _varints(np.diff(headers.offsets)[order].astype(np.int64)), whole.take(pa.array(order))
