"""How the tests run the command: inside this process where they can, as a process where signals and pipes matter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, NamedTuple, Self

from typer.testing import CliRunner

from bifrost.cli.main import app
from tests.compat.clients.base import EARLIEST, LATEST, Stored
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.servers import Server
from tests.integration.command import environment

TIMEOUT_S = 60


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    def failed(self, code: int, problem: str) -> None:
        """It said what is wrong in one line, and perhaps what to do in another, and nothing else."""
        assert (self.code, "Traceback" in self.err) == (code, False), self
        (line,) = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert problem in line


def run(server: Server | str, *arguments: str, given: bytes = b"") -> Result:
    """In this process; `given` is its stdin."""
    bootstrap = server if isinstance(server, str) else server.bootstrap
    runner = CliRunner(env={"BIFROST_BOOTSTRAP": bootstrap, "COLUMNS": "80", "BIFROST_CONFIG": os.devnull})
    done = runner.invoke(app, list(arguments), input=given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Result(done.exit_code, done.stdout_bytes, done.stderr)


class Process:
    """A command as a process, with its pipes in the test's hands."""

    def __init__(self, server: Server, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bifrost", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # nothing waits here to be written when the command has gone
            env={**environment(), "BIFROST_BOOTSTRAP": server.bootstrap, "BIFROST_CONFIG": os.devnull},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin = self._process.stdin
        self.stdout = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._process.wait(timeout=TIMEOUT_S)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self.stdin.write(left) :]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def read_line(self) -> bytes:
        """The next line of stdout; the test fails if none comes."""
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(self.stdout.readline()), daemon=True)
        reader.start()
        reader.join(TIMEOUT_S)
        assert found, "no line came"
        return found[0]

    def wait(self) -> tuple[int, str]:
        """For a test that has closed the pipes: exit code and stderr."""
        assert self._process.stderr is not None
        err = self._process.stderr.read().decode()
        return self._process.wait(timeout=TIMEOUT_S), err

    def end(self) -> Result:
        """Close its stdin, if that is still open, and wait."""
        self.stdin.close()
        self._process.stdin = None
        out, err = self._process.communicate(timeout=TIMEOUT_S)
        return Result(self._process.returncode, out, err.decode())


def stored(server: Server, topic: str, partitions: int = 1) -> list[Stored]:
    """Everything in the topic, by partition and offset."""
    client = KafkaPython(server.bootstrap)
    count = stored_count(server, topic, partitions)
    found = client.consume(topic, dict.fromkeys(range(partitions), EARLIEST), count) if count else []
    return sorted(found, key=lambda record: (record.partition, record.offset))


def stored_count(server: Server, topic: str, partitions: int = 1) -> int:
    ends = KafkaPython(server.bootstrap).offsets(topic, list(range(partitions)), LATEST)
    return sum(end or 0 for end in ends.values())
