"""The batch header: what it says, what may be stamped on it, and which produced batches are refused with which code."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from crc32c import crc32c

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatchError,
    accept_produced,
    check_crc,
    iter_headers,
    read_header,
    stamp,
    stamp_append_time,
)
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import decode_batch, encode_batch
from tests.unit.protocol.kafka_batches import BATCHES

NO_LIMIT = 1 << 30


def make_batch(count: int = 3, **options: object) -> bytearray:
    return encode_batch([(1000 + index, b"key", b"value", ()) for index in range(count)], **options)  # type: ignore[arg-type]


def edit(batch: bytearray, layout: str, position: int, value: int, *, seal: bool = True) -> bytearray:
    """Overwrites a header field; with `seal` the checksum is right again afterwards."""
    struct.pack_into(layout, batch, position, value)
    if seal:
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


def refusal(batch: bytes | bytearray, *, max_bytes: int = NO_LIMIT, api_version: int = 9) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        accept_produced(memoryview(batch), max_bytes=max_bytes, api_version=api_version)
    return caught.value.code


def test_header_of_a_batch_that_kafka_wrote() -> None:
    batch = BATCHES[Codec.LZ4]
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=0,
        length=len(batch) - 12,
        leader_epoch=5,
        magic=2,
        crc=header.crc,
        attributes=0x13,
        last_offset_delta=3,
        base_timestamp=1700000000000,
        max_timestamp=1700000000005,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=17,
        record_count=4,
    )
    assert header.size_bytes == len(batch)
    assert (header.last_offset, header.next_offset) == (3, 4)
    assert header.codec == Codec.LZ4
    assert header.is_transactional
    assert not header.is_control
    assert not header.is_append_time
    assert check_crc(batch, 0, header)


@pytest.mark.parametrize("codec", Codec)
def test_batches_that_kafka_wrote_are_accepted(codec: Codec) -> None:
    batch = memoryview(BATCHES[codec])
    assert accept_produced(batch, max_bytes=len(batch), api_version=7) == read_header(batch)


def test_a_checksum_is_wrong_when_any_covered_bit_is() -> None:
    batch = make_batch()
    header = read_header(batch)
    batch[-1] ^= 1
    assert not check_crc(batch, 0, header)


def test_a_cut_batch_has_no_valid_checksum() -> None:
    batch = make_batch()
    assert not check_crc(batch[:-1], 0, read_header(batch))


def test_stamping_leaves_the_checksum_valid() -> None:
    buffer = bytearray(b"noise") + make_batch()
    stamp(buffer, 5, 123_456_789_012, 7)
    header = read_header(buffer, 5)
    assert (header.base_offset, header.leader_epoch) == (123_456_789_012, 7)
    assert check_crc(buffer, 5, header)
    assert [record.offset for record in decode_batch(buffer[5:])] == [123_456_789_012 + index for index in range(3)]


def test_append_time_is_what_every_record_then_reads_as() -> None:
    buffer = bytearray(b"noise") + make_batch() + b"more noise"
    header = stamp_append_time(buffer, 5, read_header(buffer, 5), 99_000)
    assert header == read_header(buffer, 5)
    assert header.is_append_time
    assert header.base_timestamp == 1000
    assert [record.timestamp for record in decode_batch(buffer[5:-10])] == [99_000] * 3


@pytest.mark.parametrize("size", [0, 1, 11, 12, 17, HEADER_BYTES - 1])
def test_too_few_bytes_are_no_header(size: int) -> None:
    with pytest.raises(CorruptBatchError):
        read_header(make_batch()[:size])


@pytest.mark.parametrize("length", [-(2**31), -1, 0, HEADER_BYTES - 13])
def test_a_length_below_the_header_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError):
        read_header(edit(make_batch(), ">i", 8, length))


@pytest.mark.parametrize("magic", [-1, 0, 1, 3])
def test_a_foreign_magic_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatchError):
        read_header(edit(make_batch(), ">b", 16, magic))


def test_headers_of_whole_batches_only() -> None:
    first, second, third = make_batch(1), make_batch(2, base_offset=1), make_batch(3, base_offset=3)
    buffer = b"skip" + first + second + third
    everything = list(iter_headers(buffer, 4))
    assert [(position, header.base_offset) for position, header in everything] == [
        (4, 0),
        (4 + len(first), 1),
        (4 + len(first) + len(second), 3),
    ]
    for cut in range(1, len(third) + 1):
        assert list(iter_headers(buffer[:-cut], 4)) == everything[:2]


def test_a_corrupt_header_between_batches_is_not_skipped() -> None:
    headers = iter_headers(make_batch() + bytes(HEADER_BYTES))
    next(headers)
    with pytest.raises(CorruptBatchError):
        next(headers)


def cut_to(size: int) -> Callable[[], bytearray]:
    return lambda: make_batch()[:size]


def with_length(change: int) -> Callable[[], bytearray]:
    batch = make_batch()
    return lambda: edit(batch, ">i", 8, len(batch) - 12 + change)


# The codes are those of Kafka 4.3's ProduceRequest.validateRecords for the same bytes.
FRAMING = {
    "nothing": (cut_to(0), ErrorCode.INVALID_RECORD),
    "no length": (cut_to(11), ErrorCode.INVALID_RECORD),
    "no magic": (cut_to(16), ErrorCode.INVALID_RECORD),
    "part of a header": (cut_to(20), ErrorCode.INVALID_RECORD),
    "the last byte is missing": (lambda: make_batch()[:-1], ErrorCode.INVALID_RECORD),
    "length too large": (with_length(1), ErrorCode.INVALID_RECORD),
    "length too small": (with_length(-1), ErrorCode.CORRUPT_MESSAGE),
    "length 13": (lambda: edit(make_batch(), ">i", 8, 13), ErrorCode.CORRUPT_MESSAGE),
    "length 14": (lambda: edit(make_batch(), ">i", 8, 14), ErrorCode.CORRUPT_MESSAGE),
    "length negative": (lambda: edit(make_batch(), ">i", 8, -1), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (lambda: make_batch() + make_batch(), ErrorCode.INVALID_RECORD),
    "zeros behind": (lambda: make_batch() + bytes(30), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (lambda: edit(make_batch(), ">b", 16, 0), ErrorCode.INVALID_RECORD),
    "magic 1": (lambda: edit(make_batch(), ">b", 16, 1), ErrorCode.INVALID_RECORD),
    "magic 3": (lambda: edit(make_batch(), ">b", 16, 3), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (lambda: edit(make_batch(), ">b", 16, -1), ErrorCode.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("case", FRAMING)
def test_bytes_that_are_not_exactly_one_batch(case: str) -> None:
    batch, code = FRAMING[case]
    assert refusal(batch()) == code


@pytest.mark.parametrize("size", [1, 16, 40, 60])
def test_a_partial_batch_behind_a_whole_one_is_dropped(size: int) -> None:
    whole = make_batch()
    header = accept_produced(memoryview(whole + make_batch()[:size]), max_bytes=NO_LIMIT, api_version=9)
    assert header.size_bytes == len(whole)


CONTENT = {
    "base offset": (lambda: make_batch(base_offset=1), ErrorCode.INVALID_RECORD),
    "checksum": (lambda: edit(make_batch(), ">I", 17, 1, seal=False), ErrorCode.CORRUPT_MESSAGE),
    "no records": (lambda: edit(edit(make_batch(), ">i", 57, 0), ">i", 23, -1), ErrorCode.INVALID_RECORD),
    "negative count": (lambda: edit(edit(make_batch(), ">i", 57, -3), ">i", 23, -4), ErrorCode.INVALID_RECORD),
    "count above offsets": (lambda: edit(make_batch(), ">i", 57, 4), ErrorCode.INVALID_RECORD),
    "offsets above count": (lambda: edit(make_batch(), ">i", 23, 3), ErrorCode.INVALID_RECORD),
    "control": (lambda: make_batch(control=True), ErrorCode.INVALID_RECORD),
    "no sequence": (lambda: make_batch(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "unknown codec": (lambda: edit(make_batch(), ">h", 21, 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
}


@pytest.mark.parametrize("case", CONTENT)
def test_a_batch_that_breaks_a_rule(case: str) -> None:
    batch, code = CONTENT[case]
    assert refusal(batch()) == code


@pytest.mark.parametrize(("producer_epoch", "base_sequence"), [(-1, -1), (0, 0), (-1, 0)])
def test_without_a_producer_id_epoch_and_sequence_mean_nothing(producer_epoch: int, base_sequence: int) -> None:
    """kafkajs sends 0 and 0, aiokafka -1 and 0."""
    batch = make_batch(producer_epoch=producer_epoch, base_sequence=base_sequence)
    accept_produced(memoryview(batch), max_bytes=NO_LIMIT, api_version=9)


def test_zstd_needs_produce_7() -> None:
    batch = make_batch(codec=Codec.ZSTD)
    assert refusal(batch, api_version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    accept_produced(memoryview(batch), max_bytes=NO_LIMIT, api_version=7)


def test_the_size_limit_counts_the_whole_batch() -> None:
    batch = make_batch()
    accept_produced(memoryview(batch), max_bytes=len(batch), api_version=9)
    assert refusal(batch, max_bytes=len(batch) - 1) == ErrorCode.MESSAGE_TOO_LARGE


def test_size_is_judged_before_the_checksum_and_the_checksum_before_the_rest() -> None:
    corrupt = edit(make_batch(control=True), ">I", 17, 1, seal=False)
    assert refusal(corrupt, max_bytes=10) == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(corrupt) == ErrorCode.CORRUPT_MESSAGE


def test_a_producer_cannot_claim_append_time() -> None:
    batch = make_batch(timestamp_type=1)
    marked = accept_produced(memoryview(bytearray(batch)), max_bytes=NO_LIMIT, api_version=9, append_time=True)
    assert marked.is_append_time, "for the inspection to refuse"
    header = accept_produced(memoryview(batch), max_bytes=NO_LIMIT, api_version=9)
    assert header == read_header(batch)
    assert not header.is_append_time
    assert [record.timestamp for record in decode_batch(batch)] == [1000, 1001, 1002]


def calls_to_accept(batch: bytearray) -> int:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    view = memoryview(batch)
    sys.setprofile(count)
    try:
        accept_produced(view, max_bytes=NO_LIMIT, api_version=9)
    finally:
        sys.setprofile(None)
    return calls


def test_accepting_costs_the_same_calls_for_one_and_for_many_records() -> None:
    assert calls_to_accept(make_batch(1)) == calls_to_accept(make_batch(5000)) < 12
