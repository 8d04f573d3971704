"""Every disk keeps the same promises; the real one also knows what its kernel can do."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import pickle
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from bifrost.errors import DiskFullError, StorageError
from bifrost.log import real_disk
from bifrost.log.disk import DirectoryInUseError, Disk
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.real_disk import RealDisk, RealFile
from tests.sim.disk import FaultyDisk


class Place(NamedTuple):
    disk: Disk
    path: str


@pytest.fixture(params=["real", "memory", "faulty"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "real":
        return Place(RealDisk(), str(tmp_path))
    disk = MemoryDisk() if request.param == "memory" else FaultyDisk(Random(1))
    disk.makedirs("/base")
    return Place(disk, "/base")


def test_a_file_holds_what_was_written_where_it_was_written(place: Place) -> None:
    file = place.disk.open(f"{place.path}/a", create=True)
    file.write_at(b"hello", 0)
    file.write_at(memoryview(b"XY"), 3)
    file.write_at(b"!", 7)
    assert file.size() == 8
    assert bytes(file.read_at(100, 0)) == b"helXY\0\0!"
    assert bytes(file.read_at(2, 3)) == b"XY"
    assert bytes(file.read_at(5, 8)) == b""
    file.truncate(3)
    file.sync()
    assert place.disk.read_bytes(f"{place.path}/a") == b"hel"


def test_read_cached_gives_all_or_nothing(place: Place) -> None:
    file = place.disk.open(f"{place.path}/a", create=True)
    file.write_at(b"hello", 0)
    cached = file.read_cached(5, 0)
    assert cached is not None
    assert bytes(cached) == b"hello"
    assert file.read_cached(6, 0) is None


def test_a_write_back_changes_nothing(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write_at(b"12345678", 0)
    file.write_back(4, 4)
    assert bytes(file.read_at(10, 0)) == b"12345678"


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL, errno.EPERM, None])
def test_a_write_back_fails_where_the_disk_does(
    number: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def call(fd: int, position: int, size: int, flags: int) -> int:
        asked.append((fd, position, size, flags))
        ctypes.set_errno(number or 0)
        return -1

    monkeypatch.setattr(real_disk, "_sync_file_range", lambda: None if number is None else call)
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    if number == errno.EIO:
        with pytest.raises(StorageError, match="Input/output error"):
            file.write_back(4, 5)
    else:
        file.write_back(4, 5)
    assert asked == ([] if number is None else [(file.fileno(), 4, 5, 7)])


def test_a_missing_file_is_a_storage_error_that_names_it(place: Place) -> None:
    for attempt in (place.disk.open, place.disk.read_bytes, place.disk.remove):
        with pytest.raises(StorageError) as caught:
            attempt(f"{place.path}/none")
        assert caught.value.path == f"{place.path}/none"
    with pytest.raises(StorageError):
        place.disk.file_sizes(f"{place.path}/none")
    with pytest.raises(StorageError):
        place.disk.rename(f"{place.path}/none", f"{place.path}/other")


def test_directories_are_listed_apart_from_files(place: Place) -> None:
    place.disk.makedirs(f"{place.path}/t-0/deep")
    place.disk.makedirs(f"{place.path}/t-0/deep")
    place.disk.open(f"{place.path}/b", create=True).write_at(b"123", 0)
    place.disk.open(f"{place.path}/a", create=True)
    assert place.disk.listdir(place.path) == ["a", "b", "t-0"]
    assert place.disk.directories(place.path) == ["t-0"]
    assert place.disk.file_sizes(place.path) == {"a": 0, "b": 3}
    assert place.disk.exists(f"{place.path}/t-0/deep")
    place.disk.remove_tree(f"{place.path}/t-0")
    assert not place.disk.exists(f"{place.path}/t-0")
    place.disk.remove_tree(f"{place.path}/t-0")


def test_a_renamed_directory_takes_its_files_along_and_open_ones_stay_readable(place: Place) -> None:
    place.disk.makedirs(f"{place.path}/old")
    file = place.disk.open(f"{place.path}/old/f", create=True)
    file.write_at(b"data", 0)
    place.disk.rename(f"{place.path}/old", f"{place.path}/new")
    assert place.disk.read_bytes(f"{place.path}/new/f") == b"data"
    assert not place.disk.exists(f"{place.path}/old/f")
    assert bytes(file.read_at(4, 0)) == b"data"


def test_write_atomic_replaces_the_whole_content(place: Place) -> None:
    place.disk.write_atomic(f"{place.path}/f", b"a longer first version")
    place.disk.write_atomic(f"{place.path}/f", b"second", sync=False)
    assert place.disk.read_bytes(f"{place.path}/f") == b"second"
    assert place.disk.listdir(place.path) == ["f"]


def test_a_lock_is_held_once(place: Place) -> None:
    lock = place.disk.lock(f"{place.path}/.lock")
    with pytest.raises(DirectoryInUseError):
        place.disk.lock(f"{place.path}/.lock")
    lock.release()
    place.disk.lock(f"{place.path}/.lock").release()


def test_a_whole_file_system_can_be_synced_or_says_that_it_cannot(place: Place) -> None:
    assert place.disk.sync_filesystem(place.path) in (True, False)
    place.disk.sync_directory(place.path)


def test_big_files_are_read_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1024
    (tmp_path / "big").write_bytes(content)
    assert RealDisk().read_bytes(str(tmp_path / "big")) == content


def test_no_room_is_told_apart_from_other_failures() -> None:
    with pytest.raises(DiskFullError, match="/dev/full"):
        RealDisk().open("/dev/full").write_at(b"x", 0)


def test_a_short_write_is_completed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, memoryview(data)[:3], position))
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.write_at(b"0123456789", 0)
    assert bytes(file.read_at(20, 0)) == b"0123456789"


def test_a_sync_reaches_the_kernel_before_the_new_name_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[str] = []
    replace = os.replace
    monkeypatch.setattr(real_disk, "_sync_data", lambda fd: calls.append(f"data {os.fstat(fd).st_size}"))
    monkeypatch.setattr(os, "replace", lambda old, new: (calls.append("rename"), replace(old, new)))
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append("names"))
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    file.write_at(b"hello", 0)
    file.sync()
    RealDisk().write_atomic(str(tmp_path / "checkpoint"), b"hi")
    assert calls == ["data 5", "data 2", "rename", "names"]


def test_a_file_closes_itself_when_its_last_user_lets_go(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    fd = file.fileno()
    assert fd is not None
    was = os.fstat(fd)
    del file
    gc.collect()
    try:
        now = os.fstat(fd)
    except OSError:
        return
    assert not os.path.samestat(was, now), "another thread may have opened something under the same number"


def test_cold_pages_are_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def cold(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "would block")

    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.write_at(b"hello", 0)
    monkeypatch.setattr(real_disk._nowait, "supported", True)
    monkeypatch.setattr(os, "RWF_NOWAIT", 8, raising=False)
    monkeypatch.setattr(os, "preadv", cold)
    assert file.read_cached(5, 0) is None


def test_where_reads_cannot_be_told_not_to_wait_they_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unsupported(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.write_at(b"hello", 0)
    monkeypatch.setattr(real_disk._nowait, "supported", True)
    monkeypatch.setattr(os, "RWF_NOWAIT", 8, raising=False)
    monkeypatch.setattr(os, "preadv", unsupported)
    assert file.read_cached(5, 0) == b"hello"
    assert real_disk._nowait.supported is False


def test_every_failing_call_becomes_a_storage_error() -> None:
    reader, writer = os.pipe()
    file = RealFile("a pipe", reader)
    for attempt in (
        lambda: file.read_at(1, 0),
        lambda: file.write_at(b"x", 0),
        lambda: file.truncate(0),
        file.sync,
    ):
        with pytest.raises(StorageError, match="a pipe"):
            attempt()
    os.close(writer)


def test_old_kernels_keep_write_back_errors_to_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(real_disk, "_kernel_version", lambda: (5, 7))
    assert RealDisk().sync_filesystem(str(tmp_path)) is False


def test_a_real_disk_can_be_handed_to_another_process() -> None:
    assert isinstance(pickle.loads(pickle.dumps(RealDisk())), RealDisk)
