"""Kernels made ready before anybody waits for them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bifrost.columnar.kernels import cache, chosen, kernels


@dataclass(frozen=True, slots=True)
class Warmed:
    """What was done."""

    kernels: str
    """"numba" or "numpy"."""
    compiled: int
    """How many kernels were compiled; the others came from the cache."""
    seconds: float
    directory: str | None
    """Where compiled kernels are kept; None if there is nothing to keep, or no place for it."""


def warm_up() -> Warmed:
    """Loads the kernels, and compiles what was not compiled yet. Kernels that are loaded already count for nothing."""
    began = time.perf_counter()
    name = chosen()
    kernels(name)
    seconds = time.perf_counter() - began
    if name == "numpy":
        return Warmed(name, 0, seconds, None)
    from bifrost.columnar.kernels import numba_code

    found = cache.directory()
    return Warmed(name, numba_code.compiled_kernels(), seconds, None if found is None else str(found))
