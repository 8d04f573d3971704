"""Replicas on their way to other log directories of this broker (AlterReplicaLogDirs, KIP-113), driven.

What a copy needs next is asked of `log/future.py`; it is done by threads, piece by piece, and the last of it on the
loop. Pauses between the pieces keep to `replica.alter.log.dirs.io.max.bytes.per.second`. Errors are those of Kafka's
ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final

from bifrost.broker.live_settings import LiveSettings
from bifrost.clock import Clock
from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.log.future import FutureLog
from bifrost.log.home import Home
from bifrost.log.manager import LogManager
from bifrost.replication.core.byte_budget import ByteBudget
from bifrost.replication.followers import Spawn
from bifrost.replication.manager import ReplicaManager
from bifrost.settings import Settings
from bifrost.settings.fields import LONG_MAX
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)

_MS: Final = 1000.0
_PIECE_BYTES: Final = 1 << 19
"""What a thread copies in one go: where batches are small, their headers keep the loop waiting for the interpreter."""
_LAST_BYTES: Final = 1 << 20
"""What may be missing when a copy takes over: it is copied on the loop, in a millisecond or so."""
_AT_ONCE: Final = 2
"""Pieces that are copied side by side; the other threads are for those who read and sync."""
_NAME_BYTES_MAX: Final = 255
_WANTED_MAX: Final = 10_000
"""Places that are remembered for logs which do not exist."""
_FULL_PAUSE_S: Final = 1.0


class LogMoves:
    """One for each broker."""

    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        live: LiveSettings,
        clock: Clock,
        *,
        on_storage_error: Callable[[StorageError], None],
        on_moved: Callable[[TopicPartition], None],
        spawn: Spawn,
        stops_within: Callable[[float], Awaitable[bool]],
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._on_storage_error = on_storage_error
        self._on_moved = on_moved
        self._spawn = spawn
        self._stops_within = stops_within
        self._loop = asyncio.get_running_loop()
        self._lanes = asyncio.Semaphore(_AT_ONCE)
        self._budget = ByteBudget()
        live.follow(self._set_rate)

    def request(self, tp: TopicPartition, path: str) -> ErrorCode:
        """Somebody wants the replica to be in this directory; the answer. A log that is not here yet will be made
        there."""
        if len(f"{tp}.-future") + 32 > _NAME_BYTES_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        try:
            home = self._find(path)
            future = self._logs.futures.get(tp)
            if future is not None and future.home is not home:
                self._logs.futures.give_up(future)
            self._remember(tp, home)
            log = self._replicas.get(tp).log
            if self._logs.placing.home_of(log.directory) is not home and self._logs.futures.get(tp) is None:
                self._begin(tp, home)
        except ApiError as refused:
            # Kafka has kept the code from before there was another for it.
            is_elsewhere = refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else refused.code
        except StorageError as error:
            self._on_storage_error(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def resume(self) -> None:
        """At start: what an earlier process was moving goes on, from the beginning."""
        futures = self._logs.futures
        for tp in list(futures.abandoned):
            if self._replicas.find(tp) is None:
                _log.warning("copy of a log that is not here is left alone path=%s", futures.abandoned[tp])
                continue
            self.request(tp, os.path.abspath(futures.discard_abandoned(tp)))

    def _find(self, path: str) -> Home:
        """The directory that is called so, in full."""
        known = {os.path.abspath(one.path): one.path for one in self._logs.all_directories}
        if path not in known:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, path)
        home = self._logs.placing.home_of(known[path])
        if home is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline")
        return home

    def _remember(self, tp: TopicPartition, home: Home) -> None:
        """Kafka: LogManager.maybeUpdatePreferredLogDir."""
        wanted = self._logs.placing.wanted
        wanted.pop(tp, None)
        if tp not in home.logs and tp not in home.futures:
            if len(wanted) >= _WANTED_MAX:
                del wanted[next(iter(wanted))]
            wanted[tp] = home.directory.path

    def _begin(self, tp: TopicPartition, home: Home) -> None:
        if self._logs.offline:
            # Another copy of it may be in the directory that failed.
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{next(iter(self._logs.offline))} is offline")
        log = self._logs.get(tp)
        assert log is not None, tp
        future = self._logs.futures.begin(log, home)
        self._logs.placing.wanted.pop(tp, None)
        self._spawn(self._move(future), f"move of {tp}")

    async def _move(self, future: FutureLog) -> None:
        """Until the log lives there, or that is given up, or the node stops."""
        tp, pause_s = future.log.partition, 0.0
        while not future.is_given_up and not await self._stops_within(pause_s):
            try:
                async with self._lanes:
                    if future.is_given_up or await self._advance(future):
                        return
                pause_s = self._budget.wait_ms(self._now_ms()) / _MS
            except DiskFullError as full:
                _log.warning("no room for a log that moves here tp=%s path=%s", tp, full.path)
                pause_s = _FULL_PAUSE_S
            except (ApiError, StorageError) as error:
                if not future.is_given_up:
                    self._fail(future, error)
                return

    async def _advance(self, future: FutureLog) -> bool:
        """One piece; whether it was the last one."""
        run, futures = self._loop.run_in_executor, self._logs.futures
        piece = future.next_piece(_PIECE_BYTES)
        if piece is not None:
            self._budget.spend(await run(None, future.perform, piece, self._clock.now_ms()), self._now_ms())
            return False
        if future.note_start():
            future.home.starts.note(future.copy)
            await future.home.starts.settle()
        await run(None, future.flush)
        if future.is_given_up or not future.is_nearly_equal(_LAST_BYTES):
            return False
        moved = futures.take_over(future)
        self._logs.placing.wanted.pop(future.log.partition, None)
        await run(None, moved.make_safe)
        futures.finish(moved)
        self._on_moved(future.log.partition)
        return True

    def _fail(self, future: FutureLog, error: ApiError | StorageError) -> None:
        tp = future.log.partition
        _log.error("log not moved tp=%s to=%s error=%r", tp, future.home.directory.path, str(error))
        if isinstance(error, StorageError):
            self._on_storage_error(error)
        try:
            self._logs.futures.give_up(future)
        except StorageError as also:
            self._on_storage_error(also)

    def _set_rate(self, settings: Settings) -> None:
        rate = settings.replica_alter_log_dirs_io_max_bytes_per_second
        wanted = None if rate == LONG_MAX else rate
        if wanted != self._budget.rate:
            self._budget.set_rate(wanted, self._now_ms())

    def _now_ms(self) -> float:
        return self._loop.time() * _MS
