"""A quorum of one: what this node has synced is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from bifrost.clock import Clock
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.records import decode_batch, encode_batch


class SoloMetadataLog:
    def __init__(self, log: PartitionLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    @property
    def name(self) -> str:
        return self._log.directory

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def replay(self) -> Iterator[tuple[int, bytes]]:
        offset = self._log.log_start_offset
        while offset < self._log.log_end_offset:
            piece = self._log.read(offset, 1 << 20, end_offset=self._log.log_end_offset, min_one_batch=True)
            assert piece is not None
            data = memoryview(piece.file.read_at(piece.size, piece.position))
            for position, header in iter_headers(data):
                for record in decode_batch(data[position : position + header.size_bytes]):
                    yield record.offset, record.value or b""
                offset = header.next_offset

    async def append(self, values: Sequence[bytes]) -> int:
        now = self._clock.now_ms()
        first = self._log.log_end_offset
        batch = encode_batch([(now, None, value, ()) for value in values], base_offset=first, leader_epoch=0)
        self._log.append_replicated(memoryview(batch), now)
        await asyncio.get_running_loop().run_in_executor(None, self._log.flush)
        return first
