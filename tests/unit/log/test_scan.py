"""Walking batches: nothing in a file is believed before it was checked."""

from __future__ import annotations

import struct

import pytest

from bifrost.log.memory_disk import MemoryFile
from bifrost.log.scan import DamagedBatchError, find_batch, scan_batches
from tests.unit.log.batches import replicated

BATCHES = [replicated(0, [b"a", b"b"]), replicated(2, [b"c" * 5000]), replicated(10, [b"d"])]
STARTS = [0, len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])]
DATA = b"".join(BATCHES)


def file_of(data: bytes) -> MemoryFile:
    file = MemoryFile("/f")
    file.write_at(data, 0)
    return file


def walk(data: bytes, *, crc: bool = True, next_offset: int = 0, offset_end: int = 1 << 31) -> list[tuple[int, int]]:
    found = scan_batches(file_of(data), 0, len(data), next_offset=next_offset, offset_end=offset_end, crc=crc)
    return [(position, header.base_offset) for position, header in found]


@pytest.mark.parametrize("crc", [True, False])
def test_whole_batches_are_found_gaps_and_all(crc: bool) -> None:
    assert walk(DATA, crc=crc) == list(zip(STARTS, [0, 2, 10]))


def test_big_files_are_read_in_pieces() -> None:
    many = [replicated(number, [b"v" * 1000]) for number in range(6000)]
    assert [offset for _, offset in walk(b"".join(many))] == list(range(6000))
    huge = replicated(6000, [b"v" * (5 << 20)])
    assert walk(b"".join([*many, huge]))[-1][1] == 6000


def damaged(position: int, change: bytes) -> bytes:
    return DATA[:position] + change + DATA[position + len(change) :]


@pytest.mark.parametrize(
    ("data", "at", "reason"),
    [
        (DATA + b"\0" * 60, len(DATA), "no batch header"),
        (DATA + b"\0" * 100, len(DATA), "batch length"),
        (DATA[:-1], STARTS[2], "bytes of batch"),
        (damaged(STARTS[1] + 8, struct.pack(">i", 1 << 30)), STARTS[1], "bytes of batch"),
        (damaged(STARTS[1] + 8, struct.pack(">i", -1)), STARTS[1], "batch length"),
        (damaged(STARTS[1] + 16, b"\1"), STARTS[1], "magic"),
        (damaged(STARTS[1] + 100, b"\0"), STARTS[1], "checksum"),
        (damaged(STARTS[1], struct.pack(">q", 1)), STARTS[1], "offsets"),
        (damaged(STARTS[1], struct.pack(">q", 1 << 40)), STARTS[1], "offsets"),
        (damaged(STARTS[1] + 23, struct.pack(">i", -3)), STARTS[1], "offsets"),
    ],
)
def test_damage_ends_the_walk_where_it_is(data: bytes, at: int, reason: str) -> None:
    with pytest.raises(DamagedBatchError, match=reason) as caught:
        walk(data)
    assert caught.value.position == at


def test_offsets_stay_in_their_segment() -> None:
    with pytest.raises(DamagedBatchError, match="offsets 0 to 1, expected 1"):
        walk(DATA, next_offset=1)
    with pytest.raises(DamagedBatchError, match="offsets 10 to 10, expected 3 to 10"):
        walk(DATA, offset_end=10)


def find(offset: int, *, start: int = 0, claimed: int | None = None, data: bytes = DATA) -> tuple[int, int] | None:
    return find_batch(file_of(data), start, len(data), offset, claimed)


def test_an_offset_is_found_in_its_batch_or_in_the_next_after_a_gap() -> None:
    sizes = [len(batch) for batch in BATCHES]
    assert [find(offset) for offset in (0, 1)] == [(STARTS[0], sizes[0])] * 2
    assert find(2) == (STARTS[1], sizes[1])
    assert [find(offset) for offset in (3, 9, 10)] == [(STARTS[2], sizes[2])] * 3
    assert find(11) is None
    assert find(10, start=STARTS[1], claimed=2) == (STARTS[2], sizes[2])


@pytest.mark.parametrize(("start", "claimed"), [(STARTS[2], 5), (7, 5), (len(DATA), 5), (-8, 5), (len(DATA) - 20, 5)])
def test_an_index_that_lies_is_found_out(start: int, claimed: int) -> None:
    with pytest.raises(DamagedBatchError):
        find(5, start=start, claimed=claimed)


def test_a_search_never_runs_past_damage() -> None:
    with pytest.raises(DamagedBatchError):
        find(10, data=damaged(STARTS[1] + 8, struct.pack(">i", 0)))
    for size in (STARTS[2] + 30, len(DATA) - 1):
        with pytest.raises(DamagedBatchError):
            find(10, data=DATA[:size])
