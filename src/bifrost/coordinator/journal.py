"""The way from a decision to the log, and from the log to the answer.

A core appends and believes what it has appended at once. Nobody else may believe it before it is as safe as an acks=all
write, so every answer waits here until the high watermark has passed all that was appended before it; also the answer
to a mere question, which may tell of what was appended. If that takes too long, or if this node stops leading, the
client is told to ask again, maybe somebody else.

Must never: let an answer out that a power cut could make untrue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from bifrost.clock import Clock
from bifrost.coordinator.core.environment import LogRecord
from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import encode_batch
from bifrost.replication.partition import Partition
from bifrost.types import TopicPartition

R = TypeVar("R")

_AS_TOLD_TO_MEMBERS: Final = {
    # Kafka: CoordinatorOperationExceptionHelper. Clients of groups know nothing of the partition behind them.
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Waiters(Protocol):
    """Who wakes what waits for a high watermark; see `broker.waiters`."""

    def park_ack(self, tp: TopicPartition, next_offset: int, waiter: Answer[Any], slot: int) -> None: ...

    def settled(self, waiter: Answer[Any]) -> None: ...


class Journal:
    """The log of one shard, for as long as this node leads it in one leader epoch."""

    def __init__(
        self,
        partition: Partition,
        waiters: Waiters,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        codec: Codec,
        timeout_ms: int,
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self.partition = partition
        self.epoch = partition.leader.epoch
        self.loop = loop
        self.timeout_s = timeout_ms / 1000
        self.is_closed = False
        self._waiters = waiters
        self._clock = clock
        self._codec = codec
        self._on_storage_error = on_storage_error
        self._end = partition.log.log_end_offset
        self._held: dict[Answer[Any], None] = {}
        self._wake_is_due = False

    def append(self, records: Sequence[LogRecord]) -> None:
        """See `environment.Journal`."""
        now_ms = self._clock.now_ms()
        batch = encode_batch(((now_ms, key, value, ()) for key, value in records), codec=self._codec)
        try:
            self._check_leadership()
            self._end = self.partition.append_own(batch, now_ms=now_ms)
        except ApiError as error:
            raise ApiError(_AS_TOLD_TO_MEMBERS.get(error.code, error.code), error.detail) from error
        except StorageError as error:
            self._on_storage_error(error)
            full = isinstance(error, DiskFullError)
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE if full else ErrorCode.NOT_COORDINATOR
            raise ApiError(code, "the disk is full" if full else "the disk failed") from error
        if not self._wake_is_due:
            self._wake_is_due = True
            self.loop.call_soon(self._wake)

    def is_safe(self, end_offset: int) -> bool:
        """Whether everything before this offset may be told; `ApiError` when this node does not lead any more."""
        self._check_leadership()
        return self.partition.is_committed(end_offset)

    @property
    def end_offset(self) -> int:
        """What follows all that was appended or loaded."""
        return self._end

    def hold(self, answer: Answer[Any]) -> None:
        """Keep an answer until all that has been appended is safe."""
        self._held[answer] = None
        self._waiters.park_ack(self.partition.tp, self._end, answer, 0)

    def let_go(self, answer: Answer[Any]) -> None:
        """The answer does not wait any more."""
        self._held.pop(answer, None)
        self._waiters.settled(answer)

    def close(self) -> None:
        """This node does not lead any more. What waits will never be known to be safe."""
        self.is_closed = True
        for answer in list(self._held):
            answer.fail(ErrorCode.NOT_COORDINATOR)

    def _check_leadership(self) -> None:
        if self.is_closed or self.partition.leader.epoch != self.epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition.tp} is not led in epoch {self.epoch}")

    def _wake(self) -> None:
        self._wake_is_due = False
        if not self.is_closed:
            self.partition.wake()


class Answer(Generic[R]):
    """The answer to one request: a core calls it once, and it gets through to `outcome` when it may.

    `outcome` may be cancelled, when the client is gone; then nothing gets through any more.
    """

    __slots__ = ("_journal", "_response", "deadline", "outcome")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._response: R | None = None
        self.outcome: asyncio.Future[R] = journal.loop.create_future()
        self.deadline = 0.0

    def __call__(self, response: R) -> None:
        """See `environment.Respond`."""
        if self.outcome.done():
            return
        journal = self._journal
        if journal.is_closed:  # all that is said then is that somebody else has to be asked
            self.outcome.set_result(response)
            return
        try:
            safe = journal.is_safe(journal.end_offset)
        except ApiError:
            self.fail(ErrorCode.NOT_COORDINATOR)
            return
        if safe:
            self.outcome.set_result(response)
        else:
            self._response = response
            self.deadline = journal.loop.time() + journal.timeout_s
            journal.hold(self)

    def fail(self, code: ErrorCode) -> None:
        """There is no answer."""
        self._journal.let_go(self)
        if not self.outcome.done():
            self.outcome.set_exception(ApiError(code))

    def on_progress(self, _partition: Partition, _slot: int, next_offset: int) -> bool:
        """The partition moved; True when the answer does not wait any more."""
        if not self.outcome.done():
            try:
                if not self._journal.is_safe(next_offset):
                    return False
            except ApiError:
                self.fail(ErrorCode.NOT_COORDINATOR)
                return True
            assert self._response is not None
            self.outcome.set_result(self._response)
        self._journal.let_go(self)
        return True

    def on_deadline(self) -> None:
        """The change is in the log, but not yet safe: nobody may count on it."""
        self.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
