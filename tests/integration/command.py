"""The `bifrost` command as a process of its own, as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

SOURCES = Path(__file__).resolve().parents[2] / "src"
TIMEOUT_S = 30


def environment(sources: Path = SOURCES) -> dict[str, str]:
    """This process's, with the sources that are under test in front."""
    paths = [str(sources), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "bifrost", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=TIMEOUT_S,
        check=False,
    )


class Command:
    """A command that serves until it is told to stop. `with` waits for its ready line."""

    def __init__(self, *arguments: str | Path, cwd: Path | None = None, sources: Path = SOURCES) -> None:
        self._command = [sys.executable, "-m", "bifrost", *map(str, arguments)]
        self._cwd = cwd
        self._environment = environment(sources)
        self.line = ""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._cwd,
            env=self._environment,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        if not self.line.startswith("ready "):
            raise AssertionError(f"not ready: {self.line!r} {self.process.communicate(timeout=TIMEOUT_S)[1]}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)

    @property
    def bootstrap(self) -> str:
        return self.told["bootstrap"]

    @property
    def told(self) -> dict[str, str]:
        """What the ready line says, by name."""
        return dict(part.split("=", 1) for part in self.line.split()[1:])

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Send the signal, if any, and wait: exit code, the rest of stdout, all of stderr."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, err
