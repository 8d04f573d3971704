"""Bytes that no client would write are refused in words, by both kinds of kernels alike, and nothing else happens."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from bifrost.columnar.decoder import Decoder
from bifrost.columnar.errors import CorruptBatch
from bifrost.columnar.kernels import kernels
from bifrost.columnar.kernels.interface import MalformedError, Wanted
from bifrost.columnar.schema import ALL_COLUMNS
from bifrost.protocol.batch import HEADER_BYTES, CorruptBatchError
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import decode_batch, encode_batch
from tests.property.column_batches import FIELDS, HEADERS, PARTITION, TIMES, TOPIC, logs

Outcome = list[pa.RecordBatch] | int

RECORDS = st.lists(st.tuples(TIMES, FIELDS, FIELDS, HEADERS), min_size=1, max_size=6)
WILD_BYTES = st.sampled_from([0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF]) | st.integers(0, 255)


def outcome(name: str, data: bytes, columns: list[str] | None = None) -> Outcome:
    """The rows, or the offset of the batch that was refused. Any other exception fails the test."""
    decoder = Decoder(TOPIC, PARTITION, columns or ALL_COLUMNS, decompressed_bytes_max=1 << 20, using=kernels(name))
    try:
        found = list(decoder.decode(data))
    except CorruptBatch as error:
        return error.offset
    for batch in found:
        batch.validate(full=True)
    return found


def sealed(batch: bytearray) -> bytes:
    """The batch with a CRC that is right, so that what is wrong inside is reached."""
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def same_outcome(data: bytes) -> Outcome:
    compiled, vectorised = outcome("numba", data), outcome("numpy", data)
    assert compiled == vectorised
    return compiled


@given(records=RECORDS, changes=st.lists(st.tuples(st.integers(0, 400), WILD_BYTES), min_size=1, max_size=4))
def test_records_with_wild_bytes_are_read_or_refused(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    changes: list[tuple[int, int]],
) -> None:
    batch = encode_batch(records)
    for position, byte in changes:
        batch[HEADER_BYTES + position % (len(batch) - HEADER_BYTES)] = byte
    found = same_outcome(sealed(batch))
    try:
        plain = decode_batch(sealed(batch))
    except CorruptBatchError:
        # A record outside of the range, such as one with a negative offset, is not looked into any further
        assert isinstance(found, int) or sum(batch.num_rows for batch in found) < len(records)
        return
    if isinstance(found, list):
        pairs = [(row["key"], row["value"]) for each in found for row in each.select(["key", "value"]).to_pylist()]
        assert pairs == [(record.key, record.value) for record in plain if record.offset >= 0]


@given(contents=st.binary(max_size=60), count=st.integers(-1, 9), codec=st.sampled_from([0, 0, 0, 1, 2, 3, 4, 7]))
@example(contents=b"\x00" * 14, count=2, codec=0)
@example(contents=b"\xff" * 9 + b"\x01" + b"\x00" * 20, count=1, codec=0)
@example(contents=b"\x0c" + b"\x00" + b"\xff" * 20, count=1, codec=0)
def test_any_bytes_in_place_of_records_are_read_or_refused(contents: bytes, count: int, codec: int) -> None:
    batch = encode_batch([(0, None, None, ())])
    del batch[HEADER_BYTES:]
    batch += contents
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 57, count)
    same_outcome(sealed(batch))


@given(log=logs(), position=st.integers(0, 5000), byte=st.integers(0, 255), columns=st.sampled_from([["value"], None]))
def test_damage_on_the_way_is_found_by_the_crc_or_changes_nothing(
    log: list[bytes], position: int, byte: int, columns: list[str] | None
) -> None:
    whole = bytearray(b"".join(log))
    before = outcome("numba", bytes(whole), columns)
    position %= len(whole)
    start = sum(len(batch) for batch in log[: owner(log, position)])
    whole[position] = byte
    after = outcome("numba", bytes(whole), columns)
    if position - start >= 17:  # the CRC, and all that it covers
        assert after == before or isinstance(after, int)


def owner(log: list[bytes], position: int) -> int:
    for number, batch in enumerate(log):
        if position < len(batch):
            return number
        position -= len(batch)
    raise AssertionError


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_small_batch_that_grows_huge_is_refused(codec: Codec) -> None:
    batch = bytes(encode_batch([(0, None, bytes(4 << 20), ())], codec=codec))
    assert same_outcome(batch) == 0


@pytest.mark.parametrize("name", ["numba", "numpy"])
@given(contents=st.binary(min_size=7, max_size=80), count=st.integers(1, 8), poison=st.integers(0, 255))
def test_kernels_look_at_nothing_outside_of_their_section(name: str, contents: bytes, count: int, poison: int) -> None:
    everything = Wanted.KEY | Wanted.VALUE | Wanted.HEADERS

    def read(around: bytes) -> object:
        data = np.frombuffer(around + contents + around, np.uint8)
        table = np.array([[len(around), len(around) + len(contents), count, 0, 0, 0, 0]], np.int64)
        try:
            index = kernels(name).index(data, table, everything, -(2**62), 2**62)
            assert index.keys is not None
            assert index.values is not None
            assert index.headers is not None
            headers = kernels(name).index_headers(data, index.headers)
        except MalformedError as error:
            return error.section
        columns = [index.keys, index.values, headers.names, headers.values]
        found = [kernels(name).gather(data, column).to_pylist() for column in columns]
        return found, index.offsets.tolist(), headers.offsets.tolist()

    assert read(bytes([poison]) * 24) == read(b"\x00" * 24)
