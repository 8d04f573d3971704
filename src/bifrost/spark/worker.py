"""What a Python worker does once: Spark keeps its workers, and so they may keep things."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """At the end of a task: takes what is loaded by now out of the garbage collector's sight.

    Spark's daemon collects all garbage after every task. With numba and pyarrow loaded that takes a tenth of a
    second, more than a small batch itself; none of those objects ever becomes garbage. The first task has loaded and
    called everything there is, so once is enough, and only in a worker: a program's own process is not ours to tune.
    """
    from pyspark import TaskContext

    global _settled  # noqa: PLW0603 - one fact of this process
    if _settled or TaskContext.get() is None:
        return
    _settled = True
    gc.collect()
    gc.freeze()
