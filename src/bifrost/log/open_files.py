"""A bounded set of open files for segments that are no longer written to.

This file decides how many descriptors old segments may hold, and for how many logs there are any. A log with years of
segments is mostly read at its end: the rest is opened when somebody asks and forgotten when others were asked for more
recently. Forgetting is all it does: a file closes itself when its last reader is done (see `real_disk.RealFile`).
"""

from __future__ import annotations

import sys

from bifrost.log.disk import Disk, File

OPEN_FILES_MAX = 512
_LOGS_SHARE = 0.75
"""Of the files that a process may have open: the rest is for connections, old segments, and logs that are flushed."""


def logs_max(disk: Disk) -> int:
    """How many logs may be open at once: each holds the file that it is written to."""
    files = disk.open_files_max()
    return sys.maxsize if files is None else int(files * _LOGS_SHARE)


class OpenFiles:
    """Files by path, least recently used first."""

    __slots__ = ("_files", "_limit", "disk")

    def __init__(self, disk: Disk, limit: int = OPEN_FILES_MAX) -> None:
        assert limit > 0
        self.disk = disk
        self._files: dict[str, File] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> File:
        """The open file at `path`. May evict another; what a caller holds stays open."""
        file = self._files.pop(path, None)
        if file is None:
            file = self.disk.open(path)
            if len(self._files) >= self._limit:
                del self._files[next(iter(self._files))]
        self._files[path] = file
        return file

    def put(self, file: File) -> None:
        """A file that was just written and will likely be read next."""
        self._files.pop(file.path, None)
        if len(self._files) >= self._limit:
            del self._files[next(iter(self._files))]
        self._files[file.path] = file

    def forget(self, path: str) -> None:
        """The name is about to mean another file, or none."""
        self._files.pop(path, None)
