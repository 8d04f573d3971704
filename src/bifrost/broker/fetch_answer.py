"""Reads the slices that an answer to Fetch consists of, and sends them off. Shared by consumers and followers.

A large slice that the page cache holds goes from file to socket inside the kernel, a small one is read on the loop, and
one that must come from the disk is read by a thread, so that a reader of old data never makes the others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.slice_sender import is_sendable
from bifrost.errors import ErrorCode, StorageError
from bifrost.log.slices import LogSlice
from bifrost.protocol.fetch import PartitionFetchResult
from bifrost.protocol.wire import Buffer

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""A broker may answer with less than was asked for. This bounds the memory and the time that one answer takes."""


class FetchAnswer:
    """What was found for one request, on its way out."""

    __slots__ = ("_connection", "_encode", "_on_storage_error", "_pieces", "_results")

    def __init__(
        self,
        connection: Connection,
        results: Sequence[PartitionFetchResult],
        pieces: Sequence[LogSlice | None],
        *,
        encode: Callable[[], Buffers],
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self._connection = connection
        self._results = results
        self._pieces = pieces
        self._encode = encode
        self._on_storage_error = on_storage_error

    def read(self, reply: Reply | None = None) -> Buffers | Reply:
        """The answer, or a reply that will have it once a thread has read what the page cache lacks."""
        cold = []
        for result, piece in zip(self._results, self._pieces):
            if piece is not None:
                records = self._read(piece)
                if records is None:
                    cold.append((result, piece))
                else:
                    result.records = records
        if not cold:
            return self._encode()
        reply = reply or Reply(self._connection)
        task = asyncio.ensure_future(self._read_cold(cold, reply))
        reply.cancel = task.cancel
        return reply

    def send(self, reply: Reply) -> None:
        """Complete a reply that has been waiting."""
        answer = self.read(reply)
        if not isinstance(answer, Reply):
            reply.send(answer)

    def _read(self, piece: LogSlice) -> Buffer | LogSlice | None:
        """The slice's bytes, or the slice itself when it can be sent from its file; None if it is not in memory."""
        if self._connection.can_send_slices() and is_sendable(piece):
            return piece
        return piece.file.read_cached(piece.size, piece.position)

    async def _read_cold(self, cold: list[tuple[PartitionFetchResult, LogSlice]], reply: Reply) -> None:
        loop = asyncio.get_running_loop()
        for result, piece in cold:
            try:
                result.records = cast(
                    "Buffer", await loop.run_in_executor(None, piece.file.read_at, piece.size, piece.position)
                )
            except StorageError as error:
                self._on_storage_error(error)
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                result.high_watermark = result.last_stable_offset = result.log_start_offset = -1
        reply.send(self._encode())
