"""Indexes: Kafka's entries, found by a search that agrees with a plain scan."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.log.index import (
    CorruptIndexError,
    IndexBuilder,
    OffsetIndex,
    StoredOffsetIndex,
    StoredTimeIndex,
    TimeIndex,
)
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.open_files import OpenFiles

BASE = 1000


def stored(data: bytes) -> OpenFiles:
    disk = MemoryDisk()
    disk.open("/index", create=True).write_at(data, 0)
    return OpenFiles(disk)


def filled(offsets: list[int]) -> OffsetIndex:
    index = OffsetIndex(BASE)
    for number, offset in enumerate(offsets):
        index.append(offset, (number + 1) * 100)
    return index


rising = st.lists(st.integers(BASE, BASE + 5000), unique=True, max_size=1500).map(sorted)


@given(offsets=rising, target=st.integers(BASE, BASE + 5001))
def test_a_look_up_finds_the_last_entry_at_or_below(offsets: list[int], target: int) -> None:
    index = filled(offsets)
    below = [(offset, (number + 1) * 100) for number, offset in enumerate(offsets) if offset <= target]
    expected = below[-1] if below else (BASE, 0)
    assert index.lookup(target) == expected
    files = stored(index.encode())
    on_disk = StoredOffsetIndex(files, "/index", BASE, log_bytes=1 << 30)
    assert on_disk.lookup(target) == expected
    assert on_disk.lookup(target) == expected, "from the block in memory"


def test_a_sequential_reader_does_not_go_back_to_the_file() -> None:
    index = filled(list(range(BASE, BASE + 3000)))
    files = stored(index.encode())
    on_disk = StoredOffsetIndex(files, "/index", BASE, log_bytes=1 << 30)
    on_disk.lookup(BASE + 1)
    files.forget("/index")
    files.disk.remove("/index")
    assert on_disk.lookup(BASE + 500) == (BASE + 500, 50_100)


def test_offset_entries_are_eight_bytes_big_endian() -> None:
    index = filled([BASE + 3, BASE + 9])
    assert index.encode() == struct.pack(">iiii", 3, 100, 9, 200)
    assert OffsetIndex.decode(BASE, index.encode()).lookup(BASE + 9) == (BASE + 9, 200)


def test_truncation_drops_entries_at_and_above() -> None:
    index = filled([BASE + 3, BASE + 9, BASE + 12])
    index.truncate(BASE + 9)
    assert index.last() == (BASE + 3, 100)
    index.truncate(BASE)
    assert index.last() == (BASE, 0)


def test_time_entries_are_twelve_bytes_and_rise_strictly() -> None:
    index = TimeIndex(BASE)
    index.append(50, BASE + 1)
    index.append(50, BASE + 2)
    index.append(40, BASE + 3)
    index.append(60, BASE + 4)
    assert index.encode() == struct.pack(">qi", 50, 1) + struct.pack(">qi", 60, 4)


@given(
    times=st.lists(st.integers(0, 500), unique=True, min_size=1, max_size=100).map(sorted), target=st.integers(-1, 501)
)
def test_a_time_look_up_finds_the_last_entry_at_or_below(times: list[int], target: int) -> None:
    index = TimeIndex(BASE)
    for number, timestamp in enumerate(times):
        index.append(timestamp, BASE + number)
    below = [(timestamp, BASE + number) for number, timestamp in enumerate(times) if timestamp <= target]
    expected = below[-1] if below else (-1, BASE)
    assert index.lookup(target) == expected
    on_disk = StoredTimeIndex(stored(index.encode()), "/index", BASE)
    assert on_disk.lookup(target) == expected
    assert on_disk.last() == (times[-1], BASE + len(times) - 1)


def test_time_truncation_goes_by_offset() -> None:
    index = TimeIndex(BASE)
    for number in range(5):
        index.append(number * 10, BASE + number)
    index.truncate(BASE + 3)
    assert index.last() == (20, BASE + 2)
    index.append(15, BASE + 3)
    assert len(index) == 3, "still no higher than the last"
    index.append(25, BASE + 3)
    assert index.last() == (25, BASE + 3)


def test_the_time_index_keeps_room_for_the_entry_of_a_roll() -> None:
    index = TimeIndex(BASE)
    for number in range(3):
        assert not index.is_full(48)
        index.append(number, BASE + number)
    assert index.is_full(48), "three of four entries"
    offsets = filled([BASE + 1, BASE + 2])
    assert not offsets.is_full(24)
    assert offsets.is_full(16)


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        struct.pack(">iiii", 9, 100, 3, 200),
        struct.pack(">iiii", -5, 100, 3, 200),
        struct.pack(">iiii", 3, 100, 9, 1 << 20),
        bytes(10 << 10),
        bytes(8),
    ],
    ids=["no multiple", "falling", "before the segment", "beyond the log", "preallocated zeros", "one zero entry"],
)
def test_an_offset_index_of_the_wrong_shape_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        StoredOffsetIndex(stored(data), "/index", BASE, log_bytes=1000)


@pytest.mark.parametrize(
    "data",
    [b"", b"1234567", struct.pack(">qiqi", 9, 1, 3, 2), bytes(12 << 10)],
    ids=["empty", "no multiple", "falling", "preallocated zeros"],
)
def test_a_time_index_of_the_wrong_shape_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        StoredTimeIndex(stored(data), "/index", BASE)
    if len(data) % 12:
        with pytest.raises(CorruptIndexError):
            TimeIndex(BASE, data)
        with pytest.raises(CorruptIndexError):
            OffsetIndex.decode(BASE, data)


def test_an_entry_comes_when_more_than_the_interval_was_written_since_the_last() -> None:
    """Kafka: LogSegment.append. The entry holds the batch's last offset and its first byte."""
    builder = IndexBuilder(BASE, interval_bytes=4096)
    position = 0
    for number, size in enumerate([4096, 1, 4096, 4097, 10, 10]):
        builder.add(position, BASE + number * 10 + 9, 100 + number)
        position += size
    builder.finish()
    assert builder.offsets.encode() == struct.pack(">iiii", 29, 4097, 49, 4097 + 4096 + 4097)
    assert builder.times.encode() == b"".join(
        (struct.pack(">qi", 102, 29), struct.pack(">qi", 104, 49), struct.pack(">qi", 105, 59))
    )


def test_the_greatest_timestamp_is_that_of_its_first_batch() -> None:
    builder = IndexBuilder(BASE, interval_bytes=0)
    for number, timestamp in enumerate([5, 9, 9, 3]):
        builder.add(number * 100, BASE + number, timestamp)
    assert (builder.max_timestamp, builder.max_timestamp_offset) == (9, BASE + 1)
