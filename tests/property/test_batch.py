"""Batches of any records: they come back, and damage to them is noticed and causes the right error, never another."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from bifrost.errors import ApiError
from bifrost.protocol.batch import CorruptBatchError, accept_produced, iter_headers, read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.inspection import Recompression, Rules, inspect
from bifrost.protocol.records import NewRecord, Record, decode_batch, encode_batch

NO_LIMIT = 1 << 30
MAYBE_BYTES = st.one_of(st.none(), st.binary(max_size=40))
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=2).map(tuple)
TIMESTAMPS = st.one_of(st.integers(-1, 2**42), st.integers(0, 2**62))
NEW_RECORDS = st.lists(st.tuples(TIMESTAMPS, MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1, max_size=8)
CODECS = st.sampled_from(Codec)
FEW = settings(max_examples=100, deadline=None)


@FEW
@given(records=NEW_RECORDS, base_offset=st.integers(0, 2**62), codec=CODECS)
def test_records_come_back(records: list[NewRecord], base_offset: int, codec: Codec) -> None:
    batch = encode_batch(records, base_offset=base_offset, codec=codec)
    expected = [Record(base_offset + index, *record) for index, record in enumerate(records)]
    assert decode_batch(batch) == expected
    assert encode_batch(decode_batch(batch), base_offset=base_offset, codec=codec) == batch
    header = read_header(batch)
    assert header.record_count == len(records)
    assert header.max_timestamp == max(record[0] for record in records)


@FEW
@given(records=NEW_RECORDS, codec=CODECS, data=st.data())
def test_no_flipped_bit_enters_a_log(records: list[NewRecord], codec: Codec, data: st.DataObject) -> None:
    batch = encode_batch(records, codec=codec)
    position = data.draw(st.integers(0, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        accept_produced(memoryview(batch), max_bytes=NO_LIMIT, api_version=9)
    except ApiError:
        return
    assert 12 <= position < 16, "only the leader epoch, which the leader overwrites, is not checked"


@FEW
@given(records=NEW_RECORDS, codec=CODECS, data=st.data())
def test_damage_behind_a_right_checksum_is_a_corrupt_batch(
    records: list[NewRecord], codec: Codec, data: st.DataObject
) -> None:
    batch = encode_batch(records, codec=codec)
    for position in data.draw(st.lists(st.integers(21, len(batch) - 1), min_size=1, max_size=4)):
        batch[position] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    try:
        decode_batch(batch, limit_bytes=1 << 20)
    except CorruptBatchError:
        pass
    inspect(batch, Rules(limit_bytes=1 << 20, keys=True, recompression=Recompression(Codec.GZIP)))


@FEW
@given(noise=st.binary(max_size=200))
def test_noise_is_never_a_batch(noise: bytes) -> None:
    try:
        accept_produced(memoryview(noise), max_bytes=NO_LIMIT, api_version=9)
    except ApiError:
        pass
    try:
        list(iter_headers(noise))
    except CorruptBatchError:
        pass


@FEW
@given(batches=st.lists(NEW_RECORDS, max_size=4), data=st.data())
def test_a_cut_read_yields_the_whole_batches_before_the_cut(
    batches: list[list[NewRecord]], data: st.DataObject
) -> None:
    encoded = [encode_batch(records) for records in batches]
    ends = [sum(map(len, encoded[: index + 1])) for index in range(len(encoded))]
    cut = data.draw(st.integers(0, ends[-1] if ends else 0))
    found = list(iter_headers(b"".join(encoded)[:cut]))
    assert len(found) == sum(end <= cut for end in ends)
