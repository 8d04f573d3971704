"""What commands ask of the process that runs a cluster here: one more broker, or one less.

A wish is a file in `DATA/wishes`, and a signal that there is one. Only the supervisor starts and stops nodes, so that
what it knows is true: a broker that somebody else stopped would be started again. The file is gone once the wish has
come true, or cannot: what became of it is in `cluster.json`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

FOLDER: Final = "wishes"
SIGNAL: Final = signal.SIGUSR1
_NEW: Final = ".json"
_TAKEN: Final = ".taken"


class Join(msgspec.Struct, frozen=True, tag="join"):
    """A broker shall be started, with what all others are started with, and these settings on top."""

    id: int
    listener: str
    settings: Mapping[str, str]


class Retire(msgspec.Struct, frozen=True, tag="retire"):
    """A node shall stop, and stay so."""

    name: str


Wish: TypeAlias = Join | Retire


def make(data: Path, wish: Wish, supervisor: int) -> Path:
    """Tell the supervisor, which must live; returns what `is_open` asks for."""
    folder = data / FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / f"{time.time_ns()}-{os.getpid()}{_NEW}"
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(msgspec.json.encode(wish))
    unfinished.replace(path)
    os.kill(supervisor, SIGNAL)
    return path


def is_open(path: Path) -> bool:
    """Whether it may yet come true. One that is being taken has the new name before it loses the old one."""
    return path.exists() or path.with_suffix(_TAKEN).exists()


def forget_all(data: Path) -> None:
    """Those of a supervisor that is gone."""
    folder = data / FOLDER
    for path in folder.iterdir() if folder.is_dir() else ():
        path.unlink(missing_ok=True)


def take(data: Path) -> list[tuple[Path, Wish]]:
    """All new ones in their order. To be given to `close` once they have come true, or cannot."""
    found: list[tuple[Path, Wish]] = []
    for path in sorted((data / FOLDER).glob(f"*{_NEW}")):
        try:
            wish: Wish = msgspec.json.decode(path.read_bytes(), type=Join | Retire)
        except msgspec.DecodeError:
            path.unlink()
            continue
        taken = path.with_suffix(_TAKEN)
        os.link(path, taken)
        path.unlink()
        found.append((taken, wish))
    return found


def close(taken: Path) -> None:
    taken.unlink(missing_ok=True)
