"""Commits offsets, one after the other.

librdkafka waits for a lost coordinator as long as a session lasts and lets no signal through meanwhile. So commits are
made in a thread of their own, and whoever wants to can wait with a timeout, and with Ctrl-C. confluent-kafka does one
call of a consumer at a time: while a commit is under way, nothing else should be asked of it, or that would wait as
well. Inside a rebalance callback it is the commit that would wait, so there it is made on the spot.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING

from bifrost.client.errors import AuthorizationError, BifrostError, CommitError, from_kafka
from bifrost.client.progress import Mark
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RawConsumer

Commit = Future[dict[TopicPartition, int]]
"""What was committed, once it is."""


class Committer:
    """Commits for one consumer; the thread starts with the first commit and ends with `close`."""

    def __init__(self, raw: RawConsumer, group: str, bootstrap: str) -> None:
        self._raw = raw
        self._group = group
        self._bootstrap = bootstrap
        self._orders: SimpleQueue[tuple[dict[TopicPartition, Mark], Commit] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Commit | None = None
        self._known: dict[TopicPartition, int] = {}
        self.called_back = False
        """Whether librdkafka is in the middle of a call, so that whoever submits now does so in a callback."""

    def is_idle(self, wait_s: float = 0) -> bool:
        """Whether no commit is under way, or not any more after waiting that long."""
        if self._last is None or self._last.done():
            return True
        wait([self._last], wait_s)
        return self._last.done()

    def news(self, marks: Mapping[TopicPartition, Mark]) -> dict[TopicPartition, Mark]:
        """Those of the marks that are not what was committed last."""
        known = self._known
        return {partition: mark for partition, mark in marks.items() if known.get(partition) != mark.offset}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Somebody else commits for these from now on."""
        for partition in partitions:
            self._known.pop(partition, None)

    def submit(self, marks: Mapping[TopicPartition, Mark]) -> Commit:
        """Start committing. The future fails with a CommitError, or with an AuthorizationError."""
        commit: Commit = Future()
        if not marks:
            commit.set_result({})
            return commit
        if self.called_back:
            self._fulfil(dict(marks), commit)
            return commit
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"commits-{self._group}", daemon=True)
            self._thread.start()
        self._last = commit
        self._orders.put((dict(marks), commit))
        return commit

    def close(self, timeout: float) -> bool:
        """End after the commits that are under way; False if they take longer than that."""
        if self._thread is None:
            return True
        self._orders.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            marks, commit = order
            if commit.set_running_or_notify_cancel():
                self._fulfil(marks, commit)

    def _fulfil(self, marks: dict[TopicPartition, Mark], commit: Commit) -> None:
        try:
            done = self._commit(marks)
        except (BifrostError, RuntimeError) as error:  # RuntimeError: the consumer was closed meanwhile
            commit.set_exception(error)
        else:
            self._known |= done
            commit.set_result(done)

    def _commit(self, marks: dict[TopicPartition, Mark]) -> dict[TopicPartition, int]:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as RawPartition

        offsets = [
            RawPartition(topic, partition, mark.offset)
            if mark.leader_epoch is None
            else RawPartition(topic, partition, mark.offset, leader_epoch=mark.leader_epoch)
            for (topic, partition), mark in marks.items()
        ]
        try:
            answers = self._raw.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as error:
            raise self._refused(error) from error
        for answer in answers:
            if answer.error is not None:
                raise self._refused(KafkaException(answer.error))
        return {partition: mark.offset for partition, mark in marks.items()}

    def _refused(self, error: Exception) -> BifrostError:
        from confluent_kafka import KafkaException

        assert isinstance(error, KafkaException)
        made = from_kafka(error, group=self._group, bootstrap=self._bootstrap)
        if isinstance(made, CommitError | AuthorizationError):
            return made
        problem = f"offsets of group {self._group} were not committed: {made.problem}"
        return CommitError(
            problem, made.hint or "Commit again; until then the messages may be read again.", code=made.code
        )
