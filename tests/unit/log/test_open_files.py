"""Old segments share a bounded number of descriptors."""

from __future__ import annotations

import os
from pathlib import Path

from bifrost.log.open_files import OpenFiles
from bifrost.log.real_disk import RealDisk


def test_only_so_many_files_stay_open(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    files = OpenFiles(RealDisk(), limit=3)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for number in range(20):
        assert bytes(files.get(str(tmp_path / str(number))).read_at(9, 0)) == b"%d" % number
        assert len(files) <= 3
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 3


def test_what_a_reader_holds_outlives_its_eviction(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())
    files = OpenFiles(RealDisk(), limit=1)
    held = files.get(str(tmp_path / "a"))
    files.get(str(tmp_path / "b"))
    assert bytes(held.read_at(1, 0)) == b"a"


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"")
    files = OpenFiles(RealDisk(), limit=2)
    first = files.get(str(tmp_path / "a"))
    files.get(str(tmp_path / "b"))
    assert files.get(str(tmp_path / "a")) is first
    files.get(str(tmp_path / "c"))
    assert files.get(str(tmp_path / "a")) is first


def test_a_forgotten_name_is_opened_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    files = OpenFiles(RealDisk())
    old = files.get(str(tmp_path / "a"))
    (tmp_path / "a").unlink()
    (tmp_path / "a").write_bytes(b"new")
    files.forget(str(tmp_path / "a"))
    assert bytes(files.get(str(tmp_path / "a")).read_at(3, 0)) == b"new"
    assert bytes(old.read_at(3, 0)) == b"old"


def test_a_file_can_be_put_in_by_its_writer(tmp_path: Path) -> None:
    files = OpenFiles(RealDisk(), limit=1)
    written = RealDisk().open(str(tmp_path / "a"), create=True)
    files.put(written)
    assert files.get(str(tmp_path / "a")) is written
