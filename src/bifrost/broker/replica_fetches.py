"""Fetch, as followers ask: what was appended leaves for them at once, and what they ask for tells what they hold.

A follower has one session (KIP-227). Partitions tell it when there is more, so a fetch costs what has changed since the
last one, however many partitions are followed. A session has one fetch at a time that waits; the next one makes the
waiting one answer. That alone what is committed has moved is told a little later, mostly together with more data, even
to the follower whose fetch has moved it: it would double the number of fetches otherwise.

Must never: count as stored what a follower holds of another history, or send the same data again before the follower
has said what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, cast

from bifrost.broker.connection import FETCHES, Buffers, Connection, Reply
from bifrost.broker.fetch_answer import ANSWER_BYTES_MAX, FetchAnswer
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.log.partition_log import LogSlice
from bifrost.protocol.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
    TopicFetchResult,
    encode_response,
)
from bifrost.protocol.frame import RequestHeader
from bifrost.replication.partition import Partition
from bifrost.types import NodeId

_FINAL_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_UNTOLD: Final = -2
_COMMIT_LINGER_S: Final = 0.01
_MS: Final = 1000.0

Key = tuple[bytes, int]
"""Topic id and partition."""
Find = Callable[[bytes, int], Partition]
"""The partition that this node hosts; ApiError if there is none."""


@dataclass(slots=True, eq=False)
class _Asked:
    """One partition of a session: what the follower asked for last, and what it was told."""

    wanted: FetchPartition
    partition: Partition | None = None
    agreed_epoch: int = _UNTOLD
    """The leader epoch in which it was found that its log is the beginning of this one. That stays so."""
    told_high_watermark: int = _UNTOLD
    told_start: int = _UNTOLD
    is_sent: bool = False
    """Data have left for it, or word that its log parts from this one: nothing more until it has said how far it is."""
    broker_epoch: int = -1
    asked_at_ms: float = 0.0
    is_counted: bool = False
    """The leader knows what the follower holds, which it does not before it has heard of its new replica."""

    def is_told(self, result: PartitionFetchResult) -> None:
        if result.error_code != ErrorCode.NONE:
            self.told_high_watermark = self.told_start = _UNTOLD
        else:
            self.told_high_watermark, self.told_start = result.high_watermark, result.log_start_offset


class ReplicaFetches:
    """The sessions of all followers of this node's partitions."""

    def __init__(
        self,
        find: Find,
        *,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self.find = find
        self.loop = loop
        self.on_storage_error = on_storage_error
        self._rng = rng
        self._sessions: dict[NodeId, ReplicaSession] = {}

    def start(self, connection: Connection, header: RequestHeader, request: FetchRequest) -> Buffers | Reply:
        """Take what the follower says, and answer when there is something to tell."""
        try:
            session = self._session(connection, header, request)
        except ApiError as error:
            return cast(
                "Buffers",
                encode_response(header.api_version, header.correlation_id, FetchResponse([], error_code=error.code)),
            )
        return session.fetch(connection, header, request)

    def _session(self, connection: Connection, header: RequestHeader, request: FetchRequest) -> ReplicaSession:
        if header.api_version < TOPIC_IDS_SINCE:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "followers name topics by id")
        follower = NodeId(request.replica_id)
        known = self._sessions.get(follower)
        if request.session_epoch in (_FIRST_EPOCH, _FINAL_EPOCH):
            if known is not None:
                known.close()
            session_id = self._rng.randrange(1, _EPOCH_MAX) if request.session_epoch == _FIRST_EPOCH else 0
            session = self._sessions[follower] = ReplicaSession(self, follower, session_id)
            connection.when_lost["replica fetches"] = lambda: self._on_lost(session)
            return session
        if known is None or known.id != request.session_id:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if known.next_epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return known

    def _on_lost(self, session: ReplicaSession) -> None:
        session.close()
        if self._sessions.get(session.follower) is session:
            del self._sessions[session.follower]


class ReplicaSession:
    """What one follower fetches from this node. A `Watcher` of every partition in it."""

    def __init__(self, owner: ReplicaFetches, follower: NodeId, session_id: int) -> None:
        self.id = session_id
        self.follower = follower
        self.next_epoch = _FIRST_EPOCH
        self.owner = owner
        self._partitions: dict[Key, _Asked] = {}
        self._ready: dict[Key, None] = {}
        self._committed: dict[Key, None] = {}
        self._parked: _Parked | None = None
        self._look: asyncio.Handle | None = None
        self._look_is_soon = False

    def fetch(self, connection: Connection, header: RequestHeader, request: FetchRequest) -> Buffers | Reply:
        """One request of the follower."""
        if self._parked is not None:
            self._parked.finish()
        self.next_epoch = 1 if self.next_epoch == _EPOCH_MAX else self.next_epoch + 1
        for forgotten in request.forgotten_topics:
            for index in forgotten.partitions:
                self._forget((forgotten.topic_id, index))
        now_ms = self.owner.loop.time() * _MS
        for topic in request.topics:
            for wanted in topic.partitions:
                self._take((topic.topic_id, wanted.index), wanted, request.replica_epoch, now_ms)
        parked = _Parked(self, connection, header, request)
        results, pieces = self.results(request, commits_can_wait=request.max_wait_ms > 0)
        if results or request.max_wait_ms <= 0:
            return parked.answer(results, pieces).read()
        parked.wait()
        self._parked = parked
        if self._committed:
            self._look_again(soon=False)
        return parked.reply

    def on_append(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.tp.partition)
        if not self._partitions[key].is_sent:
            self._ready[key] = None
            self._look_again(soon=True)

    def on_committed(self, partition: Partition) -> None:
        self._committed[partition.topic_id, partition.tp.partition] = None
        self._look_again(soon=False)

    def close(self) -> None:
        """The follower is gone, or begins anew."""
        for key in list(self._partitions):
            self._forget(key)
        if self._look is not None:
            self._look.cancel()
        if self._parked is not None:
            self._parked.forget()
            self._parked = None

    def _take(self, key: Key, wanted: FetchPartition, broker_epoch: int, now_ms: float) -> None:
        """The follower says how far it is. What is wrong about that is told with the answer."""
        asked = self._partitions.get(key)
        if asked is None:
            asked = self._partitions[key] = _Asked(wanted)
        asked.wanted = wanted
        asked.is_sent = asked.is_counted = False
        asked.agreed_epoch = _UNTOLD
        asked.broker_epoch, asked.asked_at_ms = broker_epoch, now_ms
        self._ready[key] = None
        try:
            partition = self._watch(asked, key)
            if self._diverging(partition, wanted) is None:
                asked.agreed_epoch = partition.leader_epoch
                self._count(asked, partition)
        except ApiError:
            self._unwatch(asked)

    def _count(self, asked: _Asked, partition: Partition) -> None:
        partition.on_replica_fetch(self.follower, asked.broker_epoch, asked.wanted.fetch_offset, asked.asked_at_ms)
        asked.is_counted = True

    def _watch(self, asked: _Asked, key: Key) -> Partition:
        partition = asked.partition
        if partition is None:
            partition = self.owner.find(*key)
            partition.check_leader(asked.wanted.current_leader_epoch)
            partition.watchers[self] = None
            asked.partition = partition
            return partition
        partition.check_leader(asked.wanted.current_leader_epoch)
        return partition

    def _unwatch(self, asked: _Asked) -> None:
        if asked.partition is not None:
            asked.partition.watchers.pop(self, None)
            asked.partition = None

    def _forget(self, key: Key) -> None:
        asked = self._partitions.pop(key, None)
        if asked is not None:
            self._unwatch(asked)
        self._ready.pop(key, None)
        self._committed.pop(key, None)

    def _look_again(self, *, soon: bool) -> None:
        """Answer the fetch that waits: when this turn of the loop is over, so that all that it brings goes together."""
        if self._parked is None or (self._look is not None and (self._look_is_soon or not soon)):
            return
        if self._look is not None:
            self._look.cancel()
        loop = self.owner.loop
        self._look_is_soon = soon
        self._look = loop.call_soon(self._on_look) if soon else loop.call_later(_COMMIT_LINGER_S, self._on_look)

    def _on_look(self) -> None:
        self._look = None
        if self._parked is not None:
            self._parked.finish(only_if_there_is_something=True)

    def take_parked(self) -> None:
        """The fetch that waited is being answered."""
        self._parked = None

    def results(
        self, request: FetchRequest, *, commits_can_wait: bool = False
    ) -> tuple[list[tuple[Key, PartitionFetchResult]], list[LogSlice | None]]:
        """What there is to tell, up to the limits of the request; what does not fit is told next time.

        `commits_can_wait`: if there is no more to tell than what is committed, it is told after a while.
        """
        results: list[tuple[Key, PartitionFetchResult]] = []
        pieces: list[LogSlice | None] = []
        left = min(request.max_bytes, ANSWER_BYTES_MAX)
        ready, self._ready = self._ready, {}
        keys: Iterable[Key] = dict.fromkeys([*ready, *self._committed])
        worth_an_answer = not commits_can_wait
        for key in keys:
            if left <= 0:
                self._ready[key] = None
                continue
            asked = self._partitions[key]
            self._committed.pop(key, None)
            result, piece = self._look_at(key, asked, left, first=left == min(request.max_bytes, ANSWER_BYTES_MAX))
            if piece is not None:
                left -= piece.size
                asked.is_sent = True
            elif self._has_more(asked):
                self._ready[key] = None  # its next batch is larger than what is left
            is_urgent = self._is_urgent(asked, result, has_data=piece is not None)
            if is_urgent or result.high_watermark != asked.told_high_watermark:
                worth_an_answer |= is_urgent
                results.append((key, result))
                pieces.append(piece)
        if not worth_an_answer:
            self._committed.update(dict.fromkeys([key for key, _ in results]))
            return [], []
        for key, result in results:
            self._partitions[key].is_told(result)
        return results, pieces

    def _look_at(
        self, key: Key, asked: _Asked, left: int, *, first: bool
    ) -> tuple[PartitionFetchResult, LogSlice | None]:
        wanted = asked.wanted
        partition: Partition | None = None
        try:
            partition = self._watch(asked, key)
            result = PartitionFetchResult(
                wanted.index,
                high_watermark=partition.high_watermark,
                last_stable_offset=partition.last_stable_offset,
                log_start_offset=partition.log.log_start_offset,
            )
            if asked.agreed_epoch != partition.leader_epoch:
                result.diverging_epoch = self._diverging(partition, wanted)
            if result.diverging_epoch is not None:
                asked.is_sent = True
            elif not asked.is_counted:
                self._count(asked, partition)
            if asked.is_sent:
                return result, None
            limit = min(wanted.partition_max_bytes, left)
            return result, partition.read_as_replica(wanted.fetch_offset, limit, min_one_batch=first)
        except ApiError as error:
            start = -1 if partition is None else partition.log.log_start_offset
            self._unwatch(asked)
            return PartitionFetchResult(wanted.index, error.code, log_start_offset=start), None
        except StorageError as error:
            self.owner.on_storage_error(error)
            self._unwatch(asked)
            return PartitionFetchResult(wanted.index, ErrorCode.KAFKA_STORAGE_ERROR), None

    def _has_more(self, asked: _Asked) -> bool:
        partition = asked.partition
        return partition is not None and not asked.is_sent and asked.wanted.fetch_offset < partition.log.log_end_offset

    def _diverging(self, partition: Partition, wanted: FetchPartition) -> tuple[int, int] | None:
        if wanted.last_fetched_epoch < 0:
            return None
        return partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)

    def _is_urgent(self, asked: _Asked, result: PartitionFetchResult, *, has_data: bool) -> bool:
        """Whether there is more to tell than that more is committed. A new session is: it learns its number."""
        return (
            has_data
            or result.error_code != ErrorCode.NONE
            or result.diverging_epoch is not None
            or asked.told_start != result.log_start_offset
        )


class _Parked:
    """A fetch that waits for something to tell, or for its time to be over."""

    __slots__ = ("_connection", "_header", "_request", "_session", "_timer", "reply")

    def __init__(
        self, session: ReplicaSession, connection: Connection, header: RequestHeader, request: FetchRequest
    ) -> None:
        self._session = session
        self._connection = connection
        self._header = header
        self._request = request
        self._timer: asyncio.TimerHandle | None = None
        self.reply = Reply(connection, followed_by=FETCHES)

    def wait(self) -> None:
        self.reply.cancel = self.forget
        loop = self._session.owner.loop
        self._timer = loop.call_later(self._request.max_wait_ms / _MS, self.finish)

    def finish(self, *, only_if_there_is_something: bool = False) -> None:
        results, pieces = self._session.results(self._request)
        if results or not only_if_there_is_something:
            self.forget()
            self._session.take_parked()
            self.answer(results, pieces).send(self.reply)

    def forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def answer(self, results: list[tuple[Key, PartitionFetchResult]], pieces: list[LogSlice | None]) -> FetchAnswer:
        return FetchAnswer(
            self._connection,
            [result for _, result in results],
            pieces,
            encode=lambda: self._encode(results),
            on_storage_error=self._session.owner.on_storage_error,
        )

    def _encode(self, results: list[tuple[Key, PartitionFetchResult]]) -> Buffers:
        topics: dict[bytes, list[PartitionFetchResult]] = {}
        for (topic_id, _), result in results:
            topics.setdefault(topic_id, []).append(result)
        response = FetchResponse(
            [TopicFetchResult("", topic_id, partitions) for topic_id, partitions in topics.items()],
            session_id=self._session.id,
        )
        return cast("Buffers", encode_response(self._header.api_version, self._header.correlation_id, response))
