"""`bifrost down`: stop what `bifrost up` runs here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from bifrost.cli.failure import fail
from bifrost.cli.up import DATA, Data

_POLL_S: Final = 0.05
_KILLED_S: Final = 10.0
"""For a process to be gone that was killed."""


def down(
    data: Data = DATA,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="How long nodes may take; then they are killed."),
    ] = 60.0,
) -> None:
    """Stop the cluster that `bifrost up` runs here.

    Brokers first, then Odins; whoever takes too long is killed. Fine if nothing runs.

    \b
    $ bifrost down
    $ bifrost down --data /srv/bifrost --timeout 10
    """
    from bifrost.realm import record

    supervisor = record.supervisor(data)
    if supervisor is not None:
        _stop_supervisor(data, supervisor, timeout)
    elif not _stop_left_behind(data, timeout):
        typer.echo(f"nothing runs on {data}")
        return
    record.remove(data)
    typer.echo(f"all stopped, the data are in {data}")


def _stop_supervisor(data: Path, pid: int, timeout: float) -> None:
    """It stops its nodes in order, and tells in its record how far that is."""
    from bifrost.realm import record

    running: dict[str, None] = {}

    def is_over() -> bool:
        is_gone = record.supervisor(data) != pid  # asked first: what the record says is then as true as it will be
        cluster = None if is_gone else record.read(data)
        left = [node.name for node in cluster.nodes if node.pid is not None] if cluster is not None else []
        for name in [name for name in running if name not in left and (is_gone or cluster is not None)]:
            typer.echo(f"{name} stopped")
            del running[name]
        running.update(dict.fromkeys(left))
        return is_gone

    is_over()
    os.kill(pid, signal.SIGTERM)
    if _comes_true(is_over, timeout):
        return
    typer.echo(f"not all stopped in {timeout:g} s: killing the rest")
    os.kill(pid, signal.SIGKILL)
    _comes_true(lambda: record.supervisor(data) != pid, _KILLED_S)
    _stop_left_behind(data, 0)


def _stop_left_behind(data: Path, timeout: float) -> bool:
    """Nodes whose supervisor is gone. They stop by themselves, unless they hang; whether there were any."""
    from bifrost.realm import record

    cluster = record.read(data)
    names = [] if cluster is None else [node.name for node in cluster.nodes]

    def running() -> dict[str, int]:
        found = {name: record.node_process(data, name) for name in names}
        return {name: pid for name, pid in found.items() if pid is not None}

    left = running()
    if not left:
        return False
    _signal(left, signal.SIGTERM)
    if not _comes_true(lambda: not running(), timeout):
        left = running()
        _signal(left, signal.SIGKILL)
        for name in left:
            typer.echo(f"{name} did not stop in {timeout:g} s and was killed")
        if not _comes_true(lambda: not running(), _KILLED_S):
            fail(f"{', '.join(running())} cannot be killed", code=1)
    return True


def _signal(processes: dict[str, int], number: signal.Signals) -> None:
    for pid in processes.values():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it ended meanwhile


def _comes_true(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
