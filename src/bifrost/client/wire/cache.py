"""One client for each cluster in a process: workers that run many short tasks connect once.

Forked children start with an empty cache, and with clients whose locks are free and whose connections are forgotten.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from bifrost.client.wire.client import WireClient

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_Key = tuple[str, frozenset[tuple[str, str]]]

_lock = threading.Lock()
_clients: dict[_Key, WireClient] = {}


def shared_client(bootstrap: str | Sequence[str], settings: Mapping[str, object] = _NOTHING) -> WireClient:
    """The client of this process for that cluster and these settings. It is not the caller's to close."""
    addresses = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    key = addresses, frozenset((name, str(value)) for name, value in settings.items())
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = WireClient(bootstrap, settings)
        return client


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork)
