"""The processes that a page needs: a shell, a Python, and commands that serve until Ctrl-C.

All of them live in the page's directory with the page's environment, each in a process group of its own, so that
nothing outlives the page. What a command prints goes to a file: what runs on in the background then holds up nobody.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

PATIENCE_S = 120
TELLER = Path(__file__).with_name("teller.py")


class TookTooLong(Exception):
    """Something that a page runs did not end, or did not begin to serve."""


class Shell:
    """One bash for all commands of a page, so that `cd` and `export` last."""

    def __init__(self, directory: Path, scratch: Path, environment: Mapping[str, str]) -> None:
        self._scratch = scratch
        reading, writing = os.pipe()
        self._codes = os.fdopen(reading)
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            cwd=directory,
            env=dict(environment),
            pass_fds=[writing],
            start_new_session=True,
            text=True,
        )
        os.close(writing)
        self._code_fd = writing

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and what came on stdout and stderr, in one stream as in a terminal."""
        script, output = self._scratch / "command.sh", self._scratch / "output"
        script.write_text(command, encoding="utf-8")
        self._say(f"source {script} </dev/null >{output} 2>&1; echo $? >&{self._code_fd}\n")
        if not select.select([self._codes], [], [], PATIENCE_S)[0]:
            raise TookTooLong(f"no end after {PATIENCE_S} s; so far:\n{_text(output)}")
        code = self._codes.readline()
        if not code:
            raise TookTooLong(f"the shell ended:\n{_text(output)}")
        return int(code), _text(output)

    def set(self, name: str, value: str) -> None:
        self._say(f"export {name}={value}\n")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def close(self) -> None:
        end_group(self._process)
        self._codes.close()


class Python:
    """One Python for all Python of a page."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(TELLER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=directory,
            env=dict(environment),
            start_new_session=True,
            text=True,
        )

    def run(self, request: Mapping[str, Any]) -> tuple[str, str | None]:
        """What was printed, and what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], PATIENCE_S)[0]:
            raise TookTooLong(f"no end after {PATIENCE_S} s")
        answer = json.loads(self._process.stdout.readline() or '{"output": "", "trouble": "Python died"}')
        return answer["output"], answer["trouble"]

    def finish(self) -> None:
        """A reader's script must end by itself, too."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TookTooLong("Python does not end after the last block: something still runs in it") from None
        if code != 0:
            raise TookTooLong(f"Python ended with {code} after the last block")

    def close(self) -> None:
        end_group(self._process)


class Foreground:
    """A command that occupies its terminal until Ctrl-C."""

    def __init__(self, command: str, directory: Path, output: Path, environment: Mapping[str, str]) -> None:
        self.command = command
        self._output = output
        stream: IO[bytes]
        with output.open("wb") as stream:
            self._process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=dict(environment),
                start_new_session=True,
            )

    def printed(self) -> str:
        return _text(self._output)

    def wait_until(self, condition: Callable[[str], bool]) -> bool:
        """Whether what it prints comes to meet the condition."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self.printed()):
            if self._process.poll() is not None:
                return condition(self.printed())
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def interrupt(self) -> int:
        """Ctrl-C; its exit code."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TookTooLong(f"Ctrl-C does not end {self.command}") from None

    def close(self) -> None:
        end_group(self._process)


def end_group(process: subprocess.Popen[Any]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nobody is left in it
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                pass  # a last word that nobody reads


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
