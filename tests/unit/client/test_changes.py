"""Ctrl-C at every step of waiting: the interrupt comes out, and nobody else is locked out."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from bifrost.client.changes import Changes

TRACED = {"wait", "wait_for", "__enter__", "__exit__", "_release_save", "_acquire_restore", "_is_owned"}


class Interrupt:
    """Strikes before the line of that number, counted over all lines of waiting."""

    def __init__(self, line: int) -> None:
        self.left = line
        self.struck = False

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_name not in TRACED:
            return None
        if event == "line" and not self.struck:
            if self.left == 0:
                self.struck = True
                raise KeyboardInterrupt
            self.left -= 1
        return self.trace


def waits_to_the_end(changes: Changes, line: int) -> bool:
    """False if it was interrupted, at that line."""
    before = sys.gettrace()
    try:
        with changes.lock:
            sys.settrace(Interrupt(line).trace)
            changes.wait_for(lambda: False, 0.001)
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)
    return True


def test_an_interrupt_at_any_step_comes_out_and_leaves_the_lock_free() -> None:
    line = 0
    while not waits_to_the_end(changes := Changes(), line):
        assert is_free(changes), f"taken for good after an interrupt at line {line}"
        line += 1
    assert line > 20, "all of Condition.wait was walked through"


def is_free(changes: Changes) -> bool:
    taken = []
    other = threading.Thread(target=lambda: taken.append(changes.lock.acquire(timeout=5)))
    other.start()
    other.join()
    return taken == [True]


def test_what_is_waited_for_and_what_is_not() -> None:
    changes = Changes()
    told: list[bool] = []

    def wait() -> None:
        with changes.lock:
            told.append(changes.wait_for(lambda: told == ["go"], 30))  # type: ignore[comparison-overlap]

    waiting = threading.Thread(target=wait)
    waiting.start()
    with changes.lock:
        told.append("go")  # type: ignore[arg-type]
        changes.notify_all()
    waiting.join()
    assert told == ["go", True]
    with changes.lock:
        assert not changes.wait_for(lambda: False, 0)
