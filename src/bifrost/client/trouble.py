"""Why nobody can be reached, gathered from the errors that librdkafka tells on the side.

librdkafka tries an address for ever, and says of a question only that its time ran out. A person with a wrong address
should neither wait for that nor be told so: who has never answered is given up after a moment, with the reason.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from bifrost.client.errors import UnreachableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

UNREACHABLE_AFTER_S: Final = 2.0
"""Enough for each address of a name such as localhost to be tried."""


class Trouble:
    """Of one client. Its `on_error` is librdkafka's `error_cb`, in whichever thread that is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all_down = False
        self.error: KafkaError | None = None
        """The last that says anything."""

    def on_error(self, error: KafkaError) -> None:
        with self._lock:
            if error.name() == "_ALL_BROKERS_DOWN":
                self._all_down = True
                self.error = self.error or error
            else:
                self.error = error

    def clear(self) -> None:
        """Somebody has answered."""
        with self._lock:
            self._all_down = False
            self.error = None

    @property
    def reason(self) -> str:
        """Why no broker can be reached; empty while one can."""
        with self._lock:
            return _reason(self.error) if self._all_down and self.error is not None else ""


def unreachable(bootstrap: str, reason: str = "", *, code: str = "") -> UnreachableError:
    because = f" ({reason})" if reason else ""
    hint = "Is it running, and is the address right? `bifrost up` starts one here."
    return UnreachableError(f"no broker answers at {bootstrap}{because}", hint, code=code)


def _reason(error: KafkaError) -> str:
    name, text = error.name(), error.str()
    if name == "_RESOLVE":
        return "no host of that name is known"
    if name == "_BAD_MSG":
        return "what answers there does not speak Kafka's protocol"
    if name == "_ALL_BROKERS_DOWN":
        return "no connection"
    if "Connection refused" in text:
        return "connection refused"
    return text.partition(" (after ")[0].rpartition("]: ")[2]
