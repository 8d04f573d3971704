"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, then only what changed.

A session belongs to whoever knows its id. There are at most `slots` of them; when all are taken, the one unused longest
goes, unless it was used within the last two minutes: then the newcomer is served without a session, which costs it
nothing but longer requests.

Must never: change a session on a request that is refused.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionFetchResult

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1
_PROTECTED_S = 120.0

TopicKey = str | bytes
"""A topic as the client names it: by name before version 13, by id from then on."""


@dataclass(slots=True)
class SessionPartition:
    """One partition of a session, with what the client was last told about it."""

    request: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def differs(self, result: PartitionFetchResult) -> bool:
        """Whether an incremental answer must name this partition; remembers what it is told."""
        changed = (
            bool(result.records)
            or result.error_code != ErrorCode.NONE
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.preferred_read_replica != -1
            or result.diverging_epoch is not None
        )
        self.high_watermark = result.high_watermark
        self.log_start_offset = result.log_start_offset
        if result.error_code != ErrorCode.NONE:
            self.high_watermark = -1  # so that the partition is named again once it has recovered
        return changed


@dataclass(slots=True)
class FetchSession:
    """What one consumer has asked for so far."""

    id: int
    epoch: int
    by_id: bool
    last_used: float
    partitions: dict[tuple[TopicKey, int], SessionPartition] = field(default_factory=dict)


class FetchPlan:
    """What one request fetches: its partitions in order, and how its answer is to be written."""

    __slots__ = ("_session", "incremental", "partitions", "session_id")

    def __init__(
        self,
        partitions: list[tuple[TopicKey, FetchPartition]],
        session: FetchSession | None = None,
        *,
        incremental: bool = False,
    ) -> None:
        self.partitions = partitions
        self.session_id = 0 if session is None else session.id
        self.incremental = incremental
        self._session = session

    def tell(self, topic: TopicKey, result: PartitionFetchResult) -> bool:
        """Whether the answer names this partition. Call once, for the answer that is sent."""
        if self._session is None:
            return True
        known = self._session.partitions.get((topic, result.index))
        if known is None:
            return True
        return known.differs(result) or not self.incremental

    def rotate(self, topic: TopicKey, index: int) -> None:
        """A partition that got data goes to the end of the line, so that a full answer starves nobody."""
        if self._session is not None:
            known = self._session.partitions.pop((topic, index), None)
            if known is not None:
                self._session.partitions[topic, index] = known


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, *, by_id: bool, now: float) -> FetchPlan:
        """Find or make the request's session; raises the ApiError that refuses the request."""
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != 0:
                self._sessions.pop(request.session_id, None)
            # Named twice, a partition is fetched once, as it was asked for last.
            asked = {(topic, wanted.index): wanted for topic, wanted in _named(request.topics, by_id=by_id)}
            partitions = [(topic, wanted) for (topic, _), wanted in asked.items()]
            if request.session_epoch == FINAL_EPOCH:
                return FetchPlan(partitions)
            return FetchPlan(partitions, self._create(partitions, by_id=by_id, now=now))
        return self._continue(request, by_id=by_id, now=now)

    def forget(self, plan: FetchPlan) -> None:
        """The client will not hear of the session that was made for this request."""
        self._sessions.pop(plan.session_id, None)
        plan.session_id = 0

    def _create(
        self, partitions: list[tuple[TopicKey, FetchPartition]], *, by_id: bool, now: float
    ) -> FetchSession | None:
        if not partitions or not self._make_room(now):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31 - 1)
        session = FetchSession(session_id, epoch=1, by_id=by_id, last_used=now)
        for topic, partition in partitions:
            session.partitions[topic, partition.index] = SessionPartition(partition)
        self._sessions[session_id] = session
        return session

    def _make_room(self, now: float) -> bool:
        if self._slots <= 0:
            return False
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used < _PROTECTED_S:
            return False
        del self._sessions[oldest.id]
        return True

    def _continue(self, request: FetchRequest, *, by_id: bool, now: float) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        for topic, partition in _named(request.topics, by_id=by_id):
            known = session.partitions.get((topic, partition.index))
            if known is None:
                session.partitions[topic, partition.index] = SessionPartition(partition)
            else:
                known.request = partition
        for forgotten in request.forgotten_topics:
            for index in forgotten.partitions:
                session.partitions.pop((forgotten.topic_id if by_id else forgotten.name, index), None)
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.last_used = now
        self._sessions[session.id] = self._sessions.pop(session.id)
        if not session.partitions:
            del self._sessions[session.id]
            return FetchPlan([])
        partitions = [(topic, known.request) for (topic, _), known in session.partitions.items()]
        return FetchPlan(partitions, session, incremental=True)


def _named(topics: Iterable[FetchTopic], *, by_id: bool) -> Iterable[tuple[TopicKey, FetchPartition]]:
    for topic in topics:
        key: TopicKey = topic.topic_id if by_id else topic.name
        for partition in topic.partitions:
            yield key, partition
