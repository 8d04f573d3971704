"""The kernels that numba compiles. Numbers in, numbers out: no Python object is touched, so they run without the GIL.

Compiled code does not check indexes, so this file does: no byte is read before its position was compared with the end
of what it belongs to, and no column is written beyond what its caller made room for. All of it is one file because
numba's cache looks at the file of a function, never at those that the function calls.

Signatures are explicit: everything is compiled when this module is imported, or comes from the cache, and arrays that
may not be written to (those of Arrow, and whatever was decompressed) are no reason for a second compilation.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from bifrost.columnar.kernels.interface import MILLIS_MAX, Fault

_BYTES_IN = types.Array(types.uint8, 1, "C", readonly=True)
_FLAGS_IN = types.Array(types.boolean, 1, "C", readonly=True)
_SHORTS_IN = types.Array(types.int32, 1, "C", readonly=True)
_INTS_IN = types.Array(types.int64, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C")
_SHORTS = types.Array(types.int32, 1, "C")
_INTS = types.Array(types.int64, 1, "C")
_TABLE = types.Array(types.int64, 2, "C")
_INT = types.int64

# numba freezes what a kernel reads of a module, and an enum would cost it seconds
_RECORD_LENGTH = int(Fault.RECORD_LENGTH)
_NUMBER = int(Fault.NUMBER)
_OFFSET_DELTA = int(Fault.OFFSET_DELTA)
_FIELD_LENGTH = int(Fault.FIELD_LENGTH)
_HEADERS = int(Fault.HEADERS)
_STRAY_BYTES = int(Fault.STRAY_BYTES)
_WANT_KEY, _WANT_VALUE, _WANT_HEADERS = 1, 2, 4
_INT32_MAX = 2**31 - 1
_MILLIS_MAX = MILLIS_MAX
_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)

_compiled = {"cache": True, "nogil": True}


@intrinsic
def _copy(_, target, target_start, source, source_start, count):
    """memcpy between arrays of bytes: several times as fast as assigning slices of arrays."""
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        to, to_start, of, of_start, size = arguments
        to_data = context.make_array(signature.args[0])(context, builder, to).data
        of_data = context.make_array(signature.args[2])(context, builder, of).data
        cgutils.raw_memcpy(
            builder, builder.gep(to_data, [to_start]), builder.gep(of_data, [of_start]), size, itemsize=1
        )
        return context.get_dummy_value()

    return signature, generate


@njit(**_compiled)
def _read(data, position, stop):
    """A zig-zag varint of at most ten bytes, and the position behind it: -1 if it does not end before `stop`."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while position < stop and shift < np.uint64(70):
        byte = np.uint64(data[position])
        position += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit(
    types.UniTuple(_INT, 3)(
        _BYTES_IN, _TABLE, _INT, _INT, _INT, _INTS, _INTS, _INTS, _INTS, _INTS, _INTS, _INTS, _INTS
    ),
    **_compiled,
)
def index_records(
    data, sections, wanted, start, end,
    offsets, timestamps, key_starts, key_lengths, value_starts, value_lengths, header_starts, header_lengths,
):  # fmt: skip
    """The rows found, the section that is malformed and why, as numbers of `Fault`.

    `offsets` and `timestamps` have room for every record; the others as well, if their column is wanted.
    """
    row = 0
    for section in range(sections.shape[0]):
        position, stop, records = sections[section, 0], sections[section, 1], sections[section, 2]
        base_offset, base_timestamp, append_time = sections[section, 3], sections[section, 4], sections[section, 5]
        before = row
        for _ in range(records):
            length, position = _read(data, position, stop)
            if position < 0 or length < 1 or length > stop - position:
                return row, section, _RECORD_LENGTH
            record_stop = position + length
            timestamp, position = _read(data, position + 1, record_stop)
            if position < 0:
                return row, section, _NUMBER
            delta, position = _read(data, position, record_stop)
            if position < 0:
                return row, section, _NUMBER
            if delta < -_INT32_MAX - 1 or delta > _INT32_MAX:
                return row, section, _OFFSET_DELTA
            offset = base_offset + delta
            inside = start <= offset < end
            if wanted != 0:
                length, position = _read(data, position, record_stop)
                if position < 0:
                    return row, section, _NUMBER
                if length > record_stop - position:
                    return row, section, _FIELD_LENGTH
                if inside and wanted & _WANT_KEY:
                    key_starts[row] = position
                    key_lengths[row] = length
                if length > 0:
                    position += length
            if wanted & (_WANT_VALUE | _WANT_HEADERS):
                length, position = _read(data, position, record_stop)
                if position < 0:
                    return row, section, _NUMBER
                if length > record_stop - position:
                    return row, section, _FIELD_LENGTH
                if inside and wanted & _WANT_VALUE:
                    value_starts[row] = position
                    value_lengths[row] = length
                if length > 0:
                    position += length
                if inside and wanted & _WANT_HEADERS:
                    header_starts[row] = position
                    header_lengths[row] = record_stop - position
            if inside:
                offsets[row] = offset
                if append_time:
                    timestamp = np.int64(0)
                timestamps[row] = min(max(base_timestamp + timestamp, -_MILLIS_MAX), _MILLIS_MAX) * 1000
                row += 1
            position = record_stop
        if position != stop:
            return row, section, _STRAY_BYTES
        sections[section, 6] = row - before
    return row, np.int64(-1), np.int64(0)


@njit(types.UniTuple(_INT, 3)(_BYTES_IN, _INTS_IN, _INTS_IN, _INT, _SHORTS, _INTS, _INTS, _INTS, _INTS), **_compiled)
def index_headers(data, starts, lengths, fill, offsets, name_starts, name_lengths, value_starts, value_lengths):
    """The headers found, the row whose headers are malformed and why. Without `fill` it only counts and checks."""
    found = 0
    for row in range(starts.shape[0]):
        stop = starts[row] + lengths[row]
        count, position = _read(data, starts[row], stop)
        if position < 0:
            return found, np.int64(row), _NUMBER
        if count < 0 or count > (stop - position) // 2 or found + count > _INT32_MAX:
            return found, np.int64(row), _HEADERS
        for _ in range(count):
            length, position = _read(data, position, stop)
            if position < 0:
                return found, np.int64(row), _NUMBER
            if length < 0 or length > stop - position:
                return found, np.int64(row), _FIELD_LENGTH
            if fill:
                name_starts[found] = position
                name_lengths[found] = length
            position += length
            length, position = _read(data, position, stop)
            if position < 0:
                return found, np.int64(row), _NUMBER
            if length > stop - position:
                return found, np.int64(row), _FIELD_LENGTH
            if fill:
                value_starts[found] = position
                value_lengths[found] = length
            if length > 0:
                position += length
            found += 1
        if position != stop:
            return found, np.int64(row), _STRAY_BYTES
        if fill:
            offsets[row + 1] = found
    return found, np.int64(-1), np.int64(0)


@njit(types.void(_BYTES_IN, _INTS_IN, _INTS_IN, _SHORTS, _BYTES), **_compiled)
def gather(data, starts, lengths, offsets, target):
    """Copies the slices one behind the other; `target` has room for exactly all of them."""
    position = np.int64(0)
    offsets[0] = 0
    for row in range(starts.shape[0]):
        length = lengths[row]
        if length > 0:
            _copy(target, position, data, starts[row], length)
            position += length
        offsets[row + 1] = position


@njit(**_compiled)
def _murmur2(data, start, length):
    """MurmurHash2 as Kafka's Java client computes it (Kafka: Utils.murmur2)."""
    hashed = np.uint32(_SEED ^ np.uint32(length))
    position = start
    for _ in range(length // 4):
        word = np.uint32(data[position])
        word |= np.uint32(data[position + 1]) << np.uint32(8)
        word |= np.uint32(data[position + 2]) << np.uint32(16)
        word |= np.uint32(data[position + 3]) << np.uint32(24)
        word = np.uint32(word * _MULTIPLIER)
        word = np.uint32((word ^ (word >> np.uint32(24))) * _MULTIPLIER)
        hashed = np.uint32(np.uint32(hashed * _MULTIPLIER) ^ word)
        position += 4
    rest = length % 4
    if rest > 0:
        word = np.uint32(0)
        for index in range(rest):
            word |= np.uint32(data[position + index]) << np.uint32(8 * index)
        hashed = np.uint32((hashed ^ word) * _MULTIPLIER)
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(13))) * _MULTIPLIER)
    return np.uint32(hashed ^ (hashed >> np.uint32(15)))


@njit(types.void(_SHORTS_IN, _BYTES_IN, _FLAGS_IN, _INT, _SHORTS), **_compiled)
def hash_keys(offsets, data, valid, partition_count, partitions):
    """The partition of each row that has a key; other rows keep theirs."""
    for row in range(partitions.shape[0]):
        if valid.shape[0] == 0 or valid[row]:
            hashed = _murmur2(data, np.int64(offsets[row]), np.int64(offsets[row + 1] - offsets[row]))
            partitions[row] = np.int64(hashed & np.uint32(0x7FFFFFFF)) % partition_count


@njit(**_compiled)
def _coded(value):
    """The zig-zag form of a number."""
    return (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)


@njit(**_compiled)
def _size(value):
    """The bytes of a varint."""
    coded = _coded(value)
    size = 1
    while coded > np.uint64(0x7F):
        coded >>= np.uint64(7)
        size += 1
    return size


@njit(**_compiled)
def _write(target, position, value):
    coded = _coded(value)
    while coded > np.uint64(0x7F):
        target[position] = np.uint8(coded & np.uint64(0x7F)) | np.uint8(0x80)
        coded >>= np.uint64(7)
        position += 1
    target[position] = np.uint8(coded)
    return position + 1


@njit(inline="always", **_compiled)
def _length(offsets, valid, row):
    """The bytes of a field: -1 if it is null, or if there is no such column."""
    if offsets.shape[0] == 0 or (valid.shape[0] > 0 and not valid[row]):
        return np.int64(-1)
    return np.int64(offsets[row + 1]) - np.int64(offsets[row])


@njit(inline="always", **_compiled)
def _write_field(target, position, length, offsets, data, row):
    position = _write(target, position, length)
    if length > 0:
        _copy(target, position, data, np.int64(offsets[row]), length)
        position += length
    return position


@njit(
    _INT(
        _INTS_IN, _INT, _INTS_IN,
        _SHORTS_IN, _BYTES_IN, _FLAGS_IN, _SHORTS_IN, _BYTES_IN, _FLAGS_IN,
        _SHORTS_IN, _SHORTS_IN, _BYTES_IN, _FLAGS_IN, _SHORTS_IN, _BYTES_IN, _FLAGS_IN, _BYTES,
    ),
    **_compiled,
)  # fmt: skip
def encode_rows(
    order, base_timestamp, timestamps,
    key_offsets, key_data, key_valid, value_offsets, value_data, value_valid,
    header_offsets, name_offsets, name_data, name_valid, content_offsets, content_data, content_valid, target,
):  # fmt: skip
    """The bytes written: one record for each row of `order`; -1 if `target` is too small for them."""
    position = np.int64(0)
    has_times, has_headers = timestamps.shape[0] > 0, header_offsets.shape[0] > 0
    for index in range(order.shape[0]):
        row = order[index]
        delta = timestamps[row] - base_timestamp if has_times else np.int64(0)
        key, value = _length(key_offsets, key_valid, row), _length(value_offsets, value_valid, row)
        first = last = np.int64(0)
        length = 1 + _size(delta) + _size(index) + _size(key) + max(key, 0) + _size(value) + max(value, 0)
        if has_headers:
            first, last = np.int64(header_offsets[row]), np.int64(header_offsets[row + 1])
            for header in range(first, last):
                name = _length(name_offsets, name_valid, header)
                content = _length(content_offsets, content_valid, header)
                length += _size(name) + max(name, 0) + _size(content) + max(content, 0)
        length += _size(last - first)
        if length + _size(length) > target.shape[0] - position:
            return np.int64(-1)
        position = _write(target, position, length)
        target[position] = 0  # attributes, of which there are none
        position = _write(target, position + 1, delta)
        position = _write(target, position, index)
        position = _write_field(target, position, key, key_offsets, key_data, row)
        position = _write_field(target, position, value, value_offsets, value_data, row)
        position = _write(target, position, last - first)
        for header in range(first, last):
            name = _length(name_offsets, name_valid, header)
            content = _length(content_offsets, content_valid, header)
            position = _write_field(target, position, name, name_offsets, name_data, header)
            position = _write_field(target, position, content, content_offsets, content_data, header)
    return position


def compiled_kernels() -> int:
    """How many of the kernels this process had to compile."""
    every = (index_records, index_headers, gather, hash_keys, encode_rows)
    return sum(bool(kernel.stats.cache_misses) for kernel in every)
