"""A node as a process of its own, that can be killed and paused."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping

STOP_TIMEOUT_S = 30


class ProcessNode:
    """Runs `bifrost server` and reads its address from the line it prints when it serves."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    def start(self) -> None:
        host, port = (self.address or "127.0.0.1:0").rsplit(":", 1)
        named = {"listeners": f"PLAINTEXT://{host}:{port}", **self._settings}
        options = [part for name, value in named.items() for part in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "bifrost", "server", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready bootstrap="):
            code = self._process.wait(STOP_TIMEOUT_S)
            self._process = None
            raise RuntimeError(f"the node did not start (exit code {code}): {' '.join(command)}")
        self.address = line.split("bootstrap=", 1)[1].split()[0]

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP and SIGCONT."""
        assert self._process is not None, "the node is not running"
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
