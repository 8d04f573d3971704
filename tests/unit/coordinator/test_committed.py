"""Offsets in memory are what the log says, however it is read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bifrost.coordinator.core.committed import CommittedOffsets, read
from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue, record

PLACES = st.tuples(st.sampled_from(["a", "b", "ß"]), st.sampled_from(["t", "u"]), st.integers(-1, 2))
CHANGES = st.lists(st.tuples(PLACES, st.none() | st.integers(0, 1 << 62)))


@given(CHANGES, st.integers(0, 50))
def test_the_last_record_of_each_key_counts(changes: list[tuple[tuple[str, str, int], int | None]], cut: int) -> None:
    """`cut` is where loading ends and the records of running begin."""
    committed = CommittedOffsets()
    expected: dict[tuple[str, str, int], int] = {}
    for number, ((group, topic, partition), offset) in enumerate(changes):
        if number == cut:
            committed.loaded()
        key = OffsetCommitKey(group=group, topic=topic, partition=partition)
        value = None if offset is None else OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)
        committed.replay(*record(key, value))
        expected.pop((group, topic, partition), None)
        if offset is not None:
            expected[group, topic, partition] = offset
    found = {
        (group, topic, partition): read(value).offset
        for group in committed.group_ids()
        for topic, partitions in committed.of(group).items()
        for partition, value in partitions.items()
    }
    assert found == expected
    assert len(committed) == len(expected)
    assert set(committed.group_ids()) == {group for group, _, _ in expected}
    assert all(committed.of(group) for group in committed.group_ids())


def test_tombstones_take_back_all_or_some_topics() -> None:
    committed = CommittedOffsets()
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        key = OffsetCommitKey(group="g", topic=topic, partition=partition)
        committed.replay(*record(key, OffsetCommitValue(offset=1, metadata="", commit_timestamp=0)))
    for one in committed.tombstones("g", ["t", "other"]):
        committed.replay(*one)
    assert list(committed.of("g")) == ["u"]
    for one in committed.tombstones("g"):
        committed.replay(*one)
    assert "g" not in committed
