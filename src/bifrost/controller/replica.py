"""The metadata as this node knows it: what the quorum has committed, applied in order, and told to whoever acts on it.

Every node has one, whether it votes, leads or only follows: there is one way in which an image changes. The image is
one object for the life of the node. Whoever keeps it sees it change between two awaits, and is told of the difference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from bifrost.controller.core.configs import config_note
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import ConfigChanged, MetadataRecord, UnreadableChangeError, decode_change
from bifrost.controller.core.snapshot import restore
from bifrost.errors import StorageError

_log = logging.getLogger(__name__)

Subscriber = Callable[[MetadataImage, Delta], None]


class Changes(Protocol):
    """The quorum's log, as far as it concerns whoever applies it."""

    @property
    def name(self) -> str:
        """Where it is, for messages."""

    def changes(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Every value from `start` to `end`, which is committed, with its offset."""


class MetadataReplica:
    """An image that follows the log."""

    def __init__(self, log: Changes) -> None:
        self.image = MetadataImage()
        self.next_offset = 0
        """Everything below it is in the image."""
        self._log = log
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` after every change from now on, on the loop, before anybody is answered.

        It must not raise: what it cannot do about a change is its own affair, the change is committed.
        """
        self._subscribers.append(subscriber)

    def on_commit(self, end_offset: int) -> None:
        """Everything below `end_offset` is committed. StorageError if a change cannot be read: an image with a hole
        in it must not be served."""
        delta = Delta()
        notes: list[MetadataRecord] = []
        for offset, value in self._log.changes(self.next_offset, end_offset):
            for record in self._decode(value, f"the change at offset {offset}"):
                self.image.apply(record, offset, delta)
                if isinstance(record, ConfigChanged):
                    notes.append(record)
        self.next_offset = end_offset
        if delta:
            _log_changes(delta)
            _log_notes(notes)
            self._publish(delta)

    def on_snapshot(self, changes: Iterable[bytes], end_offset: int) -> None:
        """The quorum has sent what everything before `end_offset` adds up to, in place of what it has forgotten."""
        try:
            records = (decode_change(value) for value in changes)
            restored = restore(records, end_offset - 1)
        except UnreadableChangeError as error:
            raise StorageError(self._log.name, f"the snapshot up to offset {end_offset}: {error}") from None
        delta = Delta.between(self.image, restored)
        self.image.become(restored)
        self.next_offset = end_offset
        _log.info("metadata restored offset=%d topics=%d brokers=%d", end_offset, len(restored.topics),
                  len(restored.brokers))  # fmt: skip
        self._publish(delta)

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
                owner = "topic" if record.resource_type == TOPIC_RESOURCE else "broker"
                _log.warning(
                    "config accepted %s=%s config=%s value=%s note=%s",
                    owner, record.resource_name or "(all)", record.name, record.value, note,
                )  # fmt: skip
