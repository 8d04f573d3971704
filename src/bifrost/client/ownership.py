"""Which partitions a consumer owns, and what happens when they come and go.

A partition that goes takes along what was fetched of it, and what of it was handled is committed before somebody else
starts to read it. The application's callbacks run inside librdkafka's `consume()`, which throws the messages of that
call away when one of them raises: so what they raise is kept, and raised when the messages are safe.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from bifrost.client.committer import Committer
from bifrost.client.errors import BifrostError
from bifrost.client.inbox import Inbox
from bifrost.client.progress import Progress
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RawConsumer
    from confluent_kafka import TopicPartition as RawPartition

logger = logging.getLogger(__name__)

Callback = Callable[[list[TopicPartition]], object] | None

SETTLE_TIMEOUT_S: Final = 10.0
"""How long a rebalance waits for the last commit of the partitions that go."""


class Callbacks(NamedTuple):
    """What the application wants to be told."""

    assigned: Callback = None
    revoked: Callback = None
    lost: Callback = None


class Ownership:
    """The partitions of one consumer."""

    def __init__(
        self,
        raw: RawConsumer,
        inbox: Inbox,
        progress: Progress,
        committer: Committer,
        callbacks: Callbacks,
        *,
        settles: bool,
        cooperative: bool,
    ) -> None:
        self._raw = raw
        self._inbox = inbox
        self._progress = progress
        self._committer = committer
        self._callbacks = callbacks
        self._settles = settles
        self._cooperative = cooperative
        self._subscribed = False
        self.more_to_come = False
        """Whether somebody adds partitions as they appear; there may be none yet."""
        self._failure: BaseException | None = None
        self.assigned: set[TopicPartition] = set()
        self.ended: set[TopicPartition] = set()
        """Those that were read to their end at least once."""
        self.gone: set[TopicPartition] = set()
        """Those that went during the current call of librdkafka."""
        self.calling_back = False
        """Whether the application is in one of its callbacks."""
        self.starts: dict[TopicPartition, int] | None = None
        """During `on_assigned`: where to start instead of at the committed offset."""

    @property
    def is_set(self) -> bool:
        """Whether there is anything to read, now or once the group says so."""
        return self._subscribed or self.more_to_come or bool(self.assigned)

    def subscribe(self, names: list[str]) -> None:
        """Let the group decide; a name that starts with ^ is a pattern."""
        self.release_all()
        self._subscribed = True
        self._raw.subscribe(names, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def assign(self, starts: Mapping[TopicPartition, int], *, more_to_come: bool = False) -> None:
        """Own exactly these, from these offsets on; negative offsets are librdkafka's names of places."""
        self.release_all()
        self.more_to_come = more_to_come
        self._raw.assign(_raw(starts))
        self._begin(starts)

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        """Own these too; for readers without a group."""
        self._raw.incremental_assign(_raw(starts))
        self._begin(starts)

    def release_all(self) -> None:
        """Give everything up in good order, before other partitions are chosen or the consumer closes."""
        self.more_to_come = False
        if self._subscribed:
            if self.assigned:
                self._revoke(sorted(self.assigned))
            self._raw.unsubscribe()  # tells of the revocation once more, when nothing is assigned any more
            self._subscribed = False
        elif self.assigned:
            self._settle(sorted(self.assigned))
            self._let_go(list(self.assigned))
            self._raw.unassign()

    def raise_failure(self) -> None:
        """Raise what a callback raised."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _on_assign(self, raw: RawConsumer, partitions: list[RawPartition]) -> None:
        owned = _plain(partitions)
        self._begin(dict.fromkeys(owned, -1))
        self.starts = {}
        self._call(self._callbacks.assigned, owned)
        starts, self.starts = self.starts, None
        for partition, entry in zip(owned, partitions):
            if partition in starts:
                entry.offset = starts[partition]
                self._progress.move(partition, starts[partition])
        if self._cooperative:
            raw.incremental_assign(partitions)
        else:
            raw.assign(partitions)
        if paused := [partition for partition in owned if partition in self._inbox.paused]:
            raw.pause(_raw(dict.fromkeys(paused, -1)))

    def _on_revoke(self, _raw: RawConsumer, partitions: list[RawPartition]) -> None:
        if owned := self._owned(partitions):
            self._revoke(owned)

    def _on_lost(self, _raw: RawConsumer, partitions: list[RawPartition]) -> None:
        lost = self._owned(partitions)
        if not lost:
            return
        logger.warning("partitions lost partitions=%s", ",".join(map(str, lost)))
        self._let_go(lost)  # first: nothing of these may be committed any more
        self._call(self._callbacks.lost or self._callbacks.revoked, lost)

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._call(self._callbacks.revoked, partitions)
        self._settle(partitions)
        self._let_go(partitions)

    def _owned(self, partitions: Iterable[RawPartition]) -> list[TopicPartition]:
        return [partition for partition in _plain(partitions) if partition in self.assigned]

    def _begin(self, starts: Mapping[TopicPartition, int]) -> None:
        self._clean(set(starts))
        self.assigned.update(starts)
        for partition, offset in starts.items():
            if offset >= 0:
                self._progress.move(partition, offset)

    def _settle(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit what was handled of partitions that are about to go."""
        if not self._settles:
            return
        marks = self._progress.handled(list(partitions))
        try:
            self._committer.submit(self._committer.news(marks)).result(SETTLE_TIMEOUT_S)
        except (BifrostError, TimeoutError) as error:
            logger.warning("offsets not committed before a rebalance, messages may be repeated error=%s", error)

    def _let_go(self, partitions: Iterable[TopicPartition]) -> None:
        these = set(partitions)
        self._clean(these)
        self.assigned -= these
        self.gone |= these

    def _clean(self, partitions: set[TopicPartition]) -> None:
        self._inbox.drop(partitions, unpause=True)
        self._progress.forget(partitions)
        self._committer.forget(partitions)
        self.ended -= partitions

    def _call(self, callback: Callback, partitions: list[TopicPartition]) -> None:
        if callback is None:
            return
        self.calling_back = True
        try:
            callback(partitions)
        except BaseException as error:  # whatever it is, `raise_failure` raises it in a moment
            self._failure = error
        finally:
            self.calling_back = False


def _plain(partitions: Iterable[RawPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


def _raw(starts: Mapping[TopicPartition, int]) -> list[RawPartition]:
    from confluent_kafka import TopicPartition as RawPartition

    return [RawPartition(topic, partition, offset) for (topic, partition), offset in starts.items()]
