"""What has to reach the disk before a log's end counts as safe.

This file decides the order: contents first, then the epochs that explain them, then the names that lead to them. A
`FlushState` collects while the log is written to; a `FlushJob` is one round of it, cut loose from the log so that it
can run in a thread while the log goes on.
"""

from __future__ import annotations

from bifrost.errors import StorageError
from bifrost.log.disk import Disk, File
from bifrost.log.names import EPOCHS_FILE


class FlushState:
    """What one log owes to the disk, apart from its active file."""

    __slots__ = ("deleted", "directories", "files", "generation")

    def __init__(self) -> None:
        self.files: list[File] = []
        self.directories: list[str] = []
        self.generation = 0
        """Counts truncations: a job that began before one says nothing about what was appended after it."""
        self.deleted = False

    def owe(self, files: list[File], *directories: str) -> None:
        self.files += files
        self.directories += [path for path in directories if path not in self.directories]


class FlushJob:
    """One round for one log. `run` may be called in any thread; everything else belongs to the loop."""

    __slots__ = ("_directory", "_disk", "_epochs", "_paths", "_state", "files", "generation", "offset")

    def __init__(
        self, disk: Disk, directory: str, state: FlushState, *, files: list[File], epochs: bytes | None, offset: int
    ) -> None:
        self.files = state.files + files
        self.offset = offset
        """Everything below it is safe once the job is done."""
        self.generation = state.generation
        self._disk = disk
        self._directory = directory
        self._state = state
        self._epochs = epochs
        self._paths = state.directories
        state.files, state.directories = [], []

    def run(self) -> None:
        """Blocks until everything is on disk. A log that was deleted meanwhile has nothing left to lose."""
        try:
            for file in self.files:
                file.sync()
            if self._epochs is not None:
                self._disk.write_atomic(self._epochs_path(), self._epochs)
            for path in self._paths:
                self._disk.sync_directory(path)
        except StorageError:
            if not self._state.deleted:
                raise

    def prepare(self) -> None:
        """Writes without a sync what is not in a file yet: for a round that ends with a sync of the file system."""
        try:
            if self._epochs is not None:
                self._disk.write_atomic(self._epochs_path(), self._epochs, sync=False)
        except StorageError:
            if not self._state.deleted:
                raise

    def _epochs_path(self) -> str:
        return f"{self._directory}/{EPOCHS_FILE}"
