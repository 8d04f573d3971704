"""The Java client under load: one producer, or one consumer, for the whole of a run, in a JVM of its own.

The JVM is told what to send and tells what became of it, a line each (`tests/compat/java/Load.java`). It ends with
its standard input, so that none outlives its test.
"""

from __future__ import annotations

import base64
import functools
import subprocess
import threading
from collections.abc import Iterator
from itertools import count

from tests.compat.cache import Unavailable
from tests.compat.clients.driven import Java
from tests.faults.journal import place_of
from tests.faults.readers import Reader
from tests.faults.writers import UNDER_WAY_MAX, Writer
from tests.sim.history import Place, Value

_END_S = 20.0


@functools.cache
def missing() -> str | None:
    """Why there is no Java client here; None if there is one."""
    try:
        Java.command("Load")
    except Unavailable as error:
        return str(error)
    return None


class _Process:
    """A JVM with one client in it."""

    def __init__(self, *arguments: str) -> None:
        command, _ = Java.command("Load")
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it warns of every broker that is away
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def say(self, line: str) -> None:
        self._in.write(line + "\n")
        self._in.flush()

    def lines(self) -> Iterator[str]:
        """Until it ends."""
        return (line.rstrip("\n") for line in self._out)

    def end(self) -> None:
        self._in.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class JavaWriter(Writer):
    """Kafka's own producer."""

    def _write(self) -> None:
        self._waiting: dict[int, tuple[float, Place, Value]] = {}
        process = _Process("write", self.bootstrap, self.topic)
        hears = threading.Thread(target=self.journal.watched(self.name, lambda: self._hear(process)), daemon=True)
        hears.start()
        numbers = count()
        try:
            while self._pace() and hears.is_alive():
                if self.under_way < UNDER_WAY_MAX:
                    self._send(process, next(numbers))
            if not self._stop.is_set():
                self.journal.complain("dead client", f"{self.name} ended")
            self._finish(lambda: True)
        finally:
            process.end()
            hears.join()

    def _send(self, process: _Process, number: int) -> None:
        partition = number % self.partitions
        place, value = place_of(self.topic, partition), self._value(partition, number // self.partitions)
        data = self.journal.sent(place, value)
        self._waiting[number] = (self.journal.now(), place, value)
        self.under_way += 1
        process.say(f"{number} {partition} {base64.b64encode(data).decode()}")

    def _hear(self, process: _Process) -> None:
        for line in process.lines():
            outcome, number, rest = line.split(" ", 2)
            asked_at, place, value = self._waiting.pop(int(number))
            if outcome == "acked":
                offset = int(rest)
                self._on_acknowledged(asked_at, place, value, offset if offset >= 0 else None)
            else:
                self._on_failed(place, value, rest)


class JavaReader(Reader):
    """Kafka's own consumer, without a group."""

    def _read(self) -> None:
        process = _Process("read", self.bootstrap, self.topic, str(len(self.positions)))
        stopper = threading.Thread(target=lambda: (self._stop.wait(), process.end()), daemon=True)
        stopper.start()
        polled: dict[int, list[tuple[int, bytes | None]]] = {}
        for line in process.lines():
            kind, _, rest = line.partition(" ")
            if kind == "record":
                partition, offset, data = rest.split(" ")
                polled.setdefault(int(partition), []).append((int(offset), base64.b64decode(data)))
            elif kind == ".":
                for partition, records in polled.items():
                    self._take(partition, records)
                polled = {}
            else:
                self.journal.complain("read error", f"{self.name}: {rest}")
        if not self._stop.is_set():
            self.journal.complain("dead client", f"{self.name} ended")
        self._stop.set()
        stopper.join()
