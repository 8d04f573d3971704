"""A follower's fetch that waits for something to tell, and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from bifrost.broker.connection import FETCHES, Buffers, Connection, Reply
from bifrost.broker.fetch_answer import FetchAnswer
from bifrost.errors import StorageError
from bifrost.log.slices import LogSlice
from bifrost.protocol.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
    TopicFetchResult,
    encode_response,
)
from bifrost.protocol.frame import RequestHeader

_MS: Final = 1000.0

Key = tuple[bytes, int]
"""Topic id and partition."""
Results = list[tuple[Key, PartitionFetchResult]]


class FetchSession(Protocol):
    """What the fetch is a part of."""

    id: int
    loop: asyncio.AbstractEventLoop
    on_storage_error: Callable[[StorageError], None]

    def results(self, request: FetchRequest) -> tuple[Results, list[LogSlice | None]]: ...

    def take_parked(self) -> None: ...


class ParkedFetch:
    """A fetch that waits for something to tell, or for its time to be over."""

    __slots__ = ("_connection", "_header", "_request", "_session", "_timer", "reply")

    def __init__(
        self, session: FetchSession, connection: Connection, header: RequestHeader, request: FetchRequest
    ) -> None:
        self._session = session
        self._connection = connection
        self._header = header
        self._request = request
        self._timer: asyncio.TimerHandle | None = None
        self.reply = Reply(connection, followed_by=FETCHES)

    def wait(self) -> None:
        self.reply.cancel = self.forget
        loop = self._session.loop
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

    def answer(self, results: Results, pieces: list[LogSlice | None]) -> FetchAnswer:
        return FetchAnswer(
            self._connection,
            [result for _, result in results],
            pieces,
            encode=lambda: self._encode(results),
            on_storage_error=self._session.on_storage_error,
        )

    def _encode(self, results: Results) -> Buffers:
        topics: dict[bytes, list[PartitionFetchResult]] = {}
        for (topic_id, _), result in results:
            topics.setdefault(topic_id, []).append(result)
        response = FetchResponse(
            [TopicFetchResult("", topic_id, partitions) for topic_id, partitions in topics.items()],
            session_id=self._session.id,
        )
        return cast("Buffers", encode_response(self._header.api_version, self._header.correlation_id, response))
