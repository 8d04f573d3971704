"""A node as a process of its own, that can be killed and paused."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

STOP_TIMEOUT_S = 30


class ProcessNode:
    """Runs `bifrost server` and reads its address from the line it prints when it serves."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        self.id = int(settings["node.id"])
        self._process: subprocess.Popen[str] | None = None
        self._paused = False
        self.address = ""
        self.http_url = ""
        """Where it speaks HTTP, if `http.listener` is set."""
        self.log: Path | None = None
        """Where to append what it says on stderr; with that of this process, if it is not said."""
        self.enter: tuple[str, ...] = ()
        """Put before its command: a program that runs it elsewhere, in its own place (`ip netns exec NAME`)."""

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def has_process(self) -> bool:
        """Whether there is one, even if it is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_running(self) -> bool:
        """Whether it would answer: neither dead nor paused."""
        return self.has_process and not self._paused

    @property
    def exit_code(self) -> int | None:
        """Of a node that ended by itself; None while it runs, or if it was ended here."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        host, port = (self.address or "127.0.0.1:0").rsplit(":", 1)
        named = {"listeners": f"PLAINTEXT://{host}:{port}", **self.settings}
        options = [part for name, value in named.items() for part in ("--set", f"{name}={value}")]
        command = [*self.enter, sys.executable, "-m", "bifrost", "server", "--stop-on-eof", *options]
        with nullcontext() if self.log is None else self.log.open("ab") as log:
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # ends with this process, however that ends, and the node with it
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready bootstrap="):
            code = process.wait(STOP_TIMEOUT_S)
            _close(process)
            self._process = None
            raise RuntimeError(f"the node did not start (exit code {code}): {' '.join(command)}")
        told = dict(part.split("=", 1) for part in line.split()[1:])
        self.address, self.http_url = told["bootstrap"], told.get("http", "")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open, and nobody answers on them."""
        self.send(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        self.send(signal.SIGCONT)
        self._paused = False

    def send(self, number: signal.Signals) -> None:
        """Send any other signal."""
        assert self._process is not None, "the node is not running"
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        if self._paused:
            process.send_signal(signal.SIGCONT)  # else the other signal waits
            self._paused = False
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close(process)

    def __repr__(self) -> str:
        return f"ProcessNode(id={self.id}, address={self.address!r})"


def _close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
