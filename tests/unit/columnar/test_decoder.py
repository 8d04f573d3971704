"""What the decoder says of bytes that it refuses, and what it leaves alone."""

from __future__ import annotations

import pickle
import struct

import pytest
from crc32c import crc32c

from bifrost.client.errors import BifrostError, InvalidRequestError
from bifrost.columnar import batches, schema
from bifrost.columnar.decoder import Decoder, decode
from bifrost.columnar.errors import CorruptBatch
from bifrost.columnar.kernels import kernels
from bifrost.columnar.kernels.interface import MILLIS_MAX
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import encode_batch


def batch_at(offset: int, *values: bytes) -> bytearray:
    return encode_batch([(5, None, value, ()) for value in values], base_offset=offset)


def test_the_damaged_batch_is_named() -> None:
    damaged = batch_at(20, b"c", b"d")
    damaged[-3] ^= 1
    with pytest.raises(CorruptBatch, match="readings-3 cannot be read from offset 20 on: its checksum") as caught:
        decode(batch_at(10, b"a") + damaged, topic="readings", partition=3)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("readings", 3, 20, 22)
    assert "start behind it, at 22" in str(error)
    assert isinstance(error, BifrostError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.offset) == (str(error), 20)


def test_a_header_that_is_none_is_placed_behind_the_batch_before_it() -> None:
    with pytest.raises(CorruptBatch, match="magic 0 instead of 2") as caught:
        decode(batch_at(10, b"a") + b"\0\0\0\0\0\0\0\0\0\0\0\x40" + bytes(200), topic="t", partition=0)
    assert caught.value.offset == 11


@pytest.mark.parametrize("offset", [-1, 2**63 - 1])
def test_offsets_that_would_overflow_are_refused(offset: int) -> None:
    batch = batch_at(0, b"a")
    struct.pack_into(">q", batch, 0, offset)
    with pytest.raises(CorruptBatch, match="out of range"):
        decode(batch, topic="t", partition=0)


def test_batches_outside_of_the_range_are_not_looked_at() -> None:
    before, after = batch_at(0, b"a"), batch_at(2, b"c")
    before[-1] ^= 1
    after[-1] ^= 1
    found = decode(before + batch_at(1, b"b") + after, topic="t", partition=0, start=1, end=2, columns=["value"])
    assert found.to_pydict() == {"value": [b"b"]}


def test_nothing_is_an_empty_record_batch() -> None:
    assert decode(b"", topic="t", partition=0).schema == schema.schema()
    assert decode(b"", topic="t", partition=0).num_rows == 0


def test_a_batch_that_compaction_emptied_has_no_rows() -> None:
    batch = batch_at(5, b"a")
    del batch[61:]
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, 0)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    for name in ("numba", "numpy"):
        found = list(Decoder("t", 0, using=kernels(name)).decode(batch + batch_at(6, b"b")))
        assert [row["value"] for each in found for row in each.to_pylist()] == [b"b"]


@pytest.mark.parametrize("name", ["numba", "numpy"])
@pytest.mark.parametrize(("time_ms", "read"), [(2**62, MILLIS_MAX), (-(2**62), -MILLIS_MAX), (-1, -1)])
def test_times_that_microseconds_cannot_tell_are_the_last_that_they_can(name: str, time_ms: int, read: int) -> None:
    batch = encode_batch([(time_ms, None, None, ())])
    (found,) = Decoder("t", 0, ["timestamp"], using=kernels(name)).decode(batch)
    assert found.column(0).cast("int64").to_pylist() == [read * 1000]


@pytest.mark.parametrize("name", ["numba", "numpy"])
def test_header_names_are_text_whatever_their_bytes(name: str) -> None:
    fine, odd = encode_batch([(5, None, None, [("ab", b"1")])]), encode_batch([(5, None, None, [("éx", b"2")])])
    odd[odd.index("é".encode())] = 0xFF
    struct.pack_into(">I", odd, 17, crc32c(odd[21:]))
    struct.pack_into(">q", odd, 0, 1)
    found = [row for each in Decoder("t", 0, ["headers"], using=kernels(name)).decode(fine + odd) for row in each[0]]
    assert [[(header["key"], header["value"]) for header in row.as_py()] for row in found] == [
        [("ab", b"1")],
        [("\ufffd\ufffdx", b"2")],
    ]


def test_what_was_compressed_is_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK_BYTES", 3000)
    data = b"".join(
        encode_batch([(5, None, bytes(1000), ())], base_offset=offset, codec=Codec.ZSTD) for offset in range(10)
    )
    found = list(Decoder("t", 0, ["offset"]).decode(data))
    assert [each.num_rows for each in found] == [3, 3, 3, 1]
    assert decode(data, topic="t", partition=0, columns=["offset"]).column(0).to_pylist() == list(range(10))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["vaule"], "Did you mean value"),
        (["value", "value"], "named twice"),
        ([], "no column is asked for"),
    ],
)
def test_columns_that_make_no_sense_are_refused(columns: list[str], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        Decoder("t", 0, columns)


def test_headers_may_be_asked_for_beside_the_usual_columns() -> None:
    assert schema.checked(None, headers=True) == schema.ALL_COLUMNS
    assert schema.checked("value") == ("value",)
