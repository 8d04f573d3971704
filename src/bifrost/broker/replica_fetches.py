"""Fetch, as followers ask: who has which session. What a session does is in `replica_session`.

A follower has one session (KIP-227), which ends with its connection or when it begins another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, cast

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.replica_session import EPOCH_MAX, FIRST_EPOCH, CatchUpLimits, Find, ReplicaSession
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.protocol.fetch import TOPIC_IDS_SINCE, FetchRequest, FetchResponse, encode_response
from bifrost.protocol.frame import RequestHeader
from bifrost.types import NodeId

_FINAL_EPOCH: Final = -1


class ReplicaFetches:
    """The sessions of all followers of this node's partitions."""

    def __init__(
        self,
        find: Find,
        *,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        on_storage_error: Callable[[StorageError], None],
        limits: CatchUpLimits | None = None,
    ) -> None:
        self._find = find
        self._loop = loop
        self._on_storage_error = on_storage_error
        self._limits = limits or CatchUpLimits()
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
        if request.session_epoch in (FIRST_EPOCH, _FINAL_EPOCH):
            if known is not None:
                known.close()
            session_id = self._rng.randrange(1, EPOCH_MAX) if request.session_epoch == FIRST_EPOCH else 0
            session = self._sessions[follower] = ReplicaSession(
                follower,
                session_id,
                find=self._find,
                loop=self._loop,
                on_storage_error=self._on_storage_error,
                limits=self._limits,
            )
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
