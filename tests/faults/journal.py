"""The history that all clients of a run write into, on one clock, from many threads."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from tests.faults.checkers import StoredSomewhere
from tests.sim.history import Acknowledged, Complaint, Event, History, Place, Polled, Sent, Value
from tests.sim.values import decode_value, encode_value

VALUE_BYTES = 60
_JOIN_S = 120.0


class Journal:
    """Thin words for what clients see; whoever judges takes `history`."""

    def __init__(self) -> None:
        self.history = History()
        self._lock = threading.Lock()
        self._started = time.monotonic()

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._started

    def add(self, event: Event) -> None:
        with self._lock:
            self.history.add(event)

    def sent(self, place: Place, value: Value) -> bytes:
        """The bytes to send, of which it is known from now on that they may be there."""
        self.add(Sent(self.now(), place, (value,)))
        return encode_value(value, VALUE_BYTES)

    def acknowledged(self, asked_at: float, place: Place, offset: int | None, value: Value) -> None:
        if offset is None:
            self.add(StoredSomewhere(self.now(), place, value))  # type: ignore[arg-type]
        else:
            self.add(Acknowledged(asked_at, self.now(), place, offset, (value,)))

    def polled(self, reader: str, place: Place, expected: int, records: list[tuple[int, bytes | None]]) -> None:
        """The next records that a reader got, who stood at `expected`."""
        told = tuple((offset, decode_value(data)) for offset, data in records)
        at = self.now()
        self.add(Polled(at, at, reader, place, expected, told[-1][0] + 1, told))

    def watched(self, name: str, work: Callable[[], None]) -> Callable[[], None]:
        """For a thread: whatever ends it before its time is part of the history."""

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  # of any client library
                self.complain("dead client", f"{name}: {error!r} {traceback.format_exc()}")

        return run

    def join(self, thread: threading.Thread) -> None:
        """Wait for a thread to end; one that does not is part of the history, too."""
        thread.join(_JOIN_S)
        if thread.is_alive():
            frame = sys._current_frames().get(thread.ident or 0)
            where = " < ".join(f"{one.name}:{one.lineno}" for one in reversed(traceback.extract_stack(frame)))
            self.complain("stuck client", f"{thread.name} does not end: {where}")

    def complain(self, kind: str, detail: str) -> None:
        self.add(Complaint(self.now(), kind, detail))


def place_of(topic: str, partition: int) -> Place:
    return Place(topic, "", partition)
