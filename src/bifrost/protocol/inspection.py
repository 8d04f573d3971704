"""A look inside a produced batch, where a topic's settings ask for one: what Kafka does to every batch (LogValidator).

The broker's hot path takes a batch by its header. A topic that is compacted, that has a codec of its own or bounds on
how old a record may be, or a broker with `produce.validation=full`, wants more: every record is walked over, and the
batch is written anew where the topic says how. This is pure, and everything that it takes and gives can be sent to
another process, for it is slow: a microsecond or two for each record, and whatever a codec needs.

Must never: hold more than the rules allow of what a batch inflates to, or change anything about a record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bifrost.errors import ErrorCode
from bifrost.protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatchError,
    read_header,
    stamp_max_timestamp,
    with_payload,
)
from bifrost.protocol.compression import Codec, InflatedError, compress, decompress
from bifrost.protocol.wire import Buffer

RECORD_ERRORS_MAX: Final = 10_000
"""Records that a refusal names. Whoever sends the rest again is told of the next ones."""

_RECORD_BYTES_MIN: Final = 7  # six varints and the attributes, a byte each
_VARINT_BYTES_MAX: Final = 10
_NO_TIMESTAMP: Final = -1
_INT64 = range(-(1 << 63), 1 << 63)


class Recompression(NamedTuple):
    """How a topic wants its batches stored."""

    codec: Codec
    level: int | None = None


class Rules(NamedTuple):
    """What a batch is held to."""

    limit_bytes: int
    """All records together, inflated."""
    walk: bool = True
    """Whether records are looked at one by one; if not, they are only brought into another form."""
    keys: bool = False
    append_time: bool = False
    """The broker's clock stamps records, so those of the producer's do not matter."""
    earliest: int = _INT64.start
    latest: int = _INT64.stop
    recompression: Recompression | None = None


class UnopenedError(Exception):
    """A batch may not be stored before somebody has looked inside; nothing has happened to it so far."""

    def __init__(self, rules: Rules) -> None:
        super().__init__("the batch has not been looked into")
        self.rules = rules


class Refusal(NamedTuple):
    """Why a batch may not be stored, and which of its records are to blame (KIP-467)."""

    code: ErrorCode
    detail: str
    record_errors: list[tuple[int, str]]


def inspect(batch: bytearray, rules: Rules) -> bytearray | Refusal | None:
    """The batch as it is to be stored, None if that is as it came; or why it is not.

    Its header and its checksum have been found good. Bytes that do not hold what the header says are the producer's
    own doing, which a repetition does not mend: Kafka reports those that do not decompress as an unknown error.
    """
    header = read_header(batch)
    found: int | Refusal = header.max_timestamp
    try:
        records = _inflate(batch, header, rules.limit_bytes)
        if rules.walk:
            found = _walk(records, header, rules)
    except InflatedError as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error), [])
    except (CorruptBatchError, IndexError) as error:
        detail = f"the batch's records are malformed: {error}"
        return Refusal(ErrorCode.INVALID_RECORD, detail, [])
    if isinstance(found, Refusal):
        return found
    changed: bytearray | None = None
    if not rules.append_time and found != header.max_timestamp:
        header = stamp_max_timestamp(batch, header, found)  # Kafka: DefaultRecordBatch.setMaxTimestamp
        changed = batch
    wanted = rules.recompression
    if wanted is not None and wanted.codec != header.codec:
        changed = with_payload(batch, header, wanted.codec, compress(wanted.codec, records, wanted.level))
    return changed


def _inflate(batch: bytearray, header: BatchHeader, limit_bytes: int) -> Buffer:
    if header.codec > Codec.ZSTD:
        raise CorruptBatchError(f"unknown codec {header.codec}")
    return decompress(Codec(header.codec), memoryview(batch)[HEADER_BYTES : header.size_bytes], limit_bytes)


def _walk(records: Buffer, header: BatchHeader, rules: Rules) -> int | Refusal:
    """The greatest timestamp, or what is wrong. IndexError: a record ends too early.

    One loop with nothing called in it as long as numbers take a byte, which is how most of them are.
    """
    data = records if isinstance(records, (bytes, bytearray)) else bytes(records)
    end, count, base_timestamp = len(data), header.record_count, header.base_timestamp
    earliest, latest = (_INT64.start, _INT64.stop) if rules.append_time else (rules.earliest, rules.latest)
    if count > end // _RECORD_BYTES_MIN:
        raise CorruptBatchError(f"{count} records in {end} bytes")
    blamed, marked = _Blamed(), header.is_append_time
    max_timestamp, position = _NO_TIMESTAMP, 0
    for index in range(count):
        coded, position = data[position], position + 1
        if coded >= 0x80:
            coded, position = _rest(data, position, coded)
        stop = position + (coded >> 1)
        if coded & 1 or stop > end:
            raise CorruptBatchError(f"record {index} is longer than its batch")
        coded, position = data[position + 1], position + 2  # behind the attributes
        if coded >= 0x80:
            coded, position = _rest(data, position, coded)
        timestamp = base_timestamp + ((coded >> 1) ^ -(coded & 1))
        if timestamp > max_timestamp:  # noqa: PLR1730  # nothing is called here
            max_timestamp = timestamp
        coded, position = data[position], position + 1
        if coded >= 0x80:
            coded, position = _rest(data, position, coded)
        if coded != index << 1:
            raise CorruptBatchError(f"record {index} has another offset delta")
        key, position = data[position], position + 1
        if key >= 0x80:
            key, position = _rest(data, position, key)
        if not key & 1:
            position += key >> 1
        coded, position = data[position], position + 1
        if coded >= 0x80:
            coded, position = _rest(data, position, coded)
        if not coded & 1:
            position += coded >> 1
        coded, position = data[position], position + 1
        if coded:
            position = _skip_headers(data, position - 1, stop)
        if position != stop:
            raise CorruptBatchError(f"record {index} does not end where it says")
        if key & 1 and rules.keys:
            blamed.add(index, "it has no key, and the topic is compacted")
        elif marked:
            blamed.add_time(index, "only a broker marks records with its append time")
        elif not earliest <= timestamp <= latest and timestamp != _NO_TIMESTAMP:
            blamed.add_time(index, f"timestamp {timestamp} is not in {earliest}..{latest}")
    if position != end:
        raise CorruptBatchError(f"{end - position} stray bytes after {count} records")
    if max_timestamp not in _INT64:
        raise CorruptBatchError(f"timestamp {max_timestamp}")
    return blamed.refusal() or max_timestamp


def _rest(data: bytes | bytearray, position: int, first: int) -> tuple[int, int]:
    """A number that goes on behind its first byte, as it is written: twice what it stands for, odd if negative."""
    byte = data[position]
    value = first & 0x7F | (byte & 0x7F) << 7
    for shift in range(14, 7 * _VARINT_BYTES_MAX + 1, 7):
        position += 1
        if byte < 0x80:
            return value, position
        byte = data[position]
        value |= (byte & 0x7F) << shift
    raise CorruptBatchError("a varint of more than ten bytes")


def _varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    first = data[position]
    return (first, position + 1) if first < 0x80 else _rest(data, position + 1, first)


def _skip_headers(data: bytes | bytearray, position: int, stop: int) -> int:
    coded, position = _varint(data, position)
    if coded & 1 or coded >> 1 > stop - position:
        raise CorruptBatchError(f"{coded >> 1} record headers in {stop - position} bytes")
    for _ in range(coded >> 1):
        coded, position = _varint(data, position)
        if coded & 1:
            raise CorruptBatchError("a record header without a name")
        coded, position = _varint(data, position + (coded >> 1))
        if not coded & 1:
            position += coded >> 1
        if position > stop:
            raise CorruptBatchError("a record header is longer than its record")
    return position


class _Blamed:
    """The records that may not be stored. One with a wrong time makes the whole refusal one of time (Kafka)."""

    def __init__(self) -> None:
        self._errors: list[tuple[int, str]] = []
        self._count = 0
        self._times = 0

    def add(self, index: int, why: str) -> None:
        self._count += 1
        if len(self._errors) < RECORD_ERRORS_MAX:
            self._errors.append((index, why))

    def add_time(self, index: int, why: str) -> None:
        self._times += 1
        self.add(index, why)

    def refusal(self) -> Refusal | None:
        if not self._errors:
            return None
        first, why = self._errors[0]
        which = f"record {first}" if self._count == 1 else f"{self._count} records, from {first} on"
        code = ErrorCode.INVALID_TIMESTAMP if self._times else ErrorCode.INVALID_RECORD
        return Refusal(code, f"{which}: {why}", self._errors)
