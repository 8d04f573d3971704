"""What compaction makes of the inside of a batch, and what it refuses to make anything of."""

from __future__ import annotations

import pytest

from bifrost.protocol.batch import HEADER_BYTES, BatchHeader, CorruptBatchError, read_header
from bifrost.protocol.record_spans import find_records, has_delete_horizon, rewrite
from bifrost.protocol.records import decode_batch, encode_batch
from tests.unit.log.cleaning import varint

NOW = 1_700_000_000_000
INT64_END = 1 << 63


def record(offset_delta: int, timestamp_delta: int = 0, key: bytes = b"k", value: bytes = b"v") -> bytes:
    inside = b"\0" + varint(timestamp_delta) + varint(offset_delta) + varint(len(key)) + key
    inside += varint(len(value)) + value + varint(0)
    return varint(len(inside)) + inside


def header_of(count: int) -> BatchHeader:
    return read_header(encode_batch([(NOW, b"k", b"v", ())] * count))


@pytest.mark.parametrize("deltas", [(0, 1, 2), (0, 63, 64), (5, 8191, 8192), (0, 1 << 20, (1 << 31) - 1)])
@pytest.mark.parametrize("timestamp_delta", [0, -1, 63, 64, -65, 8191, 8192, -8193, INT64_END - 1, -INT64_END])
def test_records_are_found_where_they_are(deltas: tuple[int, ...], timestamp_delta: int) -> None:
    data = b"".join(record(delta, timestamp_delta) for delta in deltas)
    found = list(find_records(data, len(deltas), deltas[-1]))
    assert [(times, offset) for _, _, times, offset, _, _ in found] == [(timestamp_delta, delta) for delta in deltas]
    assert b"".join(data[start:end] for start, end, *_ in found) == data


@pytest.mark.parametrize(
    ("records", "last", "words"),
    [
        ((record(0, 1 << 65),), 0, "64 bits"),
        ((record(0, INT64_END),), 0, "64 bits"),
        ((record(0, -INT64_END - 1),), 0, "64 bits"),
        ((record(0), record(0)), 1, "offset delta 0 after 0"),
        ((record(1), record(0)), 1, "offset delta 0 after 1"),
        ((record(0), record(2)), 1, "offset delta 2 after 0, up to 1"),
        ((record(-1),), 0, "offset delta -1"),
        ((record(0), b"\0"), 0, "stray"),
        ((record(0)[:-1],), 0, "longer"),
    ],
)
def test_what_cannot_be_is_refused(records: tuple[bytes, ...], last: int, words: str) -> None:
    data = b"".join(records)
    count = sum(len(each) > 1 for each in records)
    with pytest.raises(CorruptBatchError, match=words):
        list(find_records(data, count, last))


@pytest.mark.parametrize(("timestamp_delta", "horizon_ms"), [(INT64_END - 1, None), (-INT64_END + 5, INT64_END - 1)])
def test_a_time_that_nobody_can_tell_is_refused(timestamp_delta: int, horizon_ms: int | None) -> None:
    body = record(0, timestamp_delta)
    with pytest.raises(CorruptBatchError, match="a time of"):
        rewrite(header_of(2), body, count=1, newest_delta=timestamp_delta, delete_horizon_ms=horizon_ms)


def test_a_delete_horizon_leaves_every_time_as_it_was() -> None:
    deltas = [0, -70, 9000, 5]
    body = b"".join(record(index, delta) for index, delta in enumerate(deltas))
    horizon = INT64_END - 1
    changed = rewrite(header_of(4), body, count=4, newest_delta=9000, delete_horizon_ms=horizon)
    header = read_header(changed)
    assert (has_delete_horizon(header), header.base_timestamp, header.max_timestamp) == (True, horizon, NOW + 9000)
    assert [each.timestamp for each in decode_batch(changed)] == [NOW + delta for delta in deltas]
    assert header.size_bytes == len(changed) > HEADER_BYTES
