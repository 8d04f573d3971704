"""When a node writes a snapshot of its metadata, and how: whoever starts, or was away, need not read everything then.

Every node does so for itself, the leader like the others, once enough was committed since the last one, or long enough
ago. The image is copied at once, which is cheap, and written down a little at a time, while it goes on changing; a
thread writes the file.

A snapshot that cannot be written costs nothing but time at the next start: it is told, and tried again later.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bifrost.clock import Clock
from bifrost.controller.core.records import encode_change
from bifrost.controller.core.snapshot import image_records
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import StorageError
from bifrost.raft.core.messages import SnapshotId
from bifrost.raft.storage import RaftStorage

_log = logging.getLogger(__name__)

_RETRY_S: Final = 60.0
_MS: Final = 1000.0


class SnapshotTaker:
    """Belongs to one replica of the metadata. `interval_ms` may be 0, for never."""

    def __init__(
        self, replica: MetadataReplica, storage: RaftStorage, clock: Clock, *, bytes_between: int, interval_ms: int
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._clock = clock
        self._bytes_between = bytes_between
        self._interval_s = interval_ms / _MS
        self._loop = asyncio.get_running_loop()
        self._last_at = self._loop.time()
        self._wakeup = asyncio.Event()
        self._stopped = False

    def on_commit(self) -> None:
        """More is committed and applied."""
        if self._replica.bytes_since_snapshot >= self._bytes_between:
            self._wakeup.set()

    async def run(self) -> None:
        """Take snapshots until `close`."""
        while not self._stopped:
            await self._wait(self._until_due_s())
            if self._stopped or self._until_due_s() > 0:
                continue
            try:
                await self._take()
            except StorageError as error:
                _log.error("metadata snapshot not written path=%s detail=%r", error.path, error.detail)
                await self._wait(_RETRY_S, ignoring_commits=True)

    def close(self) -> None:
        self._stopped = True
        self._wakeup.set()

    def _until_due_s(self) -> float:
        newest = self._storage.snapshot
        if self._replica.next_offset <= (0 if newest is None else newest.end_offset):
            return _RETRY_S
        if not self._replica.is_between_batches:
            return _RETRY_S  # whoever began with it would be sent the whole batch again, which its log cannot take
        if self._replica.bytes_since_snapshot >= self._bytes_between:
            return 0
        return max(self._last_at + self._interval_s - self._loop.time(), 0) if self._interval_s else _RETRY_S

    async def _wait(self, seconds: float, *, ignoring_commits: bool = False) -> None:
        end = self._loop.time() + seconds
        while not self._stopped and self._loop.time() < end:
            self._wakeup.clear()
            try:
                await asyncio.wait_for(self._wakeup.wait(), end - self._loop.time())
            except TimeoutError:
                return
            if not ignoring_commits:
                return

    async def _take(self) -> None:
        replica, storage = self._replica, self._storage
        image, end_offset, covered = replica.image.copy(), replica.next_offset, replica.bytes_since_snapshot
        snapshot = SnapshotId(end_offset, storage.epoch_before(end_offset))
        changes = []
        for records in image_records(image):
            changes.append([encode_change(records)])
            await asyncio.sleep(0)
            if self._stopped:
                return
        await self._loop.run_in_executor(None, storage.snapshots.write, snapshot, changes, self._clock.now_ms())
        self._last_at = self._loop.time()
        newest = storage.snapshot
        if newest is not None and newest.end_offset >= end_offset:  # the leader has sent a better one meanwhile
            storage.snapshots.discard(snapshot)
            return
        storage.snapshots.add(snapshot)
        storage.on_snapshot()
        replica.bytes_since_snapshot -= covered
        _log.info("metadata snapshot taken end_offset=%d epoch=%d topics=%d", *snapshot, len(image.topics))
