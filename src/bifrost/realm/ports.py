"""Ports that are known before anybody listens on them: voters have to name each other before the first one starts."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self


class ReservedPorts:
    """Keeps ports of this machine from being given to others, until those who need them listen.

    A socket that is bound and does not listen is in nobody's way who asks for its very port, and in the way of
    everybody who asks for any.
    """

    def __init__(self, count: int) -> None:
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
        for each in self._sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        self.numbers = [each.getsockname()[1] for each in self._sockets]

    def release(self) -> None:
        for each in self._sockets:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
