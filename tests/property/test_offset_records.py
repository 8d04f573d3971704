"""The records of committed offsets are written and read by hand: the same bytes as the general codec's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue, read_key, read_value, record
from bifrost.protocol.codec import writer
from bifrost.protocol.schema import ZERO_UUID

NAMES = st.text(st.characters(codec="utf-8"), max_size=50)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=INT32)
VALUES = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=INT32,
    metadata=NAMES | st.text(st.characters(codec="utf-8"), min_size=100, max_size=300),
    commit_timestamp=INT64,
    topic_id=st.just(ZERO_UUID) | st.uuids(),
)


@given(KEYS, VALUES)
def test_the_bytes_are_those_of_the_general_codec(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    written = record(key, value)
    assert written.key == b"\x00\x01" + writer(OffsetCommitKey, 0)(key)
    assert written.value == b"\x00\x04" + writer(OffsetCommitValue, 4)(value)
    assert record(key, None) == (written.key, None)


@given(KEYS, VALUES, st.none() | INT64)
def test_what_is_written_is_read(key: OffsetCommitKey, value: OffsetCommitValue, expires: int | None) -> None:
    if expires is not None:
        value.expire_timestamp, value.leader_epoch, value.topic_id = expires, -1, ZERO_UUID
    written = record(key, value)
    assert written.value is not None
    assert read_key(written.key) == key
    assert read_value(key, written.value) == value
