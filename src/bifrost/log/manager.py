"""All logs of a node: where they are, and what happens to them together.

This file decides in which directory a partition lives, what is read at start and written at stop, and what is left when
a directory fails: its logs are gone for this node, the others go on. It deals in whole logs and never in batches.

Work that takes long leaves the loop: big recoveries go to a worker process, syncs and removals to the executor.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from random import Random
from uuid import UUID

from bifrost.clock import Clock
from bifrost.errors import DiskFullError, StorageError
from bifrost.log.checkpoints import (
    CLEANED_OFFSETS_FILE,
    HIGH_WATERMARKS_FILE,
    RECOVERY_POINTS_FILE,
    encode_topic_id,
)
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.disk import DirectoryInUseError, Disk
from bifrost.log.flusher import Flusher, sync_together
from bifrost.log.future_logs import FutureLogs
from bifrost.log.home import NOT_LISTED, Home
from bifrost.log.log_directory import CopyState, DirectoryState, ForeignDirectoryError, LogDirectory
from bifrost.log.names import METADATA_FILE, partition_directory, sort_out
from bifrost.log.open_files import OPEN_FILES_MAX, OpenFiles, logs_max
from bifrost.log.partition_log import PartitionLog
from bifrost.log.placing import Placing
from bifrost.log.removal import Removal
from bifrost.log.start_offsets import StartOffsets
from bifrost.log.startup import BREATH, recover_directory
from bifrost.log.twins import Twin, second_counts
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)


class LogManager:
    """The logs by partition. Belongs to the loop's thread."""

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[LogDirectory],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: Random,
        cluster_id: str,
        node_id: int,
        config_for: Callable[[str], LogConfig],
        topic_id_for: Callable[[str], UUID | None] = lambda _: None,
        policy: FlushPolicy = FlushPolicy.ACK,
        cordoned: Collection[str] = (),
        on_offline: Callable[[str, StorageError], None] | None = None,
        recovery_pool: Callable[[], Executor] | None = None,
        file_delete_delay_ms: int = 60_000,
        open_files_max: int = OPEN_FILES_MAX,
    ) -> None:
        assert directories
        self.offline: dict[str, StorageError] = {}
        """Directories that failed, and why."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As the checkpoints had them at start; where they are now is their partition's business."""
        self._disk = disk
        self._directories = list(directories)
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._config_for = config_for
        self._topic_id_for = topic_id_for
        self._policy = policy
        self._on_offline = on_offline
        self._recovery_pool = recovery_pool
        self._homes: dict[str, Home] = {}
        self.placing = Placing(self._directories, self._homes, cordoned)
        self._removal = Removal(disk, loop, rng, delay_ms=file_delete_delay_ms, on_failure=self.take_offline)
        self._files = OpenFiles(disk, open_files_max)
        self._logs_max = logs_max(disk)
        self.futures = FutureLogs(
            disk, self._homes, self._removal, files=self._files, clock=clock, rng=rng, policy=policy
        )
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._lost: dict[TopicPartition, str] = {}
        self._storing_cleaned = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self._logs)

    def delay_deletions(self, delay_ms: int) -> None:
        """From now on the files of a deleted log stay for so long."""
        self._removal.delay_ms = delay_ms

    @property
    def directories(self) -> list[LogDirectory]:
        """Those that are in use."""
        return [home.directory for home in self._homes.values()]

    @property
    def all_directories(self) -> list[LogDirectory]:
        """Those of the settings, in their order."""
        return self._directories

    async def describe(self) -> list[DirectoryState]:
        """Every directory of the settings, in their order."""
        found = []
        for path in (directory.path for directory in self._directories):
            space = await self._loop.run_in_executor(None, self._disk.space, path)
            home = self._homes.get(path)
            sizes = None if home is None else {partition: log.size_bytes for partition, log in home.logs.items()}
            copies = (
                {each: CopyState(one.copy.size_bytes, one.lag) for each, one in home.futures.items()} if home else {}
            )
            found.append(DirectoryState(path, sizes, path in self.placing.cordoned, space, copies))
        return found

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """The partition's log, None if there is none here, `StorageError` if its directory failed."""
        log = self._logs.get(partition)
        if log is None and partition in self._lost:
            raise StorageError(self._lost[partition], "the log directory is offline")
        return log

    def directory_id_of(self, partition: TopicPartition) -> bytes | None:
        """The id of the directory that its log is in, or was in when that failed; None if it has none here."""
        log = self._logs.get(partition)
        path = self._lost.get(partition) if log is None else log.directory
        return None if path is None else self.placing.id_of(path)

    async def load(self) -> None:
        """Opens all directories and the logs in them. One that cannot be read goes offline; a foreign one raises."""
        for directory in self._directories:
            flusher = Flusher(self._loop, self._disk, directory.path, self.take_offline)
            starts = StartOffsets(self._loop, directory, self.take_offline)
            home = self._homes[directory.path] = Home(directory, flusher, starts)
            try:
                directory.open(cluster_id=self._cluster_id, node_id=self._node_id, rng=self._rng)
                await self._load_directory(home)
            except (DirectoryInUseError, ForeignDirectoryError):
                for home in self._homes.values():
                    home.directory.release()
                raise
            except StorageError as error:
                self.take_offline(error)

    async def _load_directory(self, home: Home) -> None:
        started = self._loop.time()
        directory = home.directory
        clean = directory.take_clean_marker()
        recovery_points = directory.read_offsets(RECOVERY_POINTS_FILE)
        start_offsets = home.starts.load()
        cleaned_offsets = directory.read_offsets(CLEANED_OFFSETS_FILE)
        self.high_watermarks.update(directory.read_offsets(HIGH_WATERMARKS_FILE))
        found, deleted, strays, futures = sort_out(self._disk.directories(directory.path))
        self.futures.abandoned.update({each: f"{directory.path}/{name}" for each, name in futures.items()})
        for name in deleted:
            self._removal.finish(f"{directory.path}/{name}")
        if strays:
            _log.warning(
                "stray logs wait for an operator directory=%s count=%d first=%s", directory.path, len(strays), strays[0]
            )
        if not clean and (found or recovery_points):  # else the directory is new
            recovery_points = await recover_directory(
                self._disk,
                directory.path,
                found,
                recovery_points=recovery_points,
                start_offsets=start_offsets,
                config_for=self._config_for,
                now_ms=self._clock.now_ms(),
                pool=self._recovery_pool,
            )
            directory.write_offsets(RECOVERY_POINTS_FILE, recovery_points)  # logs may end before the old ones
        home.stored_points = recovery_points
        for number, partition in enumerate(found):
            log = self._open(
                home,
                partition,
                self._config_for(partition.topic),
                recovery_point=recovery_points.get(partition, 0),
                log_start_offset=start_offsets.get(partition, 0),
            )
            if partition not in self._logs or self._settle_twins(log):
                self._take_in(home, log)
                log.first_dirty_offset = min(cleaned_offsets.get(partition, 0), log.log_end_offset)
            if number % BREATH == 0:
                await asyncio.sleep(0)
        _log.info(
            "logs loaded directory=%s partitions=%d clean=%s ms=%d",
            directory.path,
            len(found),
            str(clean).lower(),
            (self._loop.time() - started) * 1000,
        )

    def _settle_twins(self, here: PartitionLog) -> bool:
        """The partition is in two directories. Whether this one counts; the other is stray."""
        there, partition = self._logs[here.partition], here.partition
        one, other = (Twin(log.topic_id, log.epochs.latest, log.log_end_offset) for log in (there, here))
        is_this_one = second_counts(one, other, self._topic_id_for(partition.topic))
        if is_this_one is None:
            raise ForeignDirectoryError(here.directory, "the partition is in another directory too")
        reason = f"another counts, in {posixpath.dirname((here if is_this_one else there).directory)}"
        if is_this_one:
            self.set_aside(partition, reason)
        else:
            here.release()
            self._removal.keep(partition, here.directory, reason)
        return is_this_one

    def _open(
        self,
        home: Home,
        partition: TopicPartition,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> PartitionLog:
        return PartitionLog.open(
            self._disk,
            f"{home.directory.path}/{partition_directory(partition)}",
            partition,
            config,
            clean=True,
            recovery_point=recovery_point,
            now_ms=self._clock.now_ms(),
            log_start_offset=log_start_offset,
            listed_point=home.stored_points.get(partition, NOT_LISTED),
            policy=self._policy,
            files=self._files,
        )

    def _take_in(self, home: Home, log: PartitionLog) -> None:
        home.take_in(log.partition, log)
        self._logs[log.partition] = log
        self._lost.pop(log.partition, None)

    def create(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig, directory_id: bytes = b""
    ) -> PartitionLog:
        """A new, empty log, in the directory of this id if it works; its names are safe with its first flush."""
        assert partition not in self._logs, partition
        home = self.placing.choose(partition, directory_id)
        self.placing.wanted.pop(partition, None)
        home.starts.make_room_for(partition)
        path = f"{home.directory.path}/{partition_directory(partition)}"
        if len(self._logs) >= self._logs_max:
            raise DiskFullError(path, "too many open files: the limit of this process (ulimit -n) has to be raised")
        self._disk.makedirs(path)
        metadata = self._disk.open(f"{path}/{METADATA_FILE}", create=True)
        metadata.write_at(encode_topic_id(topic_id), 0)
        log = self._open(home, partition, config)
        self._take_in(home, log)
        log.owed.owe([metadata], path, home.directory.path)
        home.flusher.mark_dirty(log)
        return log

    def delete(self, partition: TopicPartition) -> None:
        """The partition is gone at once, and its files soon."""
        self._removal.delete(partition, self._let_go(partition))

    def remove_later(self, log: PartitionLog, paths: Sequence[str]) -> None:
        """Files that are of the log no more, renamed; they stay for as long as its topic says."""
        self._removal.delete_files(paths, log.config.file_delete_delay_ms)

    def set_aside(self, partition: TopicPartition, reason: str) -> None:
        """The log is not one that the metadata speaks of: it is served no more, and its files are kept as stray."""
        self._removal.keep(partition, self._let_go(partition), reason)

    def _let_go(self, partition: TopicPartition) -> str:
        """From here on the partition has no log; where its files are."""
        log = self.get(partition)
        assert log is not None, partition
        home = next(home for home in self._homes.values() if home.logs.get(partition) is log)
        self._give_up_copies([partition])
        del self._logs[partition]
        return home.let_go(partition).directory

    def take_offline(self, error: StorageError) -> None:
        """The directory that the error's path is in is not used any more; the others are."""
        home = self.placing.home_of(error.path)
        if home is None:
            return
        path = home.directory.path
        del self._homes[path]
        self.offline[path] = error
        _log.error("log directory offline path=%s partitions=%d error=%r", path, len(home.logs), str(error))
        self.futures.forget(home)
        self._give_up_copies(home.logs)
        for partition, log in home.logs.items():
            del self._logs[partition]
            self._lost[partition] = path
            home.flusher.forget(log)
            log.release()
        home.directory.release()
        if self._on_offline is not None:
            self._on_offline(path, error)

    def _give_up_copies(self, partitions: Collection[TopicPartition]) -> None:
        for future in [one for one in self.futures if one.log.partition in partitions]:
            try:
                self.futures.give_up(future)
            except StorageError as error:
                self.take_offline(error)

    def expire_producers(self) -> None:
        """Forgets idle producers everywhere; to be called every now and then."""
        now_ms = self._clock.now_ms()
        for log in self._logs.values():
            log.producers.expire(now_ms, log.config.producer_id_expiration_ms)

    @property
    def has_unlisted(self) -> bool:
        """Whether there are logs that the checkpoint does not list."""
        return any(home.logs.keys() - home.stored_points.keys() for home in self._homes.values())

    async def checkpoint(self) -> None:
        """Stores how far logs are synced, so that a start after a crash has less to read."""
        for home in list(self._homes.values()):
            home.note_points(points := home.recovery_points())
            if await self._write(home, partial(home.directory.write_offsets, RECOVERY_POINTS_FILE, points)):
                home.points_are_stored(points)
        await self.store_cleaned()

    async def store_cleaned(self) -> None:
        """Stores how far logs are clean, so that it is not all done again after a start."""
        async with self._storing_cleaned:  # two writers would spoil the file
            for home in list(self._homes.values()):
                await self._write(home, partial(home.store_cleaned, home.cleaned_offsets()))

    async def store_starts(self) -> None:
        """Waits until it is on disk where logs begin, if there is room for it."""
        for home in list(self._homes.values()):
            await home.starts.settle()

    async def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Stores the high watermarks that the caller knows, each beside its log."""
        for home in list(self._homes.values()):
            here = {partition: high_watermarks[partition] for partition in home.logs if partition in high_watermarks}
            await self._write(home, partial(home.directory.write_offsets, HIGH_WATERMARKS_FILE, here))

    async def close(self, *, broker_epoch: int = -1) -> None:
        """Stores everything and marks each directory clean. One that fails stays unclean; the next start recovers."""
        self._removal.stop()
        for home in list(self._homes.values()):
            await home.flusher.drain()
            await home.starts.settle()
            home.starts.stop()
            jobs = []
            try:
                for number, log in enumerate(home.logs.values()):
                    log.store()
                    jobs.append((log, log.begin_flush()))
                    if number % BREATH == 0:
                        await asyncio.sleep(0)
                await self._loop.run_in_executor(
                    None, sync_together, self._disk, home.directory.path, [job for _, job in jobs]
                )
                for log, job in jobs:
                    log.finish_flush(job)
                await self._loop.run_in_executor(None, home.store_last_words, broker_epoch)
            except DiskFullError as error:
                _log.warning("log directory left unclean path=%s error=%r", home.directory.path, str(error))
            except StorageError as error:
                self.take_offline(error)
                continue
            for log in home.logs.values():
                log.release()
            home.directory.release()
        self._logs.clear()
        self._homes.clear()

    async def _write(self, home: Home, write: Callable[[], None]) -> bool:
        """Whether it was written."""
        try:
            await self._loop.run_in_executor(None, write)
            return True
        except DiskFullError as error:
            # The checkpoint stays as it was: a start after a crash has a little more to read, and nothing is lost.
            _log.warning("checkpoint not written, disk full path=%s", error.path)
        except StorageError as error:
            if self._homes.get(home.directory.path) is home:
                self.take_offline(error)
        return False
