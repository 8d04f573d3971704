"""What has to reach the disk before a log's end counts as safe.

This file decides the order: contents first, then the epochs that explain them, then the names that lead to them. A
`FlushState` collects while the log is written to; a `FlushJob` is one round of it, cut loose from the log so that it
can run in a thread while the log goes on.

A disk without room for the epochs is no reason to give it up: batches carry their epochs too. Until they could be
stored, recovery has to start where it would have started before.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping
from threading import Lock
from typing import Final

from bifrost.errors import DiskFullError, StorageError
from bifrost.log.disk import Disk, File
from bifrost.log.names import EPOCHS_FILE

_log = logging.getLogger(__name__)

NO_CUT: Final = 1 << 63


class FlushState:
    """What one log owes to the disk, apart from its active file."""

    __slots__ = (
        "deleted", "directories", "epochs_lock", "epochs_taken", "epochs_written", "files", "generation", "lowest_cut",
    )  # fmt: skip

    def __init__(self) -> None:
        self.files: list[File] = []
        self.directories: list[str] = []
        self.generation = 0
        """Counts truncations: a job that began before one says nothing about what was appended after it."""
        self.lowest_cut = NO_CUT
        """Where the log ended after a truncation, the lowest since somebody who copies it has last looked."""
        self.deleted = False
        self.epochs_taken = 0
        self.epochs_written = 0
        self.epochs_lock = Lock()
        """Jobs may overlap where a roll does not wait for the flusher: then the later epochs have to win."""

    def owe(self, files: list[File], *directories: str) -> None:
        self.files += files
        self.directories += [path for path in directories if path not in self.directories]

    def rename(self, directory: str, generation: int) -> None:
        """The log's directory has this name from now on, which is owed too, and its truncations count from there."""
        self.directories = [directory, posixpath.dirname(directory)]
        self.generation = generation

    def cut_at(self, end_offset: int) -> None:
        """The log was truncated, and ends there."""
        self.generation += 1
        self.lowest_cut = min(self.lowest_cut, end_offset)


class FlushJob:
    """One round for one log. `run` may be called in any thread; everything else belongs to the loop."""

    __slots__ = (
        "_directory",
        "_disk",
        "_epochs",
        "_number",
        "_paths",
        "_state",
        "epochs_lost",
        "files",
        "generation",
        "offset",
    )

    def __init__(
        self, disk: Disk, directory: str, state: FlushState, *, files: list[File], epochs: bytes | None, offset: int
    ) -> None:
        self.files = state.files + files
        self.offset = offset
        """Everything below it is safe once the job is done."""
        self.generation = state.generation
        self.epochs_lost = False
        """There was no room for them; they are to be stored by a later job."""
        self._disk = disk
        self._directory = directory
        self._state = state
        self._epochs = epochs
        state.epochs_taken += 1
        self._number = state.epochs_taken
        self._paths = state.directories
        state.files, state.directories = [], []

    def run(self) -> None:
        """Blocks until everything is on disk. A log that was deleted meanwhile has nothing left to lose."""
        try:
            for file in self.files:
                file.sync()
            self._write_epochs(sync=True)
            for path in self._paths:
                self._disk.sync_directory(path)
        except StorageError:
            if not self._state.deleted:
                raise

    @property
    def is_plain(self) -> bool:
        """Whether to sync the files is all that there is to do."""
        return self._epochs is None and not self._paths

    def check(self, errors: Mapping[File, StorageError]) -> None:
        """As `run`, for a plain job whose files somebody else has synced, all but those in `errors`."""
        for file in self.files:
            if file in errors and not self._state.deleted:
                raise errors[file]

    def prepare(self) -> None:
        """Writes without a sync what is not in a file yet: for a round that ends with a sync of the file system."""
        try:
            self._write_epochs(sync=False)
        except StorageError:
            if not self._state.deleted:
                raise

    @property
    def recovery_point(self) -> int:
        """Where recovery may start once the job is done, unless it could start further on before."""
        return 0 if self.epochs_lost else self.offset

    def _write_epochs(self, *, sync: bool) -> None:
        if self._epochs is None:
            return
        state = self._state
        with state.epochs_lock:
            if self._number < state.epochs_written or state.generation != self.generation:
                return  # a later job has stored them, or will: the log was truncated since
            try:
                self._disk.write_atomic(f"{self._directory}/{EPOCHS_FILE}", self._epochs, sync=sync)
                state.epochs_written = self._number
            except DiskFullError as error:
                self.epochs_lost = True
                _log.warning("leader epochs not stored, disk full path=%s", error.path)
