"""Waiting for what no event tells of: a test never sleeps for a while and hopes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0
"""Far more than anything takes here: a machine that runs other work too must not fail a test."""


def eventually(condition: Callable[[], object], what: str = "it", patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)
