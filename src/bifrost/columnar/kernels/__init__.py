"""What is done once per record, compiled by numba, or with numpy where numba is not installed.

`BIFROST_KERNELS` is "numba" or "numpy" to insist on one of them. The choice is made at the first use, not at import:
loading compiled kernels takes a fifth of a second, and compiling them for the first time some seconds.
"""

from __future__ import annotations

import os
import threading
from importlib.util import find_spec
from typing import Final

from bifrost.client.errors import ConfigError, UnsupportedError
from bifrost.columnar.errors import arrow
from bifrost.columnar.kernels.interface import Kernels

CHOICE: Final = "BIFROST_KERNELS"

_lock = threading.Lock()
_loaded: dict[str, Kernels] = {}


def kernels(name: str | None = None) -> Kernels:
    """The kernels of that name, or those that the environment asks for, or the fastest that there are."""
    wanted = name or chosen()
    with _lock:
        if wanted not in _loaded:
            _loaded[wanted] = _load(wanted)
        return _loaded[wanted]


def chosen() -> str:
    """ "numba" or "numpy". Nothing is imported for the answer."""
    named = os.environ.get(CHOICE, "")
    if named not in ("", "numba", "numpy"):
        raise ConfigError(f"{CHOICE}={named}: there are no such kernels", "Set it to numba or numpy, or not at all.")
    return named or ("numba" if find_spec("numba") else "numpy")


def _load(name: str) -> Kernels:
    arrow()
    if name == "numpy":
        from bifrost.columnar.kernels.vectorised import VectorisedKernels

        return VectorisedKernels()
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"the compiled kernels need numba, which cannot be imported: {error}",
            f"pip install 'bifrost-stream[arrow]', or set {CHOICE}=numpy.",
        ) from error
    from bifrost.columnar.kernels import cache

    with cache.in_place():
        from bifrost.columnar.kernels.compiled import CompiledKernels
    return CompiledKernels()
