"""What an interrupted compaction or deletion left is finished or undone. Kafka: LogLoader."""

from __future__ import annotations

from bifrost.log.leftovers import tidy
from bifrost.log.memory_disk import MemoryDisk
from tests.unit.log.batches import replicated

D = "/d"


def disk_with(**files: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.makedirs(D)
    return add(disk, files)


def add(disk: MemoryDisk, files: dict[str, bytes]) -> MemoryDisk:
    for name, content in files.items():
        disk.open(f"{D}/{name}", create=True).write_at(content, 0)
    return disk


def name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def test_a_tidy_directory_is_left_alone() -> None:
    files = {name(0, ".log"): b"", name(0, ".index"): b"", name(0, ".txnindex"): b"", "partition.metadata": b"x"}
    disk = add(disk_with(), files)
    assert tidy(disk, D) == {"partition.metadata": 1, **dict.fromkeys(list(files)[:3], 0)}


def test_deleted_cleaned_and_temporary_files_go() -> None:
    keep = {name(0, ".log"): b"", "00000000000000000000-0000000000.checkpoint.deleted": b""}
    gone = {name(0, ".log.deleted"): b"", name(5, ".log.cleaned"): b"", "leader-epoch-checkpoint.tmp": b""}
    disk = add(disk_with(), keep | gone)
    assert tidy(disk, D) == dict.fromkeys(keep, 0)


def test_indexes_without_a_log_go() -> None:
    disk = add(disk_with(), {name(0, ".log"): b"", name(0, ".timeindex"): b"", name(9, ".index"): b"x"})
    assert tidy(disk, D) == {name(0, ".log"): 0, name(0, ".timeindex"): 0}


def test_swapped_segments_take_the_place_of_those_they_replace() -> None:
    compacted = replicated(0, [b"a"]) + replicated(7, [b"b"])
    disk = add(
        disk_with(),
        {
            name(0, ".log"): b"old",
            name(0, ".index"): b"old",
            name(5, ".log"): b"old",
            name(5, ".timeindex"): b"old",
            name(8, ".log"): b"later",
            name(0, ".log.swap"): compacted,
            name(0, ".index.swap"): b"",
        },
    )
    assert tidy(disk, D) == {name(0, ".log"): len(compacted), name(0, ".index"): 0, name(8, ".log"): 5}
    assert disk.read_bytes(f"{D}/{name(0, '.log')}") == compacted


def test_an_interrupted_split_is_undone() -> None:
    """KAFKA-6264: a `.cleaned` file means that not all parts were finished; the original is still there."""
    disk = add(
        disk_with(),
        {name(0, ".log"): b"whole", name(3, ".log.swap"): replicated(3, [b"b"]), name(0, ".log.cleaned"): b"part"},
    )
    assert tidy(disk, D) == {name(0, ".log"): 5}
