"""Where downloaded clients and Apache Kafka's jars live, and how several test workers fetch them only once.

Decides the folder (`BIFROST_CACHE`, else the user's cache) and when a thing counts as complete: a marker file that is
written last. Never touches the repository, never installs a system package; what cannot be had becomes `Unavailable`
with the name of what is missing, which the fixtures turn into a skip.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path


class Unavailable(Exception):
    """A tool or a download that the tests can do without, if they say so."""


def folder() -> Path:
    """The root of everything the compat tests download or compile."""
    chosen = os.environ.get("BIFROST_CACHE")
    if chosen:
        return Path(chosen).absolute()
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache).absolute() / "bifrost"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """An exclusive lock between processes; the kernel drops it when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_failed: dict[str, Unavailable] = {}


def once(name: str, build: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, filled by `build` unless an earlier run has finished doing so.

    What cannot be had is not tried again in the same process: every test that needs it is skipped at once.
    """
    if name in _failed:
        raise _failed[name]
    try:
        return _built(name, build)
    except Unavailable as error:
        _failed[name] = error
        raise


def _built(name: str, build: Callable[[Path], None]) -> Path:
    target = folder() / name
    marker = target / ".complete"
    with locked(folder() / f"{name}.lock"):
        if not marker.exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            print(f"compat: preparing {name} in {target} (first run only)", file=sys.__stderr__, flush=True)
            build(target)
            marker.touch()
    return target


def tool(name: str, hint: str) -> str:
    """The path of a program that must already be on this machine."""
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed ({hint})")
    return path


def run(
    command: Sequence[str],
    *,
    what: str,
    cwd: Path | None = None,
    timeout_s: float = 300,
    env: Mapping[str, str] | None = None,
) -> str:
    """Runs a download or a compiler and returns its output; a failure is `Unavailable` with its last lines."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **env} if env else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{what} failed: {error}") from error
    if done.returncode != 0:
        tail = " | ".join((done.stdout + done.stderr).strip().splitlines()[-3:])
        raise Unavailable(f"{what} failed: {tail}")
    return done.stdout
