"""Which brokers live, as the active controller sees it: it hears their heartbeats, and fences those it lost.

A process that dies takes its connection with it, and its broker is fenced in that moment. So it is if its address
cannot be reached at all. If somebody still listens there, the broker may have given up the connection itself, and has a
moment to say so on another. Timeouts are for those that hang, and for links that are cut. Nothing of this is stored:
whoever leads next gives every broker a new session. One that died together with the controller before never had a
connection to this one, so those that are not heard of soon are looked for: where nobody listens any more, there is no
need to wait.

This file waits and calls; `core/heartbeats.py` decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bifrost.controller.core.brokers import Registration, check_registered, register_broker
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.heartbeats import (
    NOTHING_SEEN,
    BrokerSessions,
    BrokerStart,
    Heartbeat,
    HeartbeatAnswer,
    fence_broker,
    heartbeat,
)
from bifrost.controller.core.records import DIED, SILENT
from bifrost.controller.driver import Controller
from bifrost.errors import ApiError, ErrorCode

_log = logging.getLogger(__name__)

_MS: Final = 1000
_LOOK_AFTER_S: Final = 0.1
"""Brokers turn to a new controller as soon as they hear of it, which takes them milliseconds."""
_LOOKS: Final = 20
_LOOK_S: Final = 0.2
"""Whoever closed a connection is near enough to answer at once; others are led by new leaders in the meantime."""

_GRACE_MS: Final = 2_000
"""A broker that gave up a connection tries another after 50 ms; this one may be busy."""

_GLANCE_S: Final = 0.02
"""However late this node is, what lies in its sockets by now is read and understood in so long."""

_OWN_PAUSE_MS: Final = 500
"""Who wakes so much later than it wanted to was stopped itself, or its whole machine was."""

_REASONS: Final = {SILENT: "silent", DIED: "died"}

IsGone = Callable[[int], Awaitable[bool | None]]
"""Whether nobody listens any more where the broker did; None if that cannot be told."""


class BrokerWatch:
    """Belongs to one controller, and counts only while that is active."""

    def __init__(
        self, controller: Controller, loop: asyncio.AbstractEventLoop, is_gone: IsGone, *, session_timeout_ms: int
    ) -> None:
        self._controller = controller
        self._loop = loop
        self._is_gone = is_gone
        self._took_over = asyncio.Event()
        self._sessions = BrokerSessions(session_timeout_ms)
        self._changed = asyncio.Event()
        self._stopped = False

    def on_active(self, unwatched: int | None) -> None:
        """This node leads from now on. The broker is not watched that cannot die without this controller."""
        image = self._controller.image
        self._sessions.on_takeover(image, self._now_ms())
        if unwatched in image.brokers:
            self._sessions.forget(unwatched, image.brokers[unwatched].epoch)
        self._took_over.set()
        self._changed.set()

    async def register(self, asked: Registration, *, fenced: bool) -> int:
        """The broker's epoch. One that starts fenced is unfenced by a heartbeat, when it has seen its registration."""
        epoch = await self._controller.submit_and_read(
            lambda image: register_broker(image, asked, fenced=fenced, session_alive=self._was_heard(asked.broker_id)),
            lambda image: image.brokers[asked.broker_id].epoch,
        )
        if fenced:
            self._sessions.on_registered(asked.broker_id, epoch, self._now_ms())
            self._changed.set()
        return epoch

    def check(self, asked: Heartbeat) -> None:
        """ApiError(STALE_BROKER_EPOCH) if it is of a broker that is not the one that is registered."""
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node does not lead the quorum")
        check_registered(self._controller.image, broker_id=asked.broker_id, broker_epoch=asked.broker_epoch)

    async def heartbeat(self, asked: Heartbeat) -> HeartbeatAnswer:
        """What the broker is told; ApiError if `check` has anything against it.

        Where nothing changes it does not wait for what others want changed: a broker that gets no answer goes looking
        for another controller.
        """
        self.check(asked)
        self._sessions.on_heartbeat(
            asked.broker_id, asked.broker_epoch, self._now_ms(), metadata_offset=asked.metadata_offset
        )
        self._changed.set()
        offsets = self._sessions.metadata_offsets
        answer = self._controller.answer_now(lambda image: heartbeat(image, asked, offsets))
        if answer is not None:
            return answer
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
                if deadline is not None and self._now_ms() - deadline > _OWN_PAUSE_MS:
                    _log.warning("this node did not run for a while late_ms=%d", self._now_ms() - deadline)
                    self._sessions.on_own_pause(self._now_ms())
                continue
            await self._fence(*self._sessions.expired(self._now_ms())[0])  # meanwhile the next may be heard of

    async def look_around(self) -> None:
        """After a takeover, look for brokers that are not heard of, until `close`."""
        while not self._stopped:
            await self._took_over.wait()
            self._took_over.clear()
            for _ in range(_LOOKS):
                await asyncio.sleep(_LOOK_AFTER_S)
                if self._stopped or not self._controller.is_active or not self._sessions.unheard():
                    break
                await self._look_for_the_dead()

    def close(self) -> None:
        self._stopped = True
        self._changed.set()
        self._took_over.set()

    async def _look_for_the_dead(self) -> None:
        async def look(broker_id: int, epoch: int) -> None:
            if await self._is_gone(broker_id) and (broker_id, epoch) in self._sessions.unheard():
                _log.info("broker not there any more id=%d epoch=%d", broker_id, epoch)
                self.on_connection_lost(broker_id, epoch)

        await asyncio.gather(*(look(*start) for start in self._sessions.unheard()))

    def _was_heard(self, broker_id: int) -> bool:
        """Whether the start of the broker that is registered lives for certain. One that got its session when this
        controller took over, and was not heard of since, is more likely to be dead than to have a double."""
        known = self._controller.image.brokers.get(broker_id)
        if known is None:
            return False
        start = BrokerStart(broker_id, known.epoch)
        heard = self._sessions.metadata_offsets.get(start, NOTHING_SEEN) != NOTHING_SEEN
        return heard and self._sessions.is_alive(*start, self._now_ms())

    async def _why(self, start: BrokerStart) -> int:
        """What has become of a broker whose session is over; a lost connection alone does not tell."""
        known = self._controller.image.brokers.get(start.broker_id)
        if known is None or known.epoch != start.epoch or known.fenced:
            return SILENT  # nothing is decided for it
        if not self._sessions.has_lost_connection(*start):
            await asyncio.sleep(_GLANCE_S)
            return SILENT
        try:
            is_gone = await asyncio.wait_for(self._is_gone(start.broker_id), _LOOK_S)
            if is_gone is False:  # a process that ends closes its doors one after the other, perhaps this one last
                await asyncio.sleep(_GLANCE_S)
                is_gone = await asyncio.wait_for(self._is_gone(start.broker_id), _LOOK_S)
        except TimeoutError:
            return SILENT
        if is_gone is False and self._sessions.on_still_there(*start, self._now_ms(), grace_ms=_GRACE_MS):
            _log.info("connection lost, broker still there id=%d epoch=%d", *start)
        return DIED if is_gone else SILENT

    async def _fence(self, broker_id: int, epoch: int) -> None:
        start = BrokerStart(broker_id, epoch)

        def is_lost() -> bool:
            return start in self._sessions.expired(self._now_ms())

        reason = await self._why(start)
        if not is_lost():
            return  # it was heard of while it was looked for, or may be
        try:
            fenced = await self._controller.submit(
                # Its turn may come late, and what it said meanwhile was answered: nobody else leads yet.
                lambda image: fence_broker(image, *start, reason) if is_lost() else Decision((), False)
            )
        except ApiError as error:
            _log.warning("broker not fenced id=%d error=%s detail=%r", broker_id, error.code.name, error.detail)
            await self._wait(0.1)
            return
        if is_lost():  # else it was heard of, and may take part now
            self._sessions.forget(broker_id, epoch)
        if fenced:
            _log.warning("broker fenced id=%d epoch=%d reason=%s", broker_id, epoch, _REASONS[reason])

    async def _wait(self, seconds: float | None) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            pass

    def _now_ms(self) -> int:
        return int(self._loop.time() * _MS)
