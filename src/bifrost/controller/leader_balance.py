"""Leaders go home: now and then the active controller lets the first replica of each partition lead again.

A broker that comes back leads nothing, and the others carry its load until somebody gives it back. Bounded batches, so
that a large cluster's changes do not hold up everybody else's. This file waits and calls; `core/elect_leaders.py`
decides, and elects nobody who is not in sync.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bifrost.controller.driver import Controller
from bifrost.errors import ApiError

_log = logging.getLogger(__name__)

_ELECTIONS_MAX: Final = 1_000
"""At a time (Kafka: ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE)."""


class LeaderBalance:
    """Belongs to one controller, and does nothing while that is not active."""

    def __init__(self, controller: Controller, *, enabled: bool, interval_s: float) -> None:
        self._controller = controller
        self._enabled = enabled
        self._interval_s = interval_s
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Look every so often, until `close`."""
        while self._enabled and not await self._stops_within(self._interval_s):
            try:
                while self._has_work() and await self._controller.rebalance_leaders(elections_max=_ELECTIONS_MAX):
                    pass
            except ApiError as error:  # somebody else leads by now, or too many wait: next time
                _log.info("leaders not rebalanced error=%s detail=%r", error.code.name, error.detail)

    def close(self) -> None:
        self._stopped.set()

    def _has_work(self) -> bool:
        index = self._controller.image.index
        return self._controller.is_active and any(map(index.not_led, index.preferred))

    async def _stops_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopped.wait(), seconds)
        except TimeoutError:
            return False
        return True
