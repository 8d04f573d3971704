"""The life of a broker in its cluster: it registers, says that it lives, and asks to leave.

A broker whose node is the whole quorum needs none of this but the registration. Everywhere else it starts fenced, and
takes part once a heartbeat has shown that it knows of its own registration.

What it leads it may lead alone for as long as the controller has to believe that it lives: others are elected when its
session is over. A process that was paused for longer may not know of that yet when it wakes, but it has a clock. Writes
that all replicas in sync acknowledge need no such care, and so they go on while there is no controller at all.

A broker that runs and is taken off the cluster's list comes back to it. One whose id another process has taken stops:
two that act as one would both be believed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Final
from uuid import UUID

from bifrost.broker.controller_channel import ControllerChannel
from bifrost.broker.odin import Odin
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import Endpoint
from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.retries import Retries
from bifrost.protocol.messages.brokers import (
    SECURITY_PROTOCOLS,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)

_log = logging.getLogger(__name__)
_MS: Final = 1000.0
_SHUTDOWN_PAUSE_S: Final = 0.05
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0


class BrokerLifecycle:
    """One start of a broker."""

    def __init__(
        self,
        odin: Odin,
        channel: ControllerChannel,
        *,
        broker_id: int,
        incarnation: bytes,
        session_timeout_ms: int,
        directory_failure_timeout_ms: int,
    ) -> None:
        self.epoch = -1
        self.leads_until = inf if odin.watches_nobody_else else 0.0
        """In the loop's time: until then nobody else is elected for being unable to hear this broker."""
        self._session_s = session_timeout_ms / _MS
        self._failure_timeout_s = directory_failure_timeout_ms / _MS
        self._odin = odin
        self._channel = channel
        self._broker_id = broker_id
        self._incarnation = incarnation
        self._failed_directories: dict[UUID, None] = {}
        self._failures_told = 0
        self._wants_to_stop = False
        self._may_stop = asyncio.Event()
        self._nudge = asyncio.Event()
        self._endpoints: tuple[Endpoint, ...] = ()
        self._rack: str | None = None
        self._directories: Sequence[UUID] = ()
        odin.replica.subscribe(self._on_change)
        odin.follow_leader(self._nudge.set)  # a new one should see soon who lives, and on which connection

    async def register(
        self,
        endpoints: tuple[Endpoint, ...],
        rack: str | None,
        *,
        previous_epoch: int,
        directories: Sequence[UUID] = (),
    ) -> None:
        """Wait until the cluster knows of this start, and this node of that."""
        self._endpoints, self._rack, self._directories = endpoints, rack, directories
        await self._register(previous_epoch)

    async def _register(self, previous_epoch: int) -> None:
        image, retries = self._odin.replica.image, Retries(_PAUSE_S, _PAUSE_MAX_S)
        request = BrokerRegistrationRequest(
            broker_id=self._broker_id,
            cluster_id=image.cluster_id or "",
            incarnation_id=UUID(bytes=self._incarnation),
            listeners=[
                Listener(
                    name=one.listener,
                    host=one.host,
                    port=one.port,
                    security_protocol=SECURITY_PROTOCOLS.index(one.protocol),
                )
                for one in self._endpoints
            ],
            features=[],
            rack=self._rack,
            log_dirs=[one for one in self._directories if one not in self._failed_directories],
            previous_broker_epoch=previous_epoch,
        )
        while True:
            try:
                answer = await self._channel.ask(request, BrokerRegistrationResponse)
                break
            except ApiError as error:
                # Its predecessor may have died a moment ago, the quorum be on its way, or a controller's disk be full.
                is_passing = error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION or error.code.retriable
                if not is_passing or self._may_stop.is_set():
                    raise
                if retries.is_news(error):
                    _log.warning("registration refused, trying again error=%s detail=%r", error.code.name, error.detail)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._may_stop.wait(), retries.pause_s())
                self._check_alone()
        self.epoch = answer.broker_epoch
        await self._odin.until_applied(self.epoch)

    async def run(self, interval_ms: int) -> None:
        """Say that this broker lives, until it may stop. The first word unfences it.

        ApiError: there is another broker of this id by now.
        """
        retries = Retries(_PAUSE_S, _PAUSE_MAX_S)
        while not self._may_stop.is_set():
            pause_s = interval_ms / _MS
            await self._stay_registered()
            if self._odin.watches_nobody_else and not self.has_untold_failures:
                self._nudge.clear()
                await self._nudge.wait()
                continue
            try:
                answer = await self._beat()
                retries.succeeded()
                if answer.should_shut_down and self._wants_to_stop:
                    self._may_stop.set()
                    return
                if self._wants_to_stop or answer.is_fenced:
                    pause_s = min(pause_s, _SHUTDOWN_PAUSE_S)
            except ApiError as error:
                if retries.is_news(error):
                    _log.warning("heartbeat failed error=%s detail=%r", error.code.name, error.detail)
                pause_s = min(pause_s, retries.pause_s())
            self._nudge.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudge.wait(), pause_s)

    def directory_failed(self, directory: UUID, *, on_unheard: Callable[[], None]) -> None:
        """Tell the controller at once, and with every heartbeat: others shall lead what was in it (KIP-858).

        If it does not hear of that in time, this broker would go on as the leader of what it cannot serve.
        """

        def check() -> None:
            if list(self._failed_directories).index(directory) >= self._failures_told and not self._may_stop.is_set():
                _log.error("the controller could not be told that a log directory failed id=%s", directory)
                on_unheard()

        if directory not in self._failed_directories:
            self._failed_directories[directory] = None
            asyncio.get_running_loop().call_later(self._failure_timeout_s, check)
            self._nudge.set()

    @property
    def has_untold_failures(self) -> bool:
        """Whether the controller has yet to hear of a directory that failed."""
        return self._failures_told < len(self._failed_directories)

    async def until_unfenced(self) -> None:
        """Wait until this broker takes part, as far as its own image knows."""

        def takes_part(image: MetadataImage) -> bool:
            known = image.brokers.get(self._broker_id)  # not if it was unregistered meanwhile: it registers again
            return known is not None and not known.fenced

        await self._odin.until(takes_part)

    async def leave(self, timeout_s: float) -> None:
        """Give leaderships away and wait until others have them, or until time is over (controlled shutdown)."""
        if self._odin.watches_nobody_else or self.epoch < 0:
            return
        self._wants_to_stop = True
        self._nudge.set()
        try:
            await asyncio.wait_for(self._may_stop.wait(), timeout_s)
        except TimeoutError:
            _log.warning("stopping without leave: the controller did not answer in time")
        self._may_stop.set()
        self._nudge.set()

    def close(self) -> None:
        self._may_stop.set()
        self._nudge.set()

    def _on_change(self, image: MetadataImage, _delta: Delta) -> None:
        if self.epoch >= 0 and self._broker_id not in image.brokers:
            self._nudge.set()

    async def _stay_registered(self) -> None:
        """Register again if somebody has unregistered this broker meanwhile."""
        known = self._odin.replica.image.brokers.get(self._broker_id)
        if known is None and self._wants_to_stop:
            self._may_stop.set()
        elif known is None:
            _log.warning("unregistered while it runs, registering again epoch=%d", self.epoch)
            try:
                await self._register(-1)
            except ApiError:
                if not self._may_stop.is_set():
                    raise
        self._check_alone()

    def _check_alone(self) -> None:
        known = self._odin.replica.image.brokers.get(self._broker_id)
        if known is not None and known.epoch > self.epoch >= 0 and known.incarnation != self._incarnation:
            raise ApiError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"another process has registered as broker {self._broker_id}"
            )

    async def _beat(self) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._odin.replica.next_offset - 1,
            want_fence=False,
            want_shut_down=self._wants_to_stop,
            offline_log_dirs=list(self._failed_directories),
        )
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        answer = await self._channel.ask(request, BrokerHeartbeatResponse)
        self._failures_told = max(self._failures_told, len(request.offline_log_dirs))
        if not answer.is_fenced:
            self.leads_until = asked_at + self._session_s
        return answer
