"""Runs the nodes of a cluster as processes: does what `supervision.py` decides, and keeps `cluster.json` true.

Each node is in a session of its own, so that Ctrl-C reaches the supervisor alone, and reads its standard input, which
ends with the supervisor: however that ends, no node is left behind. What nodes log passes through here, to a file each
and to whoever watches.
"""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from bifrost.realm import record, wishes
from bifrost.realm.plan import PlannedNode, one_more
from bifrost.realm.record import ClusterRecord, NodeRecord
from bifrost.realm.supervision import CLEAN, Effects, Policy, State, Supervision

LOGS: Final = "logs"
_LOG_BYTES_MAX: Final = 10 << 20
_LINE_BYTES_MAX: Final = 1 << 20
_LAST_LINES: Final = 5
_MS: Final = 1000


class Watcher(Protocol):
    """Is told what happens."""

    def logged(self, name: str, line: str) -> None:
        """A node wrote a line to its log."""

    def told(self, name: str, text: str) -> None:
        """News of a node, as the end of a sentence that starts with its name."""

    def ready(self, cluster: ClusterRecord) -> None:
        """All nodes serve, for the first time."""

    def stopping(self, *, at_once: bool) -> None:
        """Somebody asked for it."""


class Supervisor:
    """One cluster. `run` returns when the last node has ended."""

    def __init__(
        self,
        nodes: Sequence[PlannedNode],
        data: Path,
        watcher: Watcher,
        *,
        policy: Policy,
        options: Sequence[str] = (),
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`options` are for `bifrost server`. `now_ms` is what people read on their clocks."""
        self._nodes = {node.name: node for node in nodes}
        self._data = data
        self._watcher = watcher
        self._options = list(options)
        self._now_ms = now_ms
        names = [(node.name, node.is_broker) for node in nodes]
        self._core = Supervision(names, policy, was_ready_before=record.was_ready(data))
        self._was_ready = False
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._told: dict[str, Mapping[str, str]] = {}
        """What each node said when it was ready last."""
        self._logs: dict[str, _LogFile] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wishes: dict[str, list[Path]] = {}
        """What was wished for each node and has not come true yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()

    async def run(self) -> bool:
        """Whether the cluster ended because it was asked to."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        wishes.forget_all(self._data)
        loop.add_signal_handler(wishes.SIGNAL, self._take_wishes)
        folder = self._data / LOGS
        folder.mkdir(exist_ok=True)
        self._logs = {name: _LogFile(folder / f"{name}.log") for name in self._nodes}
        self._do(self._core.on_begin(self._loop_ms()))
        await self._over.wait()
        if self._timer is not None:
            self._timer.cancel()
        record.remove(self._data)
        wishes.forget_all(self._data)
        for log in self._logs.values():
            log.close()
        return self._core.is_stopping and self._core.failed is None

    @property
    def failure(self) -> str | None:
        """Why the cluster did not start, in the words of the node that could not."""
        name = self._core.failed
        return None if name is None else f"{name} did not start: {self._logs[name].last_words()}"

    def _stop(self) -> None:
        self._watcher.stopping(at_once=self._core.is_stopping)
        self._do(self._core.on_stop(self._loop_ms()))

    def _take_wishes(self) -> None:
        for path, wish in wishes.take(self._data):
            name = wish.name if isinstance(wish, wishes.Retire) else f"heimdall-{wish.id}"
            if self._core.is_stopping or (name in self._nodes) != isinstance(wish, wishes.Retire):
                wishes.close(path)
                continue
            self._wishes.setdefault(name, []).append(path)
            if isinstance(wish, wishes.Retire):
                self._do(self._core.on_retire(name, self._loop_ms()))
            else:
                self._take_in(wish)

    def _take_in(self, wish: wishes.Join) -> None:
        like = next(iter(self._nodes.values()))
        node = one_more(like, wish.id, wish.listener, self._data, wish.settings)
        (self._data / node.name).mkdir(exist_ok=True)
        self._nodes[node.name] = node
        self._logs[node.name] = _LogFile(self._data / LOGS / f"{node.name}.log")
        self._do(self._core.on_join(node.name, node.is_broker, self._loop_ms()))

    def _tick(self) -> None:
        self._timer = None
        self._do(self._core.on_tick(self._loop_ms()))

    def _do(self, effects: Effects) -> None:
        """The only place that acts on decisions."""
        for name in effects.kill:
            self._signal(name, signal.SIGKILL)
        for name in effects.terminate:
            self._signal(name, signal.SIGTERM)
        for name in effects.start:
            # The task before is the one that we are called from, if any: it ends by itself.
            task = asyncio.create_task(self._watch_over(self._nodes[name]), name=name)
            task.add_done_callback(partial(self._on_watch_ended, name))
            self._tasks[name] = task
        for name in effects.gone:
            del self._nodes[name]
            self._told.pop(name, None)
            self._logs.pop(name).close()
        for name, text in effects.tell:
            self._watcher.told(name, text)
        if self._core.is_over:
            self._over.set()
            return
        self._write_record()
        for name in effects.gone:
            self._close_wishes(name)
        self._set_timer()
        if self._core.were_all_ready and not self._was_ready:
            self._was_ready = True
            record.note_ready(self._data)
            self._watcher.ready(self._record())

    def _close_wishes(self, name: str) -> None:
        """Only when the record says what became of them."""
        for path in self._wishes.pop(name, []):
            wishes.close(path)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._core.deadline_ms()
        if deadline_ms is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(deadline_ms / _MS, self._tick)

    async def _watch_over(self, node: PlannedNode) -> None:
        """One process, from its start to its end."""
        assignments = [part for name, value in node.settings.items() for part in ("--set", f"{name}={value}")]
        command = ["-m", "bifrost", "server", "--stop-on-eof", *self._options, *assignments]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=_LINE_BYTES_MAX,
            )
        except OSError as error:  # no memory or no process to be had: as with any end, it may be better later
            how = f"could not be started ({error.strerror or error})"
            self._do(self._core.on_exit(node.name, how, self._loop_ms()))
            return
        self._processes[node.name] = process
        if self._core.nodes[node.name].state is State.STOPPING:  # decided before there was anybody to tell
            process.terminate()
        self._write_record()
        await asyncio.gather(self._hear(node.name, process), self._keep_log(node.name, process))
        code = await process.wait()
        del self._processes[node.name]
        self._do(self._core.on_exit(node.name, _how(code), self._loop_ms()))

    def _on_watch_ended(self, name: str, task: asyncio.Task[None]) -> None:
        """A bug of ours must not leave a node behind that nobody watches over: it ends, and that is told."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        process = self._processes.pop(name, None)
        if process is not None and process.returncode is None:
            process.kill()
        if name in self._core.nodes:  # else it had retired
            how = f"is killed, for it cannot be watched over: {error!r}"
            self._do(self._core.on_exit(name, how, self._loop_ms()))

    async def _hear(self, name: str, process: asyncio.subprocess.Process) -> None:
        """Wait for the line that says that the node serves; it prints no other."""
        assert process.stdout is not None
        async for line in _lines(process.stdout):
            words = line.decode(errors="replace").split()
            if words[:1] == ["ready"]:
                self._on_ready(name, dict(word.split("=", 1) for word in words[1:] if "=" in word))

    def _on_ready(self, name: str, told: Mapping[str, str]) -> None:
        self._told[name] = told
        self._do(self._core.on_ready(name, told.get("bootstrap", ""), self._loop_ms()))
        if not self._core.nodes[name].is_retiring:
            self._close_wishes(name)

    async def _keep_log(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for raw in _lines(process.stderr):
            line = raw.decode(errors="replace").rstrip("\n")
            self._logs[name].write(line)
            self._watcher.logged(name, line)

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self._processes.get(name)
        if process is not None and process.returncode is None:
            process.send_signal(number)

    def _write_record(self) -> None:
        try:
            record.write(self._data, self._record())
        except OSError as error:  # a full disk; the nodes go on, and the file is written again at the next change
            self._watcher.told(record.FILE, f"cannot be written: {error.strerror or error}")

    def _record(self) -> ClusterRecord:
        nodes = tuple(map(self._node_record, self._nodes.values()))
        return ClusterRecord(
            bootstrap=",".join(node.address for node in nodes if node.is_broker),
            http=self._http(),
            supervisor=os.getpid(),
            nodes=nodes,
        )

    def _http(self) -> str | None:
        """Of those that run the first, in the order of the plan: the quickest would be another one each time."""
        told = {name: self._told[name]["http"] for name in self._nodes if "http" in self._told.get(name, {})}
        run = [url for name, url in told.items() if self._core.nodes[name].state is State.RUNNING]
        return next(iter([*run, *told.values()]), None)

    def _node_record(self, node: PlannedNode) -> NodeRecord:
        watched, process = self._core.nodes[node.name], self._processes.get(node.name)
        told = self._told.get(node.name, {})
        return NodeRecord(
            id=node.id,
            name=node.name,
            roles=node.roles,
            address=told.get("bootstrap", node.address),
            pid=None if process is None else process.pid,
            state=watched.state.value,
            since_ms=self._now_ms() - (self._loop_ms() - watched.since_ms),
            restarts=watched.restarts,
            http=told.get("http"),
        )

    def _loop_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * _MS)


class _LogFile:
    """What one node logs, up to a size; then the file before is dropped."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_LOG_BYTES_MAX, backupCount=1, encoding="utf-8"
        )
        self._last: list[str] = []

    def write(self, line: str) -> None:
        self._last = [*self._last[1 - _LAST_LINES :], line]
        self._handler.handle(logging.LogRecord("", logging.INFO, "", 0, line, None, None))

    def last_words(self) -> str:
        """The error that a node ends with, or what came last instead."""
        errors = [line.removeprefix("error: ") for line in self._last if line.startswith("error: ")]
        return " ".join(errors) or (self._last[-1] if self._last else "it said nothing")

    def close(self) -> None:
        self._handler.close()


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What a process writes, line by line; a line that is too long comes in pieces."""
    while True:
        try:
            yield await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            if end.partial:
                yield end.partial
            return
        except asyncio.LimitOverrunError as error:
            yield await stream.readexactly(error.consumed)


def _how(code: int) -> str:
    if code == 0:
        return CLEAN
    if code > 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"
