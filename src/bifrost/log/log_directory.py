"""One of the directories in `log.dirs`: who owns it, and the files that speak for all logs in it.

This file decides whether a directory may be used: it must not be in use, and its `meta.properties` must name this
cluster and this node, or nothing. It keeps the lock, the clean-shutdown marker and the offset checkpoints. It never
touches a partition.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from bifrost.errors import StorageError
from bifrost.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    CorruptCheckpointError,
    decode_clean_shutdown,
    decode_offsets,
    decode_properties,
    decode_uuid,
    encode_clean_shutdown,
    encode_offsets,
    encode_properties,
    encode_uuid,
)
from bifrost.log.disk import DirectoryInUseError, Disk, Lock, Space
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
_META_VERSION: Final = "1"


class ForeignDirectoryError(StorageError):
    """The directory belongs to another cluster or node: starting on it would mix two clusters' data."""


class CopyState(NamedTuple):
    """A copy of a log that is to live in this directory."""

    size_bytes: int
    offset_lag: int


class DirectoryState(NamedTuple):
    """A log directory as an administrator sees it."""

    path: str
    sizes: Mapping[TopicPartition, int] | None
    """Of the logs in it; None when it is offline."""
    is_cordoned: bool
    space: Space
    copies: Mapping[TopicPartition, CopyState]


class LogDirectory:
    """A directory that is locked from `claim`, and known to be ours from `open`, until `release`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.directory_id: UUID | None = None
        self.broker_epoch = -1
        """That of the node when it was last stopped cleanly, -1 if it was not."""
        self._disk = disk
        self._lock: Lock | None = None
        self._written: dict[str, bytes] = {}

    def claim(self) -> None:
        """Nobody else may use the directory from now on; `DirectoryInUseError` if somebody does."""
        if self._lock is None:
            self._make()
            self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")

    def open(self, *, cluster_id: str, node_id: int, rng: Random) -> None:
        """Claim the directory and see that it belongs to this cluster and node; a new one does from now on."""
        self.claim()
        path = f"{self.path}/{META_PROPERTIES_FILE}"
        found: dict[str, str] = {}
        if self._disk.exists(path):
            try:
                found = decode_properties(self._disk.read_bytes(path))
                directory_id = found.get("directory.id")
                self.directory_id = decode_uuid(directory_id) if directory_id else None
            except CorruptCheckpointError as error:
                raise ForeignDirectoryError(path, str(error)) from error
        wanted = {"version": _META_VERSION, "cluster.id": cluster_id, "node.id": str(node_id)}
        for name, value in wanted.items():
            if found.get(name, value) != value:
                raise ForeignDirectoryError(path, f"{name} is {found[name]}, this node's is {value}")
        if self.directory_id is None:
            self.directory_id = new_directory_id(rng)
            wanted["directory.id"] = encode_uuid(self.directory_id)
            self._disk.write_atomic(path, encode_properties({**found, **wanted}))

    def _make(self) -> None:
        """Creates the directory if need be; then its name is safe, and those of its parents that had to be made."""
        missing = []
        path = self.path
        while not self._disk.exists(path):
            missing.append(path)
            path = posixpath.dirname(path) or "."
        if missing:
            self._disk.makedirs(self.path)
            for made in missing:
                self._disk.sync_directory(posixpath.dirname(made) or ".")

    def take_clean_marker(self) -> bool:
        """Whether the last run ended cleanly. The marker is gone, durably, before anything is written."""
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        if not self._disk.exists(path):
            return False
        self.broker_epoch = decode_clean_shutdown(self._disk.read_bytes(path))
        self._disk.remove(path)
        self._disk.sync_directory(self.path)
        return True

    def mark_clean(self, broker_epoch: int) -> None:
        """To be called last: everything in the directory is stored and synced."""
        self._disk.write_atomic(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", encode_clean_shutdown(broker_epoch))

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint; nothing if it is not there or cannot be read, which costs time or a little history."""
        path = f"{self.path}/{name}"
        if not self._disk.exists(path):
            return {}
        try:
            return decode_offsets(self._disk.read_bytes(path))
        except CorruptCheckpointError as error:
            _log.warning("checkpoint ignored path=%s reason=%r", path, str(error))
            return {}

    def has(self, name: str) -> bool:
        return self._disk.exists(f"{self.path}/{name}")

    def write_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces a checkpoint, unless it says the same already. Blocks."""
        data = encode_offsets(offsets)
        if self._written.get(name) != data:
            self._disk.write_atomic(f"{self.path}/{name}", data)
            self._written[name] = data

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def claim_directories(disk: Disk, paths: Iterable[str]) -> list[LogDirectory]:
    """Lock them before anything is read: a second node on the same files would ruin them. DirectoryInUseError.

    One that cannot even be locked is for its user to find out about: the log manager takes it offline.
    """
    directories = [LogDirectory(disk, path) for path in paths]
    for directory in directories:
        try:
            directory.claim()
        except DirectoryInUseError:
            for claimed in directories:
                claimed.release()
            raise
        except StorageError:
            continue
    return directories


def new_directory_id(rng: Random) -> UUID:
    """A random id whose text form no command line takes for an option (Kafka: Uuid.randomUuid)."""
    while True:
        candidate = UUID(bytes=rng.randbytes(16), version=4)
        if not encode_uuid(candidate).startswith("-"):
            return candidate
