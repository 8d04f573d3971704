"""Looks into produced batches, where their topics want that, without holding up the loop.

A small batch is looked into at once. Any other goes to a worker process where the node may start some, and to a thread
where it may not: Python that walks over records would take turns with the loop there, and double its delays. Few
batches are open at a time, so that what they inflate to has a bound on the whole node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor
from typing import Final

from bifrost.errors import ErrorCode
from bifrost.protocol.inspection import Refusal, Rules, inspect

_log = logging.getLogger(__name__)

OPEN_MAX: Final = 2
"""Batches that are looked into at the same time."""
AT_ONCE_BYTES_MAX: Final = 8 << 10
"""A batch of this size, and what it inflates to, takes less time than sending it elsewhere."""
_ATTEMPTS: Final = 2


class Inspector:
    """One broker's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, new_pool: Callable[[], Executor] | None) -> None:
        self._loop = loop
        self._new_pool = new_pool
        self._pool: Executor | None = None
        self._turns = asyncio.Semaphore(OPEN_MAX)

    def inspect_at_once(self, batch: bytearray, rules: Rules) -> tuple[bytearray | Refusal | None] | None:
        """What `inspect` says, or nothing at all if that would take too long."""
        if len(batch) > AT_ONCE_BYTES_MAX:
            return None
        found = inspect(batch, rules._replace(limit_bytes=min(rules.limit_bytes, AT_ONCE_BYTES_MAX)))
        if isinstance(found, Refusal) and found.code == ErrorCode.MESSAGE_TOO_LARGE:
            return None
        return (found,)

    async def inspect(self, batch: bytearray, rules: Rules) -> bytearray | Refusal | None:
        async with self._turns:
            for _ in range(_ATTEMPTS):
                pool = self._workers()
                try:
                    return await self._loop.run_in_executor(pool, inspect, batch, rules)
                except BrokenExecutor:  # somebody has killed a worker; others may have noticed before
                    _log.exception("a worker process died while it looked into a batch bytes=%d", len(batch))
                    if self._pool is pool:
                        self.close()
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "nobody was able to look into the batch", [])

    def _workers(self) -> Executor | None:
        if self._pool is None and self._new_pool is not None:
            self._pool = self._new_pool()
        return self._pool

    def close(self) -> None:
        """Nobody waits for the batches that are open."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
