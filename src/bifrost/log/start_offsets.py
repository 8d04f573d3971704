"""Where logs begin, kept on disk: `log-start-offset-checkpoint`.

This file decides when that is written: as soon as a log's start has moved, and one write at a time for all logs of a
directory. Kafka writes it once a minute. Here a log that was told to begin later says so to others only once a loss of
power cannot take it back (`PartitionLog.stored_start_offset`), so that what somebody deleted never returns.

An entry stays even where the name of the first segment tells the same, until the node stops in order: names of
segments that were removed may be back after a loss of power.

Must never: leave the start of a deleted log for another one of its name. That would begin where it has nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from bifrost.errors import DiskFullError, StorageError
from bifrost.log.checkpoints import LOG_START_OFFSETS_FILE
from bifrost.log.log_directory import LogDirectory
from bifrost.log.partition_log import PartitionLog
from bifrost.types import TopicPartition

_log = logging.getLogger(__name__)

_PAUSE_S: Final = 1.0
"""Before it is tried again on a full disk."""


class StartOffsets:
    """The starts of the logs in one directory. Belongs to the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        directory: LogDirectory,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._loop = loop
        self._directory = directory
        self._on_failure = on_failure
        self._starts: dict[TopicPartition, int] = {}
        self._stored: Mapping[TopicPartition, int] = {}
        """What the file holds, or will hold once the write that is under way is over."""
        self._moved: dict[PartitionLog, None] = {}
        self._is_writing = False
        self._is_waiting = False
        self._idle: asyncio.Future[None] | None = None
        self._next_try: asyncio.TimerHandle | None = None

    def load(self) -> Mapping[TopicPartition, int]:
        """What the file says."""
        self._stored = self._directory.read_offsets(LOG_START_OFFSETS_FILE)
        self._starts = dict(self._stored)
        return self._stored

    def note(self, log: PartitionLog) -> None:
        """The log begins elsewhere now. It is written when this turn of the loop is over, with all that it brings."""
        self._starts[log.partition] = log.log_start_offset
        self._moved[log] = None
        self._write_soon()

    def forget(self, partition: TopicPartition, log: PartitionLog | None = None) -> None:
        """There is no such log here any more."""
        if log is not None:
            self._moved.pop(log, None)
        if self._starts.pop(partition, None) is not None:
            self._write_soon()

    def make_room_for(self, partition: TopicPartition) -> None:
        """A log of this name is about to be made: whatever the file says of it is of another one. Blocks, if at all."""
        self._starts.pop(partition, None)
        if partition not in self._stored:
            return
        if self._is_writing:  # two writers would spoil the file; it is a matter of milliseconds
            raise DiskFullError(self._directory.path, f"the start of a deleted {partition} is being forgotten")
        self._stored = dict(self._starts)
        self._directory.write_offsets(LOG_START_OFFSETS_FILE, self._stored)

    async def settle(self) -> None:
        """Waits until all that has moved is on disk, or the disk has refused it."""
        while self._is_writing and not self._is_waiting:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def stop(self) -> None:
        """Nothing more is written of its own accord."""
        if self._next_try is not None:
            self._next_try.cancel()

    def store_last(self, first_offsets: Mapping[TopicPartition, int]) -> None:
        """The last word of a stop in order, when every name is safe: only what names do not tell. Blocks."""
        told = {each: start for each, start in self._starts.items() if start > first_offsets.get(each, start)}
        self._directory.write_offsets(LOG_START_OFFSETS_FILE, told)

    def _write_soon(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_waiting = False
        if not self._moved and self._stored == self._starts:
            self._is_writing = False
            self._tell_idle()
            return
        moved, self._moved = {log: log.log_start_offset for log in self._moved}, {}
        self._stored = starts = dict(self._starts)
        writing = self._loop.run_in_executor(None, self._directory.write_offsets, LOG_START_OFFSETS_FILE, starts)
        writing.add_done_callback(lambda done: self._on_written(done, moved))

    def _on_written(self, done: asyncio.Future[None], moved: dict[PartitionLog, int]) -> None:
        if done.cancelled():
            return  # the executor was shut down: nobody knows what was written
        try:
            done.result()
        except DiskFullError as error:
            _log.warning("starts of logs not stored, disk full path=%s", error.path)
            self._moved.update(dict.fromkeys(moved))
            self._is_waiting = True
            self._tell_idle()
            self._next_try = self._loop.call_later(_PAUSE_S, self._write)
            return
        except StorageError as error:
            self._is_writing = False
            self._tell_idle()
            self._on_failure(error)
            return
        for log, offset in moved.items():
            log.start_is_stored(offset)
        self._write()

    def _tell_idle(self) -> None:
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
