"""Ctrl-C as a request to finish, not as an exception in the middle of something.

An exception could strike between a message being handed over and its being counted, and the count would be wrong.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While entered, the first signal only sets `number`; a second one ends the command at once, as it would have."""

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._note) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def __bool__(self) -> bool:
        return self.number != 0

    @property
    def exit_code(self) -> int:
        """What shells report for a process that the signal ended."""
        return 128 + self.number

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.number:
            raise KeyboardInterrupt
        self.number = number
