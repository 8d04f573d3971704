"""The doors of a node: its listeners, the connections that came through them, and their limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from bifrost.broker.connection import Connection
from bifrost.broker.context import Broker
from bifrost.broker.odin import Odin
from bifrost.broker.quotas.client_quotas import ClientQuotas
from bifrost.broker.quotas.core.connection_limits import ConnectionLimits, Verdict
from bifrost.broker.receive import BufferPool
from bifrost.broker.registry import CONTROLLER_APIS, ApiDispatcher
from bifrost.controller.core.records import Endpoint
from bifrost.metrics import Metrics
from bifrost.peers.transport import Listening, Transport
from bifrost.settings import Listener, Settings

_log = logging.getLogger(__name__)

_IDLE_CHECKS = 10
"""An idle connection is closed at most a tenth of its allowed time late."""
_DRAIN_S = 1.0
_TOO_MANY = "connections come too fast"
_WAITING_MAX = 1_000
"""Connections that are kept waiting before they are closed; more are closed as they come."""


class Server:
    """Accepts connections on every listener and closes them again."""

    def __init__(self, settings: Settings, transport: Transport, metrics: Metrics) -> None:
        self._settings = settings
        self._transport = transport
        self._metrics = metrics
        self._pool = BufferPool(settings.queued_max_request_bytes)
        self._doors: list[tuple[Listener, Listening]] = []
        self._controller_doors: list[tuple[Listener, Listening]] = []
        self._connections: dict[Connection, None] = {}
        self._limits = ConnectionLimits(settings, protected=_protected(settings))
        self._quotas: ClientQuotas | None = None
        self._waiting: dict[Connection, asyncio.TimerHandle] = {}  # to be served, or to be closed
        self._dispatcher: ApiDispatcher | None = None
        self._controller_dispatcher: ApiDispatcher | None = None
        self._idle_check: asyncio.TimerHandle | None = None
        self._all_closed = asyncio.Event()

    @property
    def address(self) -> str:
        """What a client of the first listener should bootstrap from; that of the quorum, where there is no other."""
        first = (self.endpoints() or self.controller_endpoints())[0]
        host = f"[{first.host}]" if ":" in first.host else first.host
        return f"{host}:{first.port}"

    async def bind(self) -> None:
        """Take every address, so that ports are known; nobody is let in yet."""
        roles = self._settings.process_roles
        if "broker" in roles:
            for listener in self._settings.broker_listeners:
                self._doors.append((listener, await self._listen(listener, self._accept_client)))
        if "controller" in roles:
            for listener in self._settings.controller_listeners:
                self._controller_doors.append((listener, await self._listen(listener, self._accept_controller)))

    async def _listen(self, listener: Listener, accept: Callable[[str], Connection]) -> Listening:
        try:
            return await self._transport.listen(
                listener.host,
                listener.port,
                lambda: accept(listener.name),
                backlog=self._settings.socket_listen_backlog_size,
            )
        except OSError as error:
            # The loop's own text repeats the address; errors of name look-up have numbers of their own, below 0.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(error.errno, f"cannot listen on {listener}: {reason}") from error

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What clients are told: advertised where something is, else what is open."""
        advertised = {listener.name: listener for listener in self._settings.advertised}
        return self._told(self._doors, advertised)

    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the quorum is reached on this node."""
        return self._told(self._controller_doors, {})

    def _told(
        self, doors: Iterable[tuple[Listener, Listening]], advertised: Mapping[str, Listener]
    ) -> tuple[Endpoint, ...]:
        found = []
        for listener, door in doors:
            told = advertised.get(listener.name, listener)
            host = told.host if told.host not in ("", "0.0.0.0", "::") else self._transport.host_name()
            found.append(Endpoint(listener.name, host, told.port or door.port, listener.protocol))
        return tuple(found)

    def reconfigure(self, settings: Settings) -> None:
        """From now on these count; connections that were let in stay."""
        self._settings = settings
        self._limits.reconfigure(settings)

    async def serve_controllers(self, odin: Odin) -> None:
        """Let in those who vote, those who follow, and brokers: before any client, for the quorum comes first."""
        self._controller_dispatcher = ApiDispatcher(
            odin, CONTROLLER_APIS, max_bytes=self._settings.socket_request_max_bytes
        )
        for _, door in self._controller_doors:
            await door.start()

    async def serve(self, broker: Broker) -> None:
        """Let clients in."""
        self._quotas = broker.quotas
        self._dispatcher = ApiDispatcher(broker, max_bytes=self._settings.request_max_bytes, quotas=broker.quotas)
        for _, door in self._doors:
            await door.start()
        self._schedule_idle_check()

    async def close(self, *, clean: bool) -> None:
        """Close the doors and every connection; in good order, what is already answered still leaves."""
        if self._idle_check is not None:
            self._idle_check.cancel()
        for _, door in (*self._doors, *self._controller_doors):
            door.close()
        for connection in list(self._connections):
            connection.close() if clean else connection.abort()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), _DRAIN_S)
        for connection in [*self._connections, *self._waiting]:
            connection.abort()

    def hang_up(self) -> None:
        """No request is started from now on, and no answer sent."""
        for connection in list(self._connections):
            connection.abort()

    def _accept_client(self, listener: str) -> Connection:
        assert self._dispatcher is not None, "a door was opened before there was somebody to answer it"
        return self._accept(listener, self._dispatcher)

    def _accept_controller(self, listener: str) -> Connection:
        assert self._controller_dispatcher is not None, "a door was opened before there was somebody to answer it"
        return self._accept(listener, self._controller_dispatcher)

    def _accept(self, listener: str, dispatcher: ApiDispatcher) -> Connection:
        return Connection(
            dispatcher,
            self._pool,
            self._metrics,
            listener=listener,
            max_frame_bytes=self._settings.socket_request_max_bytes,
            max_pipelined=self._settings.connection_max_inflight_requests,
            max_unsent_bytes=self._settings.connection_max_unsent_bytes,
            on_open=self._on_open,
            on_close=self._on_close,
        )

    def _on_open(self, connection: Connection) -> bool:
        now_ms = asyncio.get_running_loop().time() * 1000
        turned_away_ms = 0 if self._quotas is None else self._quotas.on_connection(connection.address)
        if turned_away_ms > 0:
            self._metrics.connections_refused += 1
            return self._turn_away(connection, turned_away_ms)
        admission = self._limits.on_open(connection.listener, connection.address, now_ms)
        if admission.verdict is Verdict.CLOSE:
            self._metrics.connections_refused += 1
            return False
        self._metrics.connections_opened += 1
        self._connections[connection] = None
        self._all_closed.clear()
        if admission.verdict is Verdict.LET_IN_LATER:
            self._keep_waiting(connection, admission.wait_ms, partial(connection.release, _TOO_MANY))
        return True

    def _turn_away(self, connection: Connection, wait_ms: int) -> bool:
        """Close it in a while, if not too many wait for that: whoever is closed at once comes back at once."""
        if len(self._waiting) >= _WAITING_MAX:
            return False
        self._keep_waiting(connection, wait_ms, connection.abort)
        return True

    def _keep_waiting(self, connection: Connection, wait_ms: int, then: Callable[[], None]) -> None:
        connection.hold(_TOO_MANY)
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.call_later(wait_ms / 1000, self._stop_waiting, connection, then)

    def _stop_waiting(self, connection: Connection, then: Callable[[], None]) -> None:
        self._waiting.pop(connection, None)
        then()

    def _on_close(self, connection: Connection, error: str | None) -> None:
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()
        if self._connections.pop(connection, connection) is None:
            self._metrics.connections_closed += 1
            self._limits.on_close(connection.listener, connection.address)
        if not self._connections:
            self._all_closed.set()
        if error is not None:
            _log.warning("connection closed peer=%s listener=%s reason=%r", connection.peer, connection.listener, error)

    def _schedule_idle_check(self) -> None:
        if self._settings.connections_max_idle_ms < 0:
            return
        loop = asyncio.get_running_loop()
        self._idle_check = loop.call_later(
            self._settings.connections_max_idle_ms / 1000 / _IDLE_CHECKS, self._close_idle
        )

    def _close_idle(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._settings.connections_max_idle_ms / 1000
        for connection in [one for one in self._connections if one.last_active < oldest]:
            self._metrics.connections_expired += 1
            connection.abort()
        self._schedule_idle_check()


def _protected(settings: Settings) -> frozenset[str]:
    """The listeners that clients must not fill: of the quorum, and of brokers where clients have another."""
    names = {listener.name for listener in settings.controller_listeners}
    if "broker" in settings.process_roles and len(settings.broker_listeners) > 1:
        names.add(settings.inter_broker_listener)
    return frozenset(names)
