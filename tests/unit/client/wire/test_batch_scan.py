"""Where to read next, from headers alone, and never by a length that lies."""

from __future__ import annotations

import struct

import pytest

from bifrost.client.wire.batch_scan import scan_batches
from bifrost.protocol.batch import CorruptBatchError
from bifrost.protocol.records import Record, encode_batch


def batch(base_offset: int, records: int, value: bytes = b"v") -> bytes:
    made = [Record(base_offset + index, 0, None, value) for index in range(records)]
    return bytes(encode_batch(made, base_offset=base_offset))


LOG = [batch(10, 5), batch(15, 1), batch(20, 10)]  # offsets 16 to 19 were compacted away
DATA = b"".join(LOG)


def test_everything_when_there_is_no_end() -> None:
    assert scan_batches(memoryview(DATA), None) == (len(DATA), 30, False, 0)


@pytest.mark.parametrize(
    ("end", "whole", "next_offset", "reached"),
    [(12, 1, 15, True), (15, 1, 15, True), (16, 2, 16, True), (18, 2, 16, True), (30, 3, 30, True), (31, 3, 30, False)],
)
def test_batches_behind_the_end_are_left_out(end: int, whole: int, next_offset: int, reached: bool) -> None:
    assert scan_batches(memoryview(DATA), end) == (len(b"".join(LOG[:whole])), next_offset, reached, 0)


def test_a_cut_batch_is_left_out() -> None:
    for cut in range(len(DATA)):
        scan = scan_batches(memoryview(DATA[:cut]), None)
        whole = sum(len(b"".join(LOG[: count + 1])) <= cut for count in range(3))
        assert scan.size == len(b"".join(LOG[:whole]))
        assert scan.next_offset == (-1, 15, 16, 30)[whole]
        if cut >= 12 and not whole:
            assert scan.cut_batch_bytes == len(LOG[0])


def test_nothing_at_all() -> None:
    assert scan_batches(memoryview(b""), 5) == (0, -1, False, 0)


@pytest.mark.parametrize(
    ("position", "form", "value"),
    [(8, ">i", -1), (8, ">i", 0), (8, ">i", 48), (8, ">i", -(1 << 31)), (16, ">b", 1), (16, ">b", -1), (23, ">i", -2)],
)
def test_lies_are_refused(position: int, form: str, value: int) -> None:
    data = bytearray(LOG[0])
    struct.pack_into(form, data, position, value)
    with pytest.raises(CorruptBatchError):
        scan_batches(memoryview(data), None)
