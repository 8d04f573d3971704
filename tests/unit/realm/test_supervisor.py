"""The supervisor with processes that are not nodes: what they write, and how they fail to be started or watched."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from bifrost.realm import supervisor as module
from bifrost.realm.plan import HEIMDALL, PlannedNode
from bifrost.realm.record import ClusterRecord
from bifrost.realm.supervision import Policy
from bifrost.realm.supervisor import Supervisor

EAGAIN = OSError(11, "Resource temporarily unavailable")


class Notes:
    """A watcher that remembers, and that stops the cluster once `end` is in something that it was told."""

    def __init__(self, end: str) -> None:
        self.lines: list[str] = []
        self.news: list[str] = []
        self._end = end

    def logged(self, name: str, line: str) -> None:
        self.lines.append(line)

    def told(self, name: str, text: str) -> None:
        self.news.append(f"{name} {text}")
        if self._end in text:
            os.kill(os.getpid(), signal.SIGTERM)

    def ready(self, cluster: ClusterRecord) -> None:
        pass

    def stopping(self, *, at_once: bool) -> None:
        pass


def supervise(tmp_path: Path, notes: Notes, script: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run one "node", which is this script, until the watcher has seen enough; whether it ended as it was asked to."""
    start = asyncio.create_subprocess_exec

    async def started(_python: str, *_command: str, **options: object) -> asyncio.subprocess.Process:
        return await start(sys.executable, "-u", "-c", script, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module.asyncio, "create_subprocess_exec", started)
    return _run(tmp_path, notes)


def _run(tmp_path: Path, notes: Notes) -> bool:
    node = PlannedNode(0, "heimdall-0", (HEIMDALL,), {"listeners": "PLAINTEXT://127.0.0.1:1"})

    async def run() -> bool:
        policy = Policy(first_pause_ms=1, stop_ms=100)
        return await asyncio.wait_for(Supervisor([node], tmp_path, notes, policy=policy).run(), 30)

    return asyncio.run(run())


def test_a_line_that_is_too_long_is_logged_in_pieces_and_the_node_is_watched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LINE_BYTES_MAX", 1000)
    notes = Notes("is ready")
    long = "import sys; sys.stderr.write('x' * 5000 + chr(10) + 'after' + chr(10)); "
    assert supervise(tmp_path, notes, long + "print('ready bootstrap=a:1', flush=True); sys.stdin.read()", monkeypatch)
    assert "".join(notes.lines).startswith("x" * 5000)
    assert "after" in notes.lines


def test_a_node_that_cannot_be_started_again_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, calls = asyncio.create_subprocess_exec, 0
    script = "print('ready bootstrap=a:1', flush=True)"

    async def sometimes(_python: str, *_command: str, **options: object) -> asyncio.subprocess.Process:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise EAGAIN
        return await start(sys.executable, "-u", "-c", script, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module.asyncio, "create_subprocess_exec", sometimes)
    notes = Notes("is back")
    assert _run(tmp_path, notes)
    failed = "heimdall-0 could not be started (Resource temporarily unavailable); it starts again in 0.002 s"
    assert failed in notes.news


def test_a_node_that_cannot_be_watched_over_is_killed_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: Supervisor, _name: str, _told: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Supervisor, "_on_ready", broken)
    notes = Notes("never")
    waits = "import sys; print('ready bootstrap=a:1', flush=True); sys.stdin.read()"
    assert not supervise(tmp_path, notes, waits, monkeypatch)
    assert any("cannot be watched over: RuntimeError('a bug')" in one for one in notes.news)


def test_a_cluster_goes_on_while_its_file_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_data: Path, _record: ClusterRecord) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.record, "write", full)
    notes = Notes("is ready")
    waits = "import sys; print('ready bootstrap=a:1', flush=True); sys.stdin.read()"
    assert supervise(tmp_path, notes, waits, monkeypatch)
    assert "cluster.json cannot be written: No space left on device" in notes.news


def test_a_node_that_has_retired_is_not_missed(tmp_path: Path) -> None:
    """Its watch may fail after the cluster has forgotten it, and there is nobody to start again."""

    async def fail() -> None:
        raise RuntimeError("a bug")

    async def story() -> None:
        node = PlannedNode(0, "heimdall-0", (HEIMDALL,), {"listeners": "PLAINTEXT://127.0.0.1:1"})
        supervisor = Supervisor([node], tmp_path, Notes("never"), policy=Policy())
        watch = asyncio.ensure_future(fail())
        await asyncio.wait([watch])
        supervisor._on_watch_ended("heimdall-7", watch)

    asyncio.run(story())
