"""Reads: fetches many messages at a time, gives them out one by one, and keeps the promise of the chosen delivery.

* at least once: an offset is committed only when the application has come back for more, so it has handled what it had
* at most once: an offset is committed before its message is given out, and a message whose commit is in doubt is not

A broker that goes away is librdkafka's matter: it comes back, or another one leads, and reading goes on. Only what no
waiting can change (no such topic, no permission) is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from bifrost.client.committer import Commit, Committer
from bifrost.client.decoding import Decoder
from bifrost.client.errors import (
    AuthorizationError,
    BifrostError,
    CorruptDataError,
    InvalidRequestError,
    UnknownPartitionError,
    UnknownTopicError,
    UnsupportedError,
    from_kafka,
)
from bifrost.client.inbox import Inbox
from bifrost.client.message import Message
from bifrost.client.ownership import Ownership
from bifrost.client.progress import Mark, Progress
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RawConsumer
    from confluent_kafka import KafkaError
    from confluent_kafka import Message as RawMessage

logger = logging.getLogger(__name__)

FETCH_MESSAGES: Final = 500
SLICE_S: Final = 0.1
"""librdkafka lets no signal through while it waits: so long does Ctrl-C take."""
SERVICE_S: Final = 1.0
"""How often librdkafka gets its turn while fetched messages are handled, so that rebalances do not wait for them."""
COMMIT_TIMEOUT_S: Final = 5.0
SEEK_TIMEOUT_S: Final = 10.0
AHEAD_S: Final = 0.05
"""How much work, by the clock, is committed ahead with at most once: a crash loses no more than about this."""

_LASTING: Final = (
    AuthorizationError, InvalidRequestError, UnknownTopicError, UnknownPartitionError, UnsupportedError
)  # fmt: skip
_REFUSED: Final = frozenset(
    {"INCONSISTENT_GROUP_PROTOCOL", "GROUP_MAX_SIZE_REACHED", "INVALID_SESSION_TIMEOUT", "FENCED_INSTANCE_ID",
     "UNRELEASED_INSTANCE_ID", "UNSUPPORTED_ASSIGNOR", "INVALID_REGULAR_EXPRESSION"}
)  # fmt: skip
"""What a group says that no waiting will change."""
_DAMAGED: Final = frozenset({"_BAD_MSG", "INVALID_MSG"})
"""A checksum that is wrong here, or that the broker has found wrong. Reading on tries the same place again."""


class Reader:
    """The loop behind a consumer. `make_ready` may wait and talk to the cluster, `take` never does."""

    def __init__(
        self,
        raw: RawConsumer,
        inbox: Inbox,
        progress: Progress,
        committer: Committer,
        owner: Ownership,
        decoder: Decoder,
        *,
        at_most_once: bool,
        commit_interval_s: float | None,
        until_end: bool,
        bootstrap: str,
        group: str | None,
        told: list[KafkaError],
    ) -> None:
        self._raw = raw
        self._inbox = inbox
        self._progress = progress
        self._committer = committer
        self._owner = owner
        self._decoder = decoder
        self._told = told
        self._at_most_once = at_most_once
        self._commit_interval_s = commit_interval_s
        self._until_end = until_end
        self._bootstrap = bootstrap
        self._group = group
        now = monotonic()
        self._commit_at = now + (commit_interval_s or 0)
        self._polled_at = now
        self._window = 1
        self._cleared_at = now
        self.chores: list[Callable[[float], object]] = []
        """Called with the time now and then, between messages."""
        self._service_at = now
        self.interrupted = False
        """Set by another thread to end a wait soon."""

    def make_ready(self, timeout: float | None, want: int = 1) -> bool:
        """Wait until so many messages can be given out, or at least one when the time is over or all ends are reached.

        False if there is none even then, or if somebody else has `interrupted` the wait.
        """
        if not self._owner.is_set:
            raise InvalidRequestError("nothing to read", "Name topics, or call subscribe() or assign() first.")
        deadline = None if timeout is None else monotonic() + timeout
        self._inbox.keep()  # what was fetched may go with its partition while we wait
        queue = self._inbox.queue
        while True:
            now = monotonic()
            if now >= self._service_at:
                self._service(now)
            if len(queue) < want:
                self.fill(SLICE_S if deadline is None else max(0.0, min(SLICE_S, deadline - now)))
            at_end = len(queue) < want and self.at_end()
            over = at_end or (deadline is not None and monotonic() >= deadline)
            if queue and (over or len(queue) >= want) and self._prepare(want):
                return True
            if over or self.interrupted:
                return False

    def reset(self) -> None:
        """Other partitions are about to be read, or none."""
        self.chores.clear()
        self._inbox.keep()

    def messages(self, make_ready: Callable[[], bool]) -> Iterator[Message[Any, Any]]:
        """Give out one message after the other. Hot path: the same as `take`, without the calls."""
        ready, progress = self._inbox.ready, self._progress
        while (ready and monotonic() < self._service_at) or make_ready():
            progress.hand = message = ready.popleft()
            yield message

    def ready_now(self) -> bool:
        """Whether `take` can be called at once."""
        return bool(self._inbox.ready) and monotonic() < self._service_at

    def take(self) -> Message[Any, Any]:
        """Give out the next message."""
        self._progress.hand = message = self._inbox.ready.popleft()
        return message

    def take_batch(self, count: int) -> list[Message[Any, Any]]:
        """Give out up to so many messages."""
        ready = self._inbox.ready
        messages = [ready.popleft() for _ in range(min(count, len(ready)))]
        self._progress.hand = tuple(messages)
        return messages

    def fill(self, wait_s: float) -> None:
        """Let librdkafka work: take what it has, waiting at most this long for the first message."""
        self._poll(1, wait_s)
        if self._inbox.queue:
            self._poll(FETCH_MESSAGES - 1, 0)

    def _poll(self, count: int, wait_s: float) -> None:
        if not self._committer.is_idle(wait_s):
            return
        self._owner.gone.clear()
        self._committer.called_back = True
        try:
            messages = self._raw.consume(count, wait_s)
        finally:
            self._committer.called_back = False
        self._polled_at = monotonic()
        good = [message for message in messages if message.error() is None]
        self._inbox.add(self._without_gone(good) if self._owner.gone else good)
        self._owner.raise_failure()
        if len(good) != len(messages):
            for message in messages:
                error = message.error()
                if error is not None:
                    self._on_event(message, error)
        while self._told:
            self._on_told(self._told.pop(0))

    def _without_gone(self, messages: Sequence[RawMessage]) -> list[RawMessage]:
        """Without those of partitions that went while the messages were collected.

        Such a partition may even be back already, and then nobody can tell old messages from new ones: those from the
        first of them on are fetched once more.
        """
        kept: list[RawMessage] = []
        again: dict[TopicPartition, int] = {}
        for message in messages:
            raw: Any = message
            partition = TopicPartition(raw.topic(), raw.partition())
            if partition not in self._owner.gone:
                kept.append(message)
            elif partition in self._owner.assigned:
                again[partition] = min(raw.offset(), again.get(partition, raw.offset()))
        for partition, offset in again.items():
            self._seek(partition, offset)
        return kept

    def move(self, partition: TopicPartition, offset: int) -> None:
        """Go on at that offset of a partition that is owned."""
        self._inbox.drop({partition}, unpause=False)
        self._progress.move(partition, offset)
        self._owner.ended.discard(partition)
        self._seek(partition, offset)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        """librdkafka refuses as long as it has not begun to fetch the partition, which is soon after an assignment."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as RawPartition

        deadline = monotonic() + SEEK_TIMEOUT_S
        while True:
            try:
                self._raw.seek(RawPartition(*partition, offset))
            except KafkaException as error:
                made = from_kafka(error, topic=partition.topic, partition=partition.partition)
                if made.code not in {"_STATE", "_PREV_IN_PROGRESS", "_TIMED_OUT"} or monotonic() > deadline:
                    raise made from error
                sleep(0.01)
            else:
                return

    def _service(self, now: float) -> None:
        """What has to be done from time to time, however busy the application is."""
        self._service_at = now + min(SERVICE_S, self._commit_interval_s or SERVICE_S)
        if self._commit_interval_s is not None and now >= self._commit_at and self._committer.is_idle():
            self._commit_at = now + self._commit_interval_s
            self._committer.submit(
                self._committer.news(self._progress.handled(self._owner.assigned))
            ).add_done_callback(_tell_failure)
        if self._inbox.queue and now - self._polled_at >= SERVICE_S:
            self._poll(1, 0)
        for chore in self.chores:
            chore(now)

    def _prepare(self, want: int) -> bool:
        """Decode those of the fetched messages that may be given out next; False if there are none."""
        queue = self._inbox.queue
        while queue:
            count = self._commit_ahead(want) if self._at_most_once else self._decoder.portion(want)
            if count == 0:
                return False
            self._inbox.decoded(self._decoder.decode(islice(queue, count)))
            if self._inbox.ready:
                return True
            self._decoder.settle_bad(queue[0])
            queue.popleft()
        return False

    def _commit_ahead(self, want: int) -> int:
        """At most once: commit the next few messages, as many as are given out in a moment. How many they are."""
        quick = monotonic() - self._cleared_at < AHEAD_S
        self._window = min(self._window * 2, FETCH_MESSAGES) if quick else max(self._window // 2, 1)
        ahead: list[Any] = list(islice(self._inbox.queue, max(want, self._window)))
        marks = {
            TopicPartition(raw.topic(), raw.partition()): Mark(raw.offset() + 1, raw.leader_epoch()) for raw in ahead
        }
        try:
            self._committer.submit(marks).result(COMMIT_TIMEOUT_S)
        except AuthorizationError:
            raise
        except (BifrostError, TimeoutError) as error:
            # Either the coordinator is away, or the partitions are about to go: both are settled by librdkafka.
            logger.warning("no message is given out until its offset is committed error=%s", error)
            sleep(SLICE_S)
            self._poll(1, 0)
            return 0
        self._cleared_at = monotonic()
        return len(ahead)

    def at_end(self) -> bool:
        """Whether every partition was read to its end, and that is where reading ends."""
        reading = self._owner.assigned.difference(self._inbox.paused)
        known = bool(self._owner.assigned) or self._owner.more_to_come
        return self._until_end and known and reading <= self._owner.ended

    def _on_event(self, message: Any, error: KafkaError) -> None:
        topic, partition = message.topic(), message.partition()
        if error.name() == "_PARTITION_EOF":
            self._owner.ended.add(TopicPartition(topic, partition))
            return
        if error.name() in _DAMAGED:
            raise CorruptDataError(topic, partition, message.offset(), error.str())
        made = from_kafka(error, topic=topic, partition=partition, group=self._group, bootstrap=self._bootstrap)
        if isinstance(made, UnknownTopicError) and str(topic).startswith("^"):
            return  # a pattern that no topic has matched yet
        if error.fatal() or error.name() in _REFUSED or isinstance(made, _LASTING):
            raise made
        logger.warning("waiting for the cluster error=%s", made.problem)

    def _on_told(self, error: KafkaError) -> None:
        """What librdkafka tells besides messages, mostly that a broker is away."""
        made = from_kafka(error, group=self._group, bootstrap=self._bootstrap)
        if error.fatal() or isinstance(made, AuthorizationError):
            raise made
        if error.name() == "_ALL_BROKERS_DOWN":
            logger.warning("no broker can be reached, waiting for one bootstrap=%s", self._bootstrap)


def _tell_failure(commit: Commit) -> None:
    if (error := commit.exception()) is not None:
        logger.warning("offsets not committed, messages may be repeated error=%s", error)
