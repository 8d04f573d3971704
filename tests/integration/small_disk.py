"""A real file system of a few megabytes, to be filled up and to be broken."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_PIECE = bytes(64 * 1024)


class SmallDisk:
    """An ext4 image, mounted. Skips the test where that is not permitted."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._image = folder / "disk.img"
        self._around = folder / "around"
        self.path = self._around / "disk"
        self.path.mkdir(parents=True)
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("no mkfs.ext4 here (Debian package e2fsprogs)")
        with self._image.open("wb") as image:
            image.truncate(megabytes << 20)
        self._run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        # `ip netns exec` gives what it runs a copy of all mounts, and a copy keeps a broken file system alive.
        # Where the mount around it is shared, whatever is unmounted here goes from all copies.
        mounted = self._run("mount", "--bind", "--make-shared", str(self._around), str(self._around), check=False)
        if mounted.returncode == 0:
            mounted = self._mount(check=False)
        if mounted.returncode != 0:
            self.close()
            pytest.skip(f"not permitted to mount a file system: {mounted.stderr.strip()}")

    def _mount(self, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        options = "loop,errors=remount-ro"
        return self._run("mount", "-o", options, str(self._image), str(self.path), check=check)

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def fill(self) -> None:
        """Take every byte that is left."""
        with self._ballast.open("ab", buffering=0) as file:
            for piece in (_PIECE, _PIECE[:4096], b"."):
                while True:
                    try:
                        if file.write(piece) < len(piece):
                            break
                    except OSError:
                        break
            os.fsync(file.fileno())

    def make_room(self) -> None:
        self._ballast.unlink()

    def make_read_only(self) -> None:
        """What ext4 does by itself when it meets an error: reads go on, every write and sync is refused."""
        (device,) = {
            line.split()[0]
            for line in Path("/proc/mounts").read_text().splitlines()
            if line.split()[1] == str(self.path)
        }
        try:
            Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("test")
        except OSError as error:
            pytest.skip(f"this kernel cannot be asked to fail a file system: {error}")

    def mend(self) -> None:
        """As an operator would: unmount, check, which replays the journal, and mount again.

        Unchecked, a file system that remembers an error may turn read-only once more.
        """
        gc.collect()  # the files of an embedded node are open until it is collected
        self._run("umount", str(self.path))
        self._run("e2fsck", "-fy", str(self._image), check=False)  # 1: something was mended
        self._mount()

    def remount_read_only(self) -> None:
        """From the start; only possible while nobody has a file open for writing."""
        self._run("mount", "-o", "remount,ro", str(self.path))

    def close(self) -> None:
        """Whatever still has a file open keeps it; the rest of the system does not see the disk any more."""
        if os.path.ismount(self.path):
            self._run("umount", "--lazy", str(self.path))
        self._run("umount", "--lazy", str(self._around), check=False)  # or it could not be mounted

    @staticmethod
    def _run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=check, timeout=30)
