"""Every codec in the framing clients use, bounded in what it may produce."""

from __future__ import annotations

import tracemalloc

import cramjam
import pytest

from bifrost.protocol.batch import CorruptBatchError
from bifrost.protocol.compression import Codec, compress, decompress

COMPRESSING = pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
SAMPLES = pytest.mark.parametrize("data", [b"", b"a", bytes(range(256)) * 1000], ids=["empty", "one byte", "256 KB"])
NO_LIMIT = 1 << 30


@SAMPLES
@pytest.mark.parametrize("codec", Codec)
def test_round_trip(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, memoryview(bytearray(compress(codec, memoryview(data)))), NO_LIMIT) == data


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_over_the_limit_is_refused(codec: Codec) -> None:
    payload = compress(codec, bytes(5000))
    assert len(decompress(codec, payload, 5000)) == 5000
    with pytest.raises(CorruptBatchError):
        decompress(codec, payload, 4999)


@COMPRESSING
def test_a_bomb_is_refused_without_being_inflated(codec: Codec) -> None:
    payload = compress(codec, bytes(64 << 20))
    limit_bytes = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            decompress(codec, payload, limit_bytes)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * limit_bytes


def test_bare_snappy_block_as_librdkafka_writes_it() -> None:
    data = b"position " * 10_000
    payload = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Codec.SNAPPY, payload, len(data)) == data


def test_snappy_stream_limit_counts_all_blocks() -> None:
    payload = compress(Codec.SNAPPY, bytes(100_000))
    with pytest.raises(CorruptBatchError):
        decompress(Codec.SNAPPY, payload, 99_999)


def test_a_tiny_snappy_block_that_claims_much_allocates_nothing() -> None:
    claim = b"\xff\xff\xff\x7f" + b"\x00a"
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            decompress(Codec.SNAPPY, claim, NO_LIMIT)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000


@pytest.mark.parametrize("cut", [1, 7, 8, 13, 17, 19, 30])
def test_a_cut_snappy_stream_is_corrupt(cut: int) -> None:
    payload = compress(Codec.SNAPPY, bytes(range(100)))
    with pytest.raises(CorruptBatchError):
        decompress(Codec.SNAPPY, payload[:cut], NO_LIMIT)


@COMPRESSING
@pytest.mark.parametrize("garbage", [b"\0", b"garbage", b"\xff" * 100])
def test_garbage_is_corrupt(codec: Codec, garbage: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, garbage + b"\x01", 1 << 20)


@COMPRESSING
def test_a_truncated_payload_is_corrupt(codec: Codec) -> None:
    payload = compress(codec, b"position " * 100)
    with pytest.raises(CorruptBatchError):
        decompress(codec, payload[:-1], 1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_torn_payload_costs_a_small_buffer_only(codec: Codec) -> None:
    payload = compress(codec, b"records" * 100)
    tracemalloc.start()
    try:
        for size in range(1, len(payload)):
            with pytest.raises(CorruptBatchError):
                decompress(codec, payload[:size], 64 << 20)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 600_000, 5_000_000])
def test_payloads_larger_than_the_first_buffer_come_back_whole(codec: Codec, size: int) -> None:
    data = bytes(size)
    assert bytes(decompress(codec, compress(codec, data), size)) == data
