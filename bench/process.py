"""Client processes: started for one job, awaited, and never left behind."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

from bench.clients.job import Result
from bench.peers import Peer

JOB_SECONDS_MAX = 120.0
RAW, REAL = "bench.rawclient", "bench.realclient"


class ClientError(RuntimeError):
    """A client gave up; the text is the end of what it said."""


def run(module: str, peer: Peer, kind: str, **fields: object) -> Result:
    """Runs one job against the peer and returns what the client measured."""
    command = _command(module, peer, kind, fields)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise ClientError(f"{kind} against {peer.kind}: no end after {JOB_SECONDS_MAX:.0f} s") from error
    if done.returncode != 0:
        raise ClientError(f"{kind} against {peer.kind}: {done.stderr.strip()[-600:]}")
    return _parse(done.stdout)


class Held:
    """A client that stays until it is released."""

    def __init__(self, process: subprocess.Popen[str], output: IO[str], opening: Result) -> None:
        self._process = process
        self._output = output
        self.opening = opening

    def release(self) -> Result:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return _parse(self._output.readline())


@contextlib.contextmanager
def hold(module: str, peer: Peer, kind: str, **fields: object) -> Iterator[Held]:
    """Runs a job that reports once when it stands, and again when released."""
    command = _command(module, peer, kind, fields)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise ClientError(f"{kind} against {peer.kind}: ended early")
            yield Held(process, process.stdout, _parse(line))
        finally:
            process.kill()


def _command(module: str, peer: Peer, kind: str, fields: dict[str, object]) -> list[str]:
    where = {
        "port": peer.port,
        "bootstrap": peer.bootstrap,
        "leader_ports": peer.leader_ports(str(fields.get("topic"))),
    }
    job = {"kind": kind, "pids": peer.pids(), **where, **fields}
    return [sys.executable, "-m", module, json.dumps(job)]


def _parse(line: str) -> Result:
    result: Result = json.loads(line)
    return result
