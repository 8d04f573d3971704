"""Processes for work that would hold up a node's loop.

They are spawned, not forked: a loop and its threads do not survive a fork. Each ends with its node, however that ends.
Most nodes never need one, so what pools are made of is imported when the first is made.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

_NICENESS: Final = 19


def workers() -> Executor:
    """As many as there are cores, each started when there is work for it."""
    return _pool(None, _end_with_the_node)


def patient_worker() -> Executor:
    """One process that gives way to everybody. Blocks until it is on its way."""
    pool = _pool(1, _step_back)
    pool.submit(int).result()
    return pool


def _pool(size: int | None, initializer: Callable[[], None]) -> Executor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(size, mp_context=multiprocessing.get_context("spawn"), initializer=initializer)


def _step_back() -> None:
    os.nice(_NICENESS)
    if hasattr(os, "SCHED_IDLE"):  # Linux: whoever wakes up elsewhere goes on at once
        with suppress(OSError):  # a container may not allow it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    _end_with_the_node()


def _end_with_the_node() -> None:
    """Runs in a worker. It waits on a pipe that it holds both ends of, so nothing else would tell it of a node that was
    killed; and Ctrl-C is for the node, which then sees to its workers."""
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    node = multiprocessing.parent_process()
    assert node is not None, "a worker has been started by somebody"

    def end() -> None:
        node.join()
        os._exit(1)

    threading.Thread(target=end, name="end-with-the-node", daemon=True).start()
