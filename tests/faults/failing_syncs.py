"""Syncs that fail in a process that runs: strace answers them in the kernel's place.

A sync that fails is the one fault of a disk that no file system shows on request, and the one after which nothing may
be tried again (`log/flusher.py`). The kernel's own background sync is refused, so that the node takes its threads.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import eventually

_CALLS = "io_submit,fdatasync,fsync,syncfs"


class FailingSyncs:
    """What strace has answered so far."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    @property
    def count(self) -> int:
        lines = self._trace.read_text(errors="replace").splitlines()
        return sum("EIO" in line and "(INJECTED)" in line for line in lines)


@contextmanager
def failing_syncs(pid: int, folder: Path) -> Iterator[FailingSyncs]:
    """From now on every sync of the process fails with EIO. Skips the test where nobody may trace."""
    if shutil.which("strace") is None:
        pytest.skip("no strace here (Debian package strace)")
    trace, said = folder / "strace.out", folder / "strace.err"
    command = ["strace", "-f", "-o", str(trace), "-p", str(pid), "-e", f"trace={_CALLS}"]
    command += ["-e", "inject=io_submit:error=ENOSYS", "-e", "inject=fdatasync,fsync,syncfs:error=EIO"]
    with said.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors)
    try:
        eventually(lambda: "attached" in said.read_text() or process.poll() is not None, "strace has attached")
        if process.poll() is not None:
            pytest.skip(f"not permitted to trace a process: {said.read_text().strip()}")
        yield FailingSyncs(trace)
    finally:
        process.terminate()
        process.wait(30)
