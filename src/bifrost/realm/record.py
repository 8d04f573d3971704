"""`DATA/cluster.json`: what runs here, for tools and people; and who really runs, which only locks can tell.

The file is replaced as a whole, so that nobody ever reads half of it. It may outlive those it speaks of: a process that
is killed removes nothing. So whether they live is asked of the locks that they hold, which end with them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bifrost.log.log_directory import LOCK_FILE
from bifrost.realm.plan import HEIMDALL, Shape

FILE: Final = "cluster.json"
UP_LOCK: Final = ".up.lock"
"""Held by `bifrost up` for as long as it lives."""
_WAS_READY: Final = ".was-ready"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One node. Its address is that of clients, or for an Odin that of the quorum."""

    id: int
    name: str
    roles: tuple[str, ...]
    address: str
    pid: int | None
    state: str
    since_ms: int
    """When it came into this state, in milliseconds since 1970."""
    restarts: int = 0
    http: str | None = None
    """Where it speaks HTTP, or did when it was last ready; None for those that do not."""

    @property
    def is_broker(self) -> bool:
        return HEIMDALL in self.roles


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """A cluster and the process that watches over it, which for a single node is the node itself."""

    bootstrap: str
    http: str | None
    """Of an Odin that runs."""
    supervisor: int
    nodes: tuple[NodeRecord, ...]


def write(data: Path, record: ClusterRecord) -> None:
    """Replace the file."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    temporary = data / f"{FILE}.new"
    temporary.write_bytes(text)
    temporary.replace(data / FILE)


def read(data: Path) -> ClusterRecord | None:
    """What the file says; None if there is none that can be read."""
    try:
        return msgspec.json.decode((data / FILE).read_bytes(), type=ClusterRecord)
    except (OSError, msgspec.DecodeError):
        return None


def remove(data: Path) -> None:
    (data / FILE).unlink(missing_ok=True)


def supervisor(data: Path) -> int | None:
    """The process that runs the cluster here, if it lives."""
    return lock_holder(data / UP_LOCK)


def node_process(data: Path, name: str) -> int | None:
    """The process that has the node's data open, if it lives."""
    return lock_holder(data / name / LOCK_FILE)


def note_ready(data: Path) -> None:
    """The cluster on these data has started as a whole: a node that cannot, later, is in trouble of its own."""
    with contextlib.suppress(OSError):  # a full disk: then the next start is held to be the first one
        (data / _WAS_READY).touch()


def was_ready(data: Path) -> bool:
    """Whether that was noted here."""
    return (data / _WAS_READY).exists()


def shape_of(data: Path) -> Shape | None:
    """The cluster whose data are here; None if there are none."""
    if not data.is_dir():
        return None
    names = os.listdir(data)
    brokers = sum(name.startswith("heimdall-") for name in names)
    odins = sum(name.startswith("odin-") for name in names)
    if brokers or odins:
        return Shape(brokers, odins)
    return Shape(1, 0) if any(name.startswith("node-") for name in names) else None


# `struct flock` is the system's own: its fields are in another order on Linux than on macOS and BSD.
_IS_LINUX: Final = sys.platform.startswith("linux")
_FLOCK: Final = struct.Struct("hhqqi4x" if _IS_LINUX else "qqihh")


def lock_holder(path: Path) -> int | None:
    """The process that holds a lock on the file. Asks without locking: a node that starts must not meet us there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # A read lock is what a file that is only open for reading may be asked for.
        asked = (fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0) if _IS_LINUX else (0, 0, 0, fcntl.F_RDLCK, os.SEEK_SET)
        told = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(*asked)))
    finally:
        os.close(fd)
    kind, pid = (told[0], told[4]) if _IS_LINUX else (told[3], told[2])
    return None if kind == fcntl.F_UNLCK else int(pid)
