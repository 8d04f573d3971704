"""Where compiled kernels are kept between runs.

`NUMBA_CACHE_DIR` if it is set, else `bifrost/kernels` in the user's cache directory. What is kept there is loaded as
code: a directory that others can write to is not used, and where none can be had, every process compiles for itself.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

OVERRIDE: Final = "NUMBA_CACHE_DIR"


def directory() -> Path | None:
    """The directory, made if need be; None if there is none that may be written to and trusted."""
    if named := os.environ.get(OVERRIDE):
        return Path(named)
    folder = os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(folder) if folder else Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in some containers
        home = None
    candidates = [home / "bifrost" / "kernels"] if home else []
    candidates.append(Path(tempfile.gettempdir()) / f"bifrost-kernels-{os.getuid()}")
    return next((path for path in candidates if _usable(path)), None)


def _usable(path: Path) -> bool:
    """Whether only this user can write there, and can."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = path.lstat()
    except OSError:
        return False
    ours = facts.st_uid == os.getuid() and not facts.st_mode & 0o022 and path.is_dir() and not path.is_symlink()
    return ours and os.access(path, os.W_OK | os.X_OK)


def _for_this_process() -> str:
    made = tempfile.mkdtemp(prefix="bifrost-kernels-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@contextmanager
def in_place() -> Iterator[Path | None]:
    """While this lasts, numba looks for compiled functions there. The application's own functions keep their place."""
    from numba import config

    found = directory()
    before = config.CACHE_DIR
    config.CACHE_DIR = str(found or _for_this_process())
    try:
        yield found
    finally:
        config.CACHE_DIR = before
