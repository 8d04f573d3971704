"""Connections that are open and in nobody's hands, by address, to be used again.

Whoever takes a connection owns it until it is given back. One that still awaits answers, is closed or was opened by
the parent of this process is never given out again.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from typing import Final

from bifrost.client.errors import InvalidRequestError
from bifrost.client.wire.connection import Address, Connection
from bifrost.client.wire.handshake import connect
from bifrost.client.wire.patience import Deadline
from bifrost.client.wire.security import tls_context
from bifrost.client.wire.settings import WireSettings

IDLE_MAX: Final = 8
"""How many idle connections to one address are worth keeping."""


class ConnectionPool:
    """Thread-safe. Connections are made outside the lock: a slow broker holds up only who wants it."""

    def __init__(self, settings: WireSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._tls: ssl.SSLContext | None = tls_context(settings.security) if settings.security.encrypted else None
        self._closed = False
        self.forget()

    def take(self, address: Address, deadline: Deadline) -> Connection:
        """An idle connection, or a new one."""
        with self._lock:
            if self._closed:
                raise InvalidRequestError("the client is closed", "Make a new one.")
            idle = self._idle.get(address, [])
            oldest = self._clock() - self._settings.connections_max_idle_ms / 1000
            while idle:
                connection = idle.pop()
                if not connection.closed and connection.idle_since >= oldest:
                    return connection
                connection.close()
        return connect(address, self._settings, self._tls, deadline)

    def give_back(self, connection: Connection) -> None:
        """The owner is done with it; a connection in the middle of something is closed."""
        if connection.closed or connection.unanswered:
            connection.close()
            return
        connection.idle_since = self._clock()
        with self._lock:
            idle = self._idle.setdefault(connection.address, [])
            if not self._closed and len(idle) < IDLE_MAX:
                idle.append(connection)
                return
        connection.close()

    def drop_idle(self, address: Address) -> None:
        """A connection to this address has just broken: the idle ones broke with it, most likely."""
        with self._lock:
            idle = self._idle.pop(address, [])
        for connection in idle:
            connection.close()

    def forget(self) -> None:
        """In a forked child: the locks and the connections are the parent's."""
        self._lock = threading.Lock()
        self._idle: dict[Address, list[Connection]] = {}

    def close(self) -> None:
        """Closes what is idle now, and from now on what is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()
