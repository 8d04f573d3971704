"""What a process has cost so far, read from /proc: CPU seconds, resident bytes, and what the rest of the machine did.

Linux only, as are the benchmarks. Processes are always summed over their tree, because a peer may serve from a child.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = pathlib.Path("/proc")


def process_tree(root_pid: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    tree = [root_pid]
    for pid in tree:
        tree.extend(children.get(pid, []))
    return tree


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of live processes, children they have reaped included."""
    ticks = 0
    for pid in pids:
        if (fields := _stat_fields(pid)) is not None:
            ticks += sum(int(value) for value in fields[11:15])
    return ticks / _TICKS_PER_SECOND


def rss_bytes(pids: Iterable[int]) -> int:
    return sum(_rss_bytes(pid) for pid in pids)


def _rss_bytes(pid: int) -> int:
    # smaps_rollup is exact; the counters behind statm lag by up to 64 pages a thread
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Rss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError):
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def forget_peaks(pids: Iterable[int]) -> None:
    """From now on `largest_peak_bytes` tells of what comes."""
    for pid in pids:
        with contextlib.suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text("5")


def largest_peak_bytes(pids: Iterable[int]) -> int:
    """The most that any one of them had resident."""
    return max((_peak_bytes(pid) for pid in pids), default=0)


def _peak_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name (which may hold spaces): state, ppid, ..."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


class Machine(NamedTuple):
    """CPU seconds of the whole machine since boot."""

    busy: float
    stolen: float


def machine() -> Machine:
    with (_PROC / "stat").open() as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(n) for n in file.readline().split()[1:9])
    return Machine((user + nice + system + irq + softirq) / _TICKS_PER_SECOND, steal / _TICKS_PER_SECOND)


class Usage(NamedTuple):
    """What happened between two moments: the peer's CPU, ours, and everybody else's."""

    peer: float
    client: float
    foreign: float


class Meter:
    """Starts counting when built; `read()` gives what was used since."""

    def __init__(self, peer_pids: Iterable[int]) -> None:
        self._pids = list(peer_pids)
        self._peer, self._client, self._machine = self._now()

    def _now(self) -> tuple[float, float, Machine]:
        own = os.times()
        return cpu_seconds(self._pids), own.user + own.system, machine()

    def read(self) -> Usage:
        peer, client, whole = self._now()
        peer, client = peer - self._peer, client - self._client
        busy = whole.busy - self._machine.busy + whole.stolen - self._machine.stolen
        return Usage(peer, client, max(0.0, busy - peer - client))
