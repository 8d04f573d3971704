"""The copies of logs that are on their way to other directories: how they begin, take over, and are given up.

The order of names is what makes a crash harmless at every step. The copy gets the log's name while the old files still
have theirs, in another directory. From then on the log is written to in the new place, but nothing of that counts as
safe before all of it, its name included, is. Only then the old files are renamed. Whoever starts between the two
finds both, and takes the one that has more (`twins.py`): all that was ever acknowledged is in either. A copy that was
not finished is thrown away by a start, and made again (Kafka goes on with it).
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator, Mapping
from random import Random
from uuid import UUID

from bifrost.clock import Clock
from bifrost.log.checkpoints import encode_topic_id
from bifrost.log.config import FlushPolicy
from bifrost.log.disk import Disk
from bifrost.log.flush_job import FlushJob
from bifrost.log.future import FutureLog
from bifrost.log.home import NOT_LISTED, Home
from bifrost.log.names import METADATA_FILE, future_directory, partition_directory
from bifrost.log.open_files import OpenFiles
from bifrost.log.partition_log import PartitionLog
from bifrost.log.removal import Removal
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)


class Moved:
    """A log that lives in another directory from now on, as soon as that is safe."""

    __slots__ = ("_job", "left", "log", "new", "old")

    def __init__(self, log: PartitionLog, left: str, old: Home, new: Home) -> None:
        self.log = log
        self.left = left
        """Where the old files are."""
        self.old = old
        self.new = new
        self._job: FlushJob = log.begin_flush()

    def make_safe(self) -> None:
        """Blocks until the new files are on disk, under their name."""
        self._job.run()

    def tell(self) -> None:
        """They are: whoever waits for that may hear of it."""
        self.log.finish_flush(self._job)


class FutureLogs:
    """All copies of a node. Belongs to the loop's thread."""

    def __init__(
        self,
        disk: Disk,
        homes: Mapping[str, Home],
        removal: Removal,
        *,
        files: OpenFiles,
        clock: Clock,
        rng: Random,
        policy: FlushPolicy,
    ) -> None:
        self.abandoned: dict[TopicPartition, str] = {}
        """Copies that an earlier process left unfinished."""
        self._disk = disk
        self._homes = homes
        self._removal = removal
        self._files = files
        self._clock = clock
        self._rng = rng
        self._policy = policy

    def __iter__(self) -> Iterator[FutureLog]:
        return (future for home in self._homes.values() for future in home.futures.values())

    def get(self, partition: TopicPartition) -> FutureLog | None:
        """The copy of its log, if there is one."""
        return next((home.futures[partition] for home in self._homes.values() if partition in home.futures), None)

    def begin(self, log: PartitionLog, home: Home) -> FutureLog:
        """A copy in this directory, empty so far. `StorageError` if it cannot be made."""
        partition = log.partition
        assert self.get(partition) is None, partition
        home.starts.make_room_for(partition)
        path = f"{home.directory.path}/{future_directory(partition, f'{self._rng.getrandbits(128):032x}')}"
        self._disk.makedirs(path)
        metadata = self._disk.open(f"{path}/{METADATA_FILE}", create=True)
        metadata.write_at(encode_topic_id(log.topic_id or UUID(int=0)), 0)
        copy = PartitionLog.open(
            self._disk,
            path,
            partition,
            log.config,
            clean=True,
            recovery_point=0,
            now_ms=self._clock.now_ms(),
            log_start_offset=log.log_start_offset,
            listed_point=home.stored_points.get(partition, NOT_LISTED),  # of a log that was here before
            policy=self._policy,
        )
        copy.owed.owe([metadata], path)
        future = home.futures[partition] = FutureLog(log, copy, home)
        _log.info("log moves partition=%s from=%s to=%s", partition, log.directory, path)
        return future

    def give_up(self, future: FutureLog) -> None:
        """The log stays where it is; what there is of the copy goes. `StorageError` if it cannot even be renamed."""
        if future.is_given_up:
            return
        future.is_given_up = True
        partition, home = future.log.partition, future.home
        home.futures.pop(partition, None)
        home.starts.forget(partition, future.copy)
        future.copy.release()
        if self._homes.get(home.directory.path) is home:  # else its directory has failed
            self._removal.delete(partition, future.copy.directory)

    def forget(self, home: Home) -> None:
        """The directory has failed: no copy in it goes on, and none of a log in it."""
        for future in home.futures.values():
            future.is_given_up = True
        home.futures.clear()

    def take_over(self, future: FutureLog) -> Moved:
        """The copy, which is equal to the log by now, is the log from here on. `StorageError`: nothing has changed."""
        log, copy, new = future.log, future.copy, future.home
        partition, left = log.partition, log.directory
        old = self._homes[posixpath.dirname(left)]
        directory = f"{new.directory.path}/{partition_directory(partition)}"
        if self._disk.exists(directory):
            self._removal.keep(partition, directory, "in the way of a log that moves here")
        self._disk.rename(copy.directory, directory)
        del new.futures[partition], old.logs[partition]
        old.flusher.forget(log)
        log.continue_as(copy, directory, self._files)
        log.on_dirty, log.on_start_moved = None, new.starts.note
        new.logs[partition] = log
        return Moved(log, left, old, new)

    def finish(self, moved: Moved) -> None:
        """The new files are safe, so the old ones are not needed. `StorageError` if they cannot be renamed."""
        log, partition = moved.log, moved.log.partition
        if moved.new.logs.get(partition) is log:  # else it was deleted, or its new directory has failed
            moved.new.take_in(partition, log)
            moved.new.flusher.mark_dirty(log)
            moved.tell()
        if self._homes.get(moved.new.directory.path) is not moved.new:
            return  # the old files may be all that is left
        if self._homes.get(moved.old.directory.path) is moved.old:
            self._removal.delete(partition, moved.left)
            moved.old.starts.forget(partition, log)
        _log.info("log moved partition=%s from=%s to=%s", partition, moved.left, log.directory)

    def discard_abandoned(self, partition: TopicPartition) -> str:
        """The files of a copy that an earlier process left go; in which directory they are."""
        path = self.abandoned.pop(partition)
        self._removal.finish(path)
        return posixpath.dirname(path)
