"""Tests that need the whole machine run alone; all others run beside each other, more of them than there are cores.

Most tests wait for something most of the time, so that workers share a core well. A few keep all cores busy and have
clients with a patience of their own: beside others they would prove that the machine is slow. They are marked `alone`.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turnstile(*, alone: bool) -> Iterator[None]:
    """Pass when nobody else who wants to be alone is inside, or nobody at all.

    Whoever waits to be alone stands in the gate meanwhile, so that no stream of others can keep it out.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        yield
        return
    place = Path(tempfile.gettempdir(), f"bifrost-tests-{run}")
    place.mkdir(exist_ok=True)
    with (place / "gate").open("w") as gate, (place / "inside").open("w") as inside:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
