"""The metadata as this node knows it: what the quorum has committed, applied in order, and told to whoever acts on it.

Every node has one, whether it votes, leads or only follows: there is one way in which an image changes. The image is
one object for the life of the node. Whoever keeps it sees it change between two awaits, and is told of the difference.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

from bifrost.controller.core.configs import RESOURCES, config_note
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import ConfigChanged, MetadataRecord, UnreadableChangeError, decode_change
from bifrost.controller.core.snapshot import Restoration
from bifrost.errors import StorageError
from bifrost.raft.core.messages import SnapshotId
from bifrost.raft.metadata_log import Entry, EpochBegun

_log = logging.getLogger(__name__)

Subscriber = Callable[[MetadataImage, Delta], None]


class Changes(Protocol):
    """The quorum's log, as far as it concerns whoever applies it."""

    @property
    def name(self) -> str:
        """Where it is, for messages."""

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Everything from `start` to `end`, which is committed."""


class Witness(Protocol):
    """Sees every change by itself, where a subscriber sees what many of them add up to."""

    def on_change(
        self, image: MetadataImage, change: Sequence[MetadataRecord] | EpochBegun, *, offset: int, at_ms: int
    ) -> None:
        """A committed change is about to be applied to the image, which must be left alone."""

    def on_restored(self, next_offset: int) -> None:
        """What happened before `next_offset` is not to be had, only what came of it."""


class MetadataReplica:
    """An image that follows the log."""

    def __init__(self, log: Changes) -> None:
        self.image = MetadataImage()
        self.next_offset = 0
        """Everything below it is in the image."""
        self.bytes_since_snapshot = 0
        """How much a start would have to apply, besides the newest snapshot; set back by whoever takes one."""
        self._log = log
        self._unread: tuple[int, Iterator[Entry]] | None = None  # what a call left, and up to where
        self._subscribers: list[Subscriber] = []
        self._witnesses: list[Witness] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` after every change from now on, on the loop, before anybody is answered.

        It must not raise: what it cannot do about a change is its own affair, the change is committed.
        """
        self._subscribers.append(subscriber)

    def let_witness(self, witness: Witness) -> None:
        """Tell `witness` of every change from now on, before anybody else. It must not raise either."""
        self._witnesses.append(witness)
        witness.on_restored(self.next_offset)

    @property
    def is_between_batches(self) -> bool:
        """Whether all that was committed together is applied, or none of it. Only there a log can begin anew."""
        return self._unread is None

    def on_commit(self, end_offset: int, bytes_max: int | None = None) -> int:
        """Everything below `end_offset` is committed. How far the image has come: with `bytes_max` only so much is
        applied at a time, one change at least, and the caller comes again.

        StorageError if a change cannot be read: an image with a hole in it must not be served.
        """
        delta = Delta()
        notes: list[MetadataRecord] = []
        applied_bytes = 0
        entries = self._entries(end_offset)
        for entry in entries:
            if bytes_max is not None and applied_bytes >= bytes_max:
                self._unread = (end_offset, chain((entry,), entries))  # nobody has been told of it
                end_offset = entry.offset
                break
            if isinstance(entry.value, EpochBegun):
                self._tell_witnesses(entry, entry.value)
                continue
            applied_bytes += len(entry.value)
            records = self._decode(entry.value, f"the change at offset {entry.offset}")
            self._tell_witnesses(entry, records)
            for record in records:
                self.image.apply(record, entry.offset, delta)
                if isinstance(record, ConfigChanged):
                    notes.append(record)
        self.next_offset = end_offset
        self.bytes_since_snapshot += applied_bytes
        if delta:
            _log_changes(delta)
            _log_notes(notes)
            self._publish(delta)
        return end_offset

    def _entries(self, end_offset: int) -> Iterator[Entry]:
        """What is to be applied; to begin anew costs reading the whole batch."""
        unread, self._unread = self._unread, None
        if unread is not None and unread[0] == end_offset:
            return unread[1]
        return self._log.entries(self.next_offset, end_offset)

    def on_snapshot(self, changes: Iterable[bytes], end_offset: int) -> None:
        """What everything before `end_offset` adds up to, at the start of a node: nobody waits for anything else."""
        restoration = Restoration(end_offset - 1)
        for value in changes:
            restoration.apply(self._decode(value, f"the snapshot up to offset {end_offset}"))
        self._install(self._restored(restoration), end_offset)

    async def load_snapshot(self, snapshot: SnapshotId, changes: Iterable[bytes]) -> Callable[[], None]:
        """The quorum has sent a snapshot in place of what it has forgotten: read it, and let others work meanwhile."""
        restoration = Restoration(snapshot.end_offset - 1)
        for value in changes:
            restoration.apply(self._decode(value, f"the snapshot up to offset {snapshot.end_offset}"))
            await asyncio.sleep(0)
        return partial(self._install, self._restored(restoration), snapshot.end_offset)

    def _restored(self, restoration: Restoration) -> MetadataImage:
        try:
            return restoration.image()
        except UnreadableChangeError as error:
            raise StorageError(self._log.name, str(error)) from None

    def _install(self, restored: MetadataImage, end_offset: int) -> None:
        delta = Delta.between(self.image, restored)
        self.image.become(restored)
        self.next_offset = end_offset
        self._unread = None
        self.bytes_since_snapshot = 0
        for witness in self._witnesses:
            witness.on_restored(end_offset)
        _log.info("metadata restored offset=%d topics=%d brokers=%d", end_offset, len(restored.topics),
                  len(restored.brokers))  # fmt: skip
        self._publish(delta)

    def _tell_witnesses(self, entry: Entry, change: Sequence[MetadataRecord] | EpochBegun) -> None:
        for witness in self._witnesses:
            witness.on_change(self.image, change, offset=entry.offset, at_ms=entry.timestamp_ms)

    def _publish(self, delta: Delta) -> None:
        for subscriber in self._subscribers:
            subscriber(self.image, delta)

    def _decode(self, value: bytes, what: str) -> list[MetadataRecord]:
        try:
            return decode_change(value)
        except UnreadableChangeError as error:
            raise StorageError(self._log.name, f"{what}: {error}") from None


def _log_changes(delta: Delta) -> None:
    for topic in delta.topics_deleted.values():
        _log.info("topic deleted name=%s id=%s", topic.name, topic.topic_id.hex())
    for topic in delta.topics_created.values():
        _log.info("topic created name=%s id=%s partitions=%d", topic.name, topic.topic_id.hex(), len(topic.partitions))
    for broker_id in delta.brokers:
        _log.info("broker changed id=%d", broker_id)
    for resource_type, name in delta.configs:
        _log.info("configs changed type=%d name=%s", resource_type, name)


def _log_notes(records: Iterable[MetadataRecord]) -> None:
    """Whoever sets what nothing acts on should not have to find that out from what does not happen."""
    for record in records:
        if isinstance(record, ConfigChanged) and record.value is not None:
            note = config_note(record)
            if note:
                _log.warning(
                    "config accepted %s=%s config=%s value=%s note=%s",
                    RESOURCES[record.resource_type], record.resource_name or "(all)", record.name, record.value, note,
                )  # fmt: skip
