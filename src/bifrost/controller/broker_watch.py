"""Which brokers live, as the active controller sees it: it hears their heartbeats, and fences those it lost.

A process that dies takes its connection with it, and its broker is fenced in that moment. Timeouts are for those that
hang, and for links that are cut. Nothing of this is stored: whoever leads next gives every broker a new session.

This file waits and calls; `core/heartbeats.py` decides.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bifrost.controller.core.brokers import Registration, check_registered, register_broker
from bifrost.controller.core.heartbeats import (
    NOTHING_SEEN,
    BrokerSessions,
    BrokerStart,
    Heartbeat,
    HeartbeatAnswer,
    fence_broker,
    heartbeat,
)
from bifrost.controller.driver import Controller
from bifrost.errors import ApiError, ErrorCode

_log = logging.getLogger(__name__)

_MS: Final = 1000


class BrokerWatch:
    """Belongs to one controller, and counts only while that is active."""

    def __init__(self, controller: Controller, loop: asyncio.AbstractEventLoop, *, session_timeout_ms: int) -> None:
        self._controller = controller
        self._loop = loop
        self._sessions = BrokerSessions(session_timeout_ms)
        self._changed = asyncio.Event()
        self._stopped = False

    def on_active(self, unwatched: int | None) -> None:
        """This node leads from now on. The broker is not watched that cannot die without this controller."""
        image = self._controller.image
        self._sessions.on_takeover(image, self._now_ms())
        if unwatched in image.brokers:
            self._sessions.forget(unwatched, image.brokers[unwatched].epoch)
        self._changed.set()

    async def register(self, asked: Registration, *, fenced: bool) -> int:
        """The broker's epoch. One that starts fenced is unfenced by a heartbeat, when it has seen its registration."""
        known = self._controller.image.brokers.get(asked.broker_id)
        alive = known is not None and self._was_heard(BrokerStart(known.broker_id, known.epoch))
        await self._controller.submit(lambda image: register_broker(image, asked, fenced=fenced, session_alive=alive))
        epoch = self._controller.image.brokers[asked.broker_id].epoch
        if fenced:
            self._sessions.on_registered(asked.broker_id, epoch, self._now_ms())
            self._changed.set()
        return epoch

    async def heartbeat(self, asked: Heartbeat) -> HeartbeatAnswer:
        """What the broker is told. ApiError(STALE_BROKER_EPOCH) if it is not the one that is registered."""
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node does not lead the quorum")
        check_registered(self._controller.image, broker_id=asked.broker_id, broker_epoch=asked.broker_epoch)
        self._sessions.on_heartbeat(
            asked.broker_id, asked.broker_epoch, self._now_ms(), metadata_offset=asked.metadata_offset
        )
        self._changed.set()
        offsets = self._sessions.metadata_offsets
        return await self._controller.submit(lambda image: heartbeat(image, asked, offsets))

    def on_connection_lost(self, broker_id: int, epoch: int) -> None:
        """The connection that its heartbeats came on has ended."""
        if self._controller.is_active:
            self._sessions.on_connection_lost(broker_id, epoch)
            self._changed.set()

    async def run(self) -> None:
        """Fence whoever is lost, until `close`."""
        while not self._stopped:
            deadline = self._sessions.deadline_ms() if self._controller.is_active else None
            self._changed.clear()
            if deadline is None or deadline > self._now_ms():
                await self._wait(None if deadline is None else (deadline - self._now_ms()) / _MS)
                continue
            for broker_id, epoch in self._sessions.expired(self._now_ms()):
                await self._fence(broker_id, epoch)

    def close(self) -> None:
        self._stopped = True
        self._changed.set()

    def _was_heard(self, start: BrokerStart) -> bool:
        """Whether that start of the broker lives for certain. One that got its session when this controller took over,
        and was not heard of since, is more likely to be dead than to have a double."""
        heard = self._sessions.metadata_offsets.get(start, NOTHING_SEEN) != NOTHING_SEEN
        return heard and self._sessions.is_alive(*start, self._now_ms())

    async def _fence(self, broker_id: int, epoch: int) -> None:
        try:
            fenced = await self._controller.submit(lambda image: fence_broker(image, broker_id, epoch))
        except ApiError as error:
            _log.warning("broker not fenced id=%d error=%s detail=%r", broker_id, error.code.name, error.detail)
            await self._wait(0.1)
            return
        self._sessions.forget(broker_id, epoch)
        if fenced:
            _log.warning("broker fenced id=%d epoch=%d", broker_id, epoch)

    async def _wait(self, seconds: float | None) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            pass

    def _now_ms(self) -> int:
        return int(self._loop.time() * _MS)
