"""The order of batches on their way to one partition: what waits, what is under way, what has to go again.

Pure: it sends nothing and reads no clock. An idempotent producer's batches carry consecutive sequence numbers, given
when they are appended and never changed. The broker remembers the last five of each partition, so up to five may be
under way, and whatever was not answered can be sent again in the same order without loss or repetition (KIP-98). After
any failure a lane waits until all that is under way has been answered; then it goes on from the first that is missing.
A batch that fails for good takes the lane with it: what came after it would leave a hole.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from bifrost.client.changes import Changes
from bifrost.client.errors import BifrostError, TimedOutError
from bifrost.client.wire.failures import from_code
from bifrost.client.wire.patience import Backoff
from bifrost.errors import ErrorCode

SEQUENCES: Final = 1 << 31
"""Sequence numbers start again at 0 after the largest int32."""
NOT_WORTH_REPEATING: Final = frozenset({ErrorCode.CORRUPT_MESSAGE})
"""Codes that Kafka calls retriable, for bytes that will not get better."""


class Appended(NamedTuple):
    """Where a batch lies."""

    topic: str
    partition: int
    base_offset: int
    """-1 if the broker has forgotten: it knows that the batch is there, and not where."""
    log_append_time_ms: int
    """-1 unless the topic has LogAppendTime."""


class Pending:
    """A batch whose fate is open."""

    __slots__ = ("_changed", "_failure", "_result")

    def __init__(self, changed: Changes) -> None:
        self._changed = changed
        self._result: Appended | None = None
        self._failure: BifrostError | None = None

    @property
    def done(self) -> bool:
        return self._result is not None or self._failure is not None

    def result(self, timeout: float | None = None) -> Appended:
        """Waits for the acknowledgement; raises why there is none."""
        with self._changed.lock:
            if not self._changed.wait_for(lambda: self.done, timeout):
                raise TimedOutError(f"no acknowledgement within {timeout:.3g} s", "Wait longer, or flush the producer.")
        if self._failure is not None:
            raise self._failure
        assert self._result is not None
        return self._result

    def succeed(self, result: Appended) -> None:
        self._result = result

    def fail(self, failure: BifrostError) -> None:
        self._failure = failure


class Batch:
    """One record batch, complete and stamped."""

    __slots__ = ("data", "deadline_s", "partition", "pending", "sequence", "topic")

    def __init__(
        self, topic: str, partition: int, data: bytearray, sequence: int, deadline_s: float, pending: Pending
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.data = data
        self.sequence = sequence
        self.deadline_s = deadline_s
        self.pending = pending


class Lane:
    """The batches of one partition. Not thread-safe: its producer holds a lock."""

    def __init__(self, topic: str, partition: int, *, under_way_max: int, backoff: Backoff) -> None:
        self.topic = topic
        self.partition = partition
        self.failure: BifrostError | None = None
        self.node_id = -1
        """The broker that has what is under way."""
        self.topic_id: bytes | None = None
        """Known from the first leader on: a topic of the same name and another id is another topic."""
        self.resume_at_s = 0.0
        """Nothing is sent before this moment."""
        self._under_way_max = under_way_max
        self._backoff = backoff
        self._next_sequence = 0
        self._waiting: deque[Batch] = deque()
        self._under_way: deque[Batch] = deque()
        self._again: list[Batch] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def next_sequence(self, records: int) -> int:
        """The sequence number of a new batch of so many records."""
        sequence = self._next_sequence
        self._next_sequence = (sequence + records) % SEQUENCES
        return sequence

    def add(self, batch: Batch) -> None:
        self._waiting.append(batch)

    def can_send(self, now_s: float) -> bool:
        """Whether `take` has a batch to give."""
        return (
            bool(self._waiting)
            and not self._again
            and len(self._under_way) < self._under_way_max
            and now_s >= self.resume_at_s
        )

    @property
    def next_bytes(self) -> int:
        """The size of what `take` would give."""
        return len(self._waiting[0].data)

    def take(self) -> Batch:
        """The next batch, from now on under way."""
        batch = self._waiting.popleft()
        self._under_way.append(batch)
        return batch

    def succeed(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        self._under_way.remove(batch)
        self._backoff.reset()
        batch.pending.succeed(Appended(self.topic, self.partition, base_offset, log_append_time_ms))
        self._start_again()

    def lose(self, batch: Batch) -> None:
        """No answer will come: it may have been stored or not."""
        self._repeat(batch)

    def refuse(self, batch: Batch, number: int, detail: str | None) -> tuple[list[Batch], bool]:
        """An answer with an error. Returns what has failed for good, and whether the leader may have moved."""
        code = ErrorCode(number)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.succeed(batch, -1, -1)
            return [], False
        # Whatever follows a batch that was not taken is out of order, until that one is there.
        follows = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and bool(self._again)
        if follows or (code.retriable and code not in NOT_WORTH_REPEATING):
            self._repeat(batch)
            return [], not follows
        return self.fail(from_code(number, detail=detail, topic=self.topic, partition=self.partition)), False

    def expire(self, now_s: float, delivery_timeout_s: float) -> list[Batch]:
        """Gives up when the oldest batch has waited too long; what is under way may still be answered."""
        if self._under_way or not self._waiting or now_s < self._waiting[0].deadline_s:
            return []
        return self.fail(
            TimedOutError(
                f"a batch for {self.topic}-{self.partition} was not acknowledged within {delivery_timeout_s:.3g} s",
                "Is the cluster running and reachable? The batch may have been stored or not: read to be sure.",
                code=ErrorCode.REQUEST_TIMED_OUT.name,
            )
        )

    def fail(self, failure: BifrostError) -> list[Batch]:
        """Settles everything with `failure`, which stays: nothing more goes to this partition."""
        self.failure = self.failure or failure
        gone = [*self._again, *self._under_way, *self._waiting]
        self._again.clear()
        self._under_way.clear()
        self._waiting.clear()
        for batch in gone:
            batch.pending.fail(self.failure)
        return gone

    def pause(self, now_s: float) -> None:
        """Something did not work: the next attempt comes later, and later each time until one works."""
        self.resume_at_s = now_s + self._backoff.next_s()

    def holds(self, batch: Batch) -> bool:
        """Whether the batch is still under way: its lane may have failed before the answer came."""
        return batch in self._under_way

    def _repeat(self, batch: Batch) -> None:
        self._under_way.remove(batch)
        self._again.append(batch)
        self._start_again()

    def _start_again(self) -> None:
        if self._again and not self._under_way:
            # Answers come in the order of requests, and losses are told in that order too.
            self._waiting.extendleft(reversed(self._again))
            self._again.clear()
