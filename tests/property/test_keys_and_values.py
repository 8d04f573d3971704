"""The quick way to the keys and values of a batch finds what the thorough codec finds, and survives damage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bifrost.protocol.batch import HEADER_BYTES, CorruptBatchError, read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import NewRecord, decode_batch, encode_batch, keys_and_values

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1 << 40),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=30,
)


@given(RECORDS, st.sampled_from(Codec))
def test_keys_and_values_are_those_that_the_thorough_codec_finds(records: list[NewRecord], codec: Codec) -> None:
    batch = encode_batch(records, codec=codec)
    found = keys_and_values(batch, read_header(batch))
    assert found == [(record.key, record.value) for record in decode_batch(batch)]


@given(RECORDS, st.data())
def test_damage_inside_a_batch_is_told_or_stays_inside_it(records: list[NewRecord], data: st.DataObject) -> None:
    batch = encode_batch(records)
    position = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    try:
        found = keys_and_values(batch, read_header(batch))
    except CorruptBatchError:
        return
    assert len(found) == len(records)
