"""The simulator's disk loses what a real one may lose, and nothing else."""

from __future__ import annotations

from random import Random

import pytest

from bifrost.errors import DiskFullError, StorageError
from tests.sim.disk import FaultyDisk

SEEDS = range(60)


def prepared(seed: int, **options: bool) -> FaultyDisk:
    disk = FaultyDisk(Random(seed), **options)
    disk.makedirs("/d")
    disk.sync_directory("/")
    return disk


def outcomes(synced: bool, **options: bool) -> set[bytes]:
    found = set()
    for seed in SEEDS:
        disk = prepared(seed, **options)
        file = disk.open("/d/f", create=True)
        disk.sync_directory("/d")
        file.write_at(b"ab", 0)
        file.write_at(b"cd", 2)
        if synced:
            file.sync()
        disk.crash()
        found.add(disk.read_bytes("/d/f"))
    return found


def test_synced_bytes_survive() -> None:
    assert outcomes(synced=True) == {b"abcd"}


def test_unsynced_bytes_are_forgotten() -> None:
    assert outcomes(synced=False, tear=False) == {b""}


def test_of_unsynced_writes_a_prefix_survives_torn_at_any_byte() -> None:
    assert outcomes(synced=False, reorder=False) == {b"", b"a", b"ab", b"abc", b"abcd"}


def test_writes_may_reach_the_platter_out_of_order() -> None:
    assert any(content.startswith(b"\0\0c") for content in outcomes(synced=False))


def test_names_are_forgotten_until_their_directory_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        disk = prepared(seed)
        disk.open("/d/f", create=True).sync()
        disk.crash()
        found.add(disk.exists("/d/f"))
    assert found == {True, False}


def test_a_rename_is_one_change() -> None:
    found = set()
    for seed in SEEDS:
        disk = prepared(seed)
        disk.open("/d/old", create=True)
        disk.sync_directory("/d")
        disk.rename("/d/old", "/d/new")
        disk.crash()
        found.add(tuple(disk.listdir("/d")))
    assert found == {("old",), ("new",)}


def test_a_removed_name_may_come_back() -> None:
    found = set()
    for seed in SEEDS:
        disk = prepared(seed)
        disk.open("/d/f", create=True)
        disk.sync_directory("/d")
        disk.remove("/d/f")
        disk.crash()
        found.add(disk.exists("/d/f"))
    assert found == {True, False}


def test_the_end_of_a_process_loses_nothing() -> None:
    disk = prepared(1)
    disk.open("/d/f", create=True).write_at(b"data", 0)
    lock = disk.lock("/d/.lock")
    disk.crash(power=False)
    assert disk.read_bytes("/d/f") == b"data"
    assert lock is not disk.lock("/d/.lock"), "its locks end with it"


def test_a_sync_of_the_file_system_covers_names_and_contents() -> None:
    disk = prepared(1)
    disk.makedirs("/d/t-0")
    disk.open("/d/t-0/f", create=True).write_at(b"data", 0)
    disk.sync_filesystem("/d")
    disk.crash()
    assert disk.read_bytes("/d/t-0/f") == b"data"


def test_a_full_disk_takes_what_fits() -> None:
    disk = prepared(1)
    file = disk.open("/d/f", create=True)
    disk.space_left = 3
    with pytest.raises(DiskFullError):
        file.write_at(b"abcde", 0)
    assert bytes(file.content) == b"abc"
    file.write_at(b"XY", 0)
    assert bytes(file.content) == b"XYc", "what is there already needs no room"


def test_chosen_calls_fail() -> None:
    disk = prepared(1)
    file = disk.open("/d/f", create=True)
    disk.fail_on = lambda operation, path: operation == "sync" and path == "/d/f"
    file.write_at(b"x", 0)
    with pytest.raises(StorageError, match="/d/f"):
        file.sync()


def test_the_same_seed_crashes_the_same_way() -> None:
    def run() -> bytes:
        disk = prepared(42)
        file = disk.open("/d/f", create=True)
        disk.sync_directory("/d")
        for number in range(20):
            file.write_at(bytes([number]) * 5, number * 5)
        disk.crash()
        return disk.read_bytes("/d/f")

    assert run() == run()
