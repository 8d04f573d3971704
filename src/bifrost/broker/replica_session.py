"""One follower's fetches: what was appended leaves for it at once, and what it asks for tells what it holds.

Partitions tell the session when there is more, so a fetch costs what has changed since the last one, however many
partitions are followed. A session has one fetch at a time that waits; the next one makes the waiting one answer. That
alone what is committed has moved is told a little later, mostly together with more data, even to the follower whose
fetch has moved it: it would double the number of fetches otherwise. What a follower has missed comes after what writers
wait for, and gives way to them (`Courtesy`).

Must never: count as stored what a follower holds of another history, or send the same data again before the follower
has said what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.fetch_answer import ANSWER_BYTES_MAX
from bifrost.broker.parked_fetch import Key, ParkedFetch, Results
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.log.slices import LogSlice
from bifrost.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    PartitionFetchResult,
)
from bifrost.protocol.frame import RequestHeader
from bifrost.replication.core.byte_budget import ByteBudget
from bifrost.replication.core.courtesy import PIECE_BYTES, Courtesy
from bifrost.replication.partition import Partition
from bifrost.types import NodeId

FIRST_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1
_UNTOLD: Final = -2
_COMMIT_LINGER_S: Final = 0.01
_MS: Final = 1000.0
_ALL_THE_TIME: Final = 100

Find = Callable[[bytes, int], Partition]
"""The partition that this node hosts; ApiError if there is none."""


@dataclass(slots=True, kw_only=True)
class CatchUpLimits:
    """How fast followers are sent what they have missed."""

    time_percent: Callable[[], int] = lambda: _ALL_THE_TIME
    """So much of the time they may take while others write."""
    budget: ByteBudget = field(default_factory=ByteBudget)
    is_listed: Callable[[Partition], bool] = lambda _partition: False
    """Whether a partition spends from the budget."""


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
    catches_up: bool = False
    """No write waits for it yet."""
    distance: int = _UNTOLD
    """So many offsets it was from the end when it last had stored something, while it catches up."""

    def is_told(self, result: PartitionFetchResult) -> None:
        if result.error_code != ErrorCode.NONE:
            self.told_high_watermark = self.told_start = _UNTOLD
        else:
            self.told_high_watermark, self.told_start = result.high_watermark, result.log_start_offset


@dataclass(slots=True)
class _Found:
    """What there is to tell, and whether it is worth an answer of its own."""

    is_worth_an_answer: bool
    results: Results = field(default_factory=list)
    pieces: list[LogSlice | None] = field(default_factory=list)


class ReplicaSession:
    """What one follower fetches from this node. A `Watcher` of every partition in it."""

    def __init__(
        self,
        follower: NodeId,
        session_id: int,
        *,
        find: Find,
        loop: asyncio.AbstractEventLoop,
        on_storage_error: Callable[[StorageError], None],
        limits: CatchUpLimits,
    ) -> None:
        self.id = session_id
        self.follower = follower
        self.next_epoch = FIRST_EPOCH
        self.loop = loop
        self.on_storage_error = on_storage_error
        self._find = find
        self._limits = limits
        self._partitions: dict[Key, _Asked] = {}
        self._ready: dict[Key, None] = {}
        self._committed: dict[Key, None] = {}
        self._behind: dict[Key, None] = {}  # as `_ready`, of those that catch up
        self._catching_up = 0
        self._courtesy = Courtesy()
        self._parked: ParkedFetch | None = None
        self._look: asyncio.Handle | None = None
        self._look_is_soon = False
        self._rest: asyncio.TimerHandle | None = None

    def fetch(self, connection: Connection, header: RequestHeader, request: FetchRequest) -> Buffers | Reply:
        """One request of the follower."""
        if self._parked is not None:
            self._parked.finish()
        self.next_epoch = 1 if self.next_epoch == EPOCH_MAX else self.next_epoch + 1
        for forgotten in request.forgotten_topics:
            for index in forgotten.partitions:
                self._forget((forgotten.topic_id, index))
        now_ms = self.loop.time() * _MS
        if self._catching_up:
            self._courtesy.on_stored(now_ms, self._limits.time_percent())
        for topic in request.topics:
            for wanted in topic.partitions:
                self._take((topic.topic_id, wanted.index), wanted, request.replica_epoch, now_ms)
        parked = ParkedFetch(self, connection, header, request)
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
        if self._catching_up:
            self._courtesy.on_write(self.loop.time() * _MS)
        asked = self._partitions[key]
        if not asked.is_sent:
            (self._behind if asked.catches_up else self._ready)[key] = None
            self._look_again(soon=True)

    def on_committed(self, partition: Partition) -> None:
        self._note_committed((partition.topic_id, partition.tp.partition))
        self._look_again(soon=False)

    def on_start_moved(self, partition: Partition) -> None:
        self._note_committed((partition.topic_id, partition.tp.partition))
        self._look_again(soon=True)

    def close(self) -> None:
        """The follower is gone, or begins anew."""
        for key in list(self._partitions):
            self._forget(key)
        for timer in (self._look, self._rest):
            if timer is not None:
                timer.cancel()
        if self._parked is not None:
            self._parked.forget()
            self._parked = None

    def _take(self, key: Key, wanted: FetchPartition, broker_epoch: int, now_ms: float) -> None:
        """The follower says how far it is. What is wrong about that is told with the answer."""
        asked = self._partitions.get(key)
        if asked is None:
            asked = self._partitions[key] = _Asked(wanted)
        asked.wanted = wanted
        if not asked.is_sent:
            asked.distance = _UNTOLD  # nothing has brought it nearer, and nothing should have
        asked.is_sent = asked.is_counted = False
        asked.agreed_epoch = _UNTOLD
        asked.broker_epoch, asked.asked_at_ms = broker_epoch, now_ms
        if asked.catches_up:
            self._behind.pop(key, None)
        try:
            partition = self._watch(asked, key)
            if self._diverging(partition, wanted) is None:
                asked.agreed_epoch = partition.leader_epoch
                self._count(asked, partition)
        except ApiError:
            self._unwatch(asked)
        (self._behind if asked.catches_up else self._ready)[key] = None

    def _count(self, asked: _Asked, partition: Partition) -> None:
        wanted, now_ms = asked.wanted, asked.asked_at_ms
        is_waited_for = partition.on_replica_fetch(
            self.follower, asked.broker_epoch, wanted.fetch_offset, now_ms, wanted.log_start_offset
        )
        asked.is_counted = True
        if asked.catches_up is is_waited_for:
            asked.catches_up = not is_waited_for
            asked.distance = _UNTOLD
            self._catching_up += 1 if asked.catches_up else -1
        if asked.catches_up:
            distance = partition.log.log_end_offset - wanted.fetch_offset
            if 0 < asked.distance <= distance:
                self._courtesy.on_outrun(now_ms)
            asked.distance = distance

    def _watch(self, asked: _Asked, key: Key) -> Partition:
        partition = asked.partition
        if partition is None:
            partition = self._find(*key)
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
            self._catching_up -= asked.catches_up
        for keys in (self._ready, self._committed, self._behind):
            keys.pop(key, None)

    def _note_committed(self, key: Key) -> None:
        (self._behind if self._partitions[key].catches_up else self._committed)[key] = None

    def _look_again(self, *, soon: bool) -> None:
        """Answer the fetch that waits: when this turn of the loop is over, so that all that it brings goes together."""
        if self._parked is None or (self._look is not None and (self._look_is_soon or not soon)):
            return
        if self._look is not None:
            self._look.cancel()
        loop = self.loop
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
    ) -> tuple[Results, list[LogSlice | None]]:
        """What there is to tell, up to the limits of the request; what does not fit is told next time.

        `commits_can_wait`: if there is no more to tell than what is committed, it is told after a while.
        """
        found = _Found(is_worth_an_answer=not commits_can_wait)
        ready, self._ready = self._ready, {}
        keys = dict.fromkeys([*ready, *self._committed])
        left = self._collect(keys, min(request.max_bytes, ANSWER_BYTES_MAX), found, self._ready)
        if self._behind and left > 0:
            self._collect_behind(left, found)
        if not found.is_worth_an_answer:
            for key, _ in found.results:
                self._note_committed(key)
            return [], []
        for key, result in found.results:
            self._partitions[key].is_told(result)
        return found.results, found.pieces

    def _collect(self, keys: Iterable[Key], left: int, found: _Found, later: dict[Key, None]) -> int:
        """How many bytes are left for others. One batch goes whole, however large, or its partition would stand still
        for ever."""
        is_first = True
        for key in keys:
            if left <= 0:
                later[key] = None
                continue
            asked = self._partitions[key]
            self._committed.pop(key, None)
            result, piece = self._look_at(key, asked, left, first=is_first)
            if piece is not None:
                left -= piece.size
                is_first = False
                asked.is_sent = True
            elif self._has_more(asked):
                later[key] = None  # its next batch is larger than what is left
            is_urgent = self._is_urgent(asked, result, has_data=piece is not None)
            if is_urgent or result.high_watermark != asked.told_high_watermark:
                found.is_worth_an_answer |= is_urgent
                found.results.append((key, result))
                found.pieces.append(piece)
        return left

    def _collect_behind(self, left: int, found: _Found) -> None:
        """What a follower has missed, unless it rests for the sake of others, or has had as much as it may."""
        now_ms, limits = self.loop.time() * _MS, self._limits
        rest_ms = self._courtesy.rest_ms(now_ms)
        if rest_ms == 0:
            rest_ms = limits.budget.wait_ms(now_ms)
            behind, self._behind = self._behind, {}
            free = [key for key in behind if rest_ms == 0 or not self._is_listed(key)]
            first = len(found.pieces)
            room = min(left, PIECE_BYTES) if self._courtesy.gives_way(now_ms) else left
            self._collect(free, room, found, self._behind)
            self._behind.update({key: None for key in behind if rest_ms > 0 and self._is_listed(key)})
            for (key, _), piece in zip(found.results[first:], found.pieces[first:]):
                if piece is not None:
                    self._courtesy.on_sent(now_ms)
                    if limits.budget.rate is not None and self._is_listed(key):
                        limits.budget.spend(piece.size, now_ms)
        if rest_ms > 0 and self._rest is None:
            self._rest = self.loop.call_later(rest_ms / _MS, self._on_rested)

    def _is_listed(self, key: Key) -> bool:
        partition = self._partitions[key].partition
        return partition is not None and self._limits.is_listed(partition)

    def _on_rested(self) -> None:
        self._rest = None
        if self._parked is not None:
            self._parked.finish(only_if_there_is_something=True)

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
            self.on_storage_error(error)
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
