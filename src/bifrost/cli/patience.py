"""A word for whoever waits: `HOGO LO`, which is how the house says "please wait", and what is awaited."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from bifrost.cli.output import remark
from bifrost.client.clusters import split_address

if TYPE_CHECKING:
    from bifrost.client.wire.client import WireClient
    from bifrost.client.wire.replica_admin import ReplicaAdmin

DEFAULT_PORT: Final = 9092
DECIDES: Final = "the controller, which may be elected just now"
ANSWERS: Final = "a broker that answers"
QUIET_S: Final = 1.5
"""Most answers take less, and need no word."""


@contextmanager
def hogo_lo(awaited: str | Callable[[], str | None], bootstrap: str, timeout_s: float | None = None) -> Iterator[None]:
    """Says what is awaited if it takes long, and somebody is there who may yet answer.

    What that is may have to be found out first, and then it may be nothing. That happens in a thread of its own. The
    waiting itself, and its end, are up to the body.
    """

    def speak() -> None:
        if any(_listens(address) for address in bootstrap.split(",")):
            what = awaited if isinstance(awaited, str) else awaited()
            if what is not None:
                remark(f"HOGO LO: waiting for {what}" + ("" if timeout_s is None else f", for up to {timeout_s:g} s"))

    timer = threading.Timer(QUIET_S, speak)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def patient(client: WireClient, timeout_s: float) -> ReplicaAdmin:
    """The client's admin of replicas, each of whose questions has to be decided, and may take until somebody can."""
    return cast("ReplicaAdmin", _Patient(client, timeout_s))


class _Patient:
    def __init__(self, client: WireClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._client.replicas, name)

        def asked(*args: object, **options: object) -> Any:
            with hogo_lo(DECIDES, self._client.bootstrap, self._timeout_s):
                return ask(*args, **options)

        return asked


def _listens(address: str) -> bool:
    host, port = split_address(address)
    try:
        with socket.create_connection((host, int(port or DEFAULT_PORT)), timeout=QUIET_S):
            return True
    except OSError:
        return False
