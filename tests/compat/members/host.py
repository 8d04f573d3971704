"""The test's side of a host process: starts it, sends commands to its members, collects what they tell.

Decides when waiting ends; never what is right. A host is shared by the tests of a run, since a JVM takes a second to
start; a test that kills has a host of its own.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compat.members.spec import Spec

TIMEOUT_S = 25.0

Place = tuple[str, int]


class MemberFailed(Exception):
    """A member's client gave up; the text is its own."""


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something a member told, in the order it told it."""

    member: str
    at: float
    kind: str
    places: tuple[Place, ...] = ()
    records: tuple[Record, ...] = ()
    offsets: tuple[tuple[Place, int], ...] = ()
    text: str = ""


class Host:
    """A process with members in it."""

    _numbers = itertools.count()

    def __init__(
        self, command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment or None, cwd=folder
        )
        self.members: dict[str, Member] = {}
        self.killed_at: float | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def join(self, spec: Spec, name: str | None = None) -> Member:
        """A new member, named as its client id; returns at once."""
        name = name or f"m{next(self._numbers)}"
        self.members[name] = Member(self, name, spec)
        self.send(op="join", member=name, spec=spec.as_json())
        return self.members[name]

    def send(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self.members[told["member"]].hear(_event(told))
        for member in self.members.values():
            if member.is_in and self.killed_at is None:
                member.hear(Event(member.name, time.time(), "failed", text="its host ended"))

    def kill(self) -> None:
        """All members die without a word; what they had told before is still heard."""
        self.stop()
        assert self.killed_at is not None
        for member in self.members.values():
            member.die(self.killed_at)

    def stop(self) -> None:
        """Members that are still in are dropped with their process."""
        if self.killed_at is None:
            self.killed_at = time.time()
            self._kill_processes()
            self._end()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _kill_processes(self) -> None:
        self._process.kill()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # a command that nobody read


class Member:
    """What a member has told so far. Only the reader thread of its host adds to it."""

    def __init__(self, host: Host, name: str, spec: Spec) -> None:
        self.host = host
        self.name = name
        self.spec = spec
        self.events: list[Event] = []
        self.owned: set[Place] = set()
        self.records: list[Record] = []
        self.committed: dict[Place, int] = {}
        self.is_in = True

    def hear(self, event: Event) -> None:
        self.events.append(event)
        match event.kind:
            case "assigned":
                self.owned |= set(event.places)
            case "revoked" | "lost":
                self.owned -= set(event.places)
            case "records":
                self.records += event.records
            case "committed":
                self.committed |= dict(event.offsets)
            case "left" | "failed" | "killed":
                self.is_in = False
                self.owned = set()

    def die(self, at: float) -> None:
        if self.is_in:
            self.hear(Event(self.name, at, "killed"))

    def failure(self) -> str | None:
        return next((event.text for event in self.events if event.kind == "failed"), None)

    def commit(self, *, sync: bool = True) -> Event:
        """What it has read so far; the event says whether the client was told of success."""
        before = self._answers()
        self.host.send(op="commit", member=self.name, sync=sync)
        wait_for(lambda: self._answers() > before, f"{self.name} commits", self)
        return next(event for event in reversed(self.events) if event.kind in ("committed", "commit_failed"))

    def _answers(self) -> int:
        return sum(event.kind in ("committed", "commit_failed") for event in self.events)

    def stall(self, seconds: float) -> None:
        """Stops polling for so long."""
        self.host.send(op="stall", member=self.name, seconds=seconds)

    def leave(self, *, wait: bool = True) -> None:
        self.host.send(op="leave", member=self.name)
        if wait:
            wait_for(lambda: not self.is_in, f"{self.name} leaves", self)


def wait_for(condition: Callable[[], bool], what: str, *members: Member, timeout_s: float = TIMEOUT_S) -> None:
    """Until it holds; fails at once when a member of those does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        for member in members:
            if (text := member.failure()) is not None:
                raise MemberFailed(f"{member.name} while waiting: {what}: {text}")
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:.0f} s\n{_summary(members)}"
        time.sleep(0.01)


def _summary(members: tuple[Member, ...]) -> str:
    lines = []
    for member in members:
        last = [f"{event.kind}{list(event.places) or ''}{event.text}" for event in member.events[-6:]]
        lines.append(f"{member.name}: owns {sorted(member.owned)}, {len(member.records)} records, last {last}")
    return "\n".join(lines)


def _event(told: dict[str, Any]) -> Event:
    kind = next(key for key in told if key not in ("member", "at", "text"))
    value = told[kind]
    return Event(
        member=told["member"],
        at=told["at"],
        kind=kind,
        places=tuple((topic, partition) for topic, partition in value)
        if kind in ("assigned", "revoked", "lost")
        else (),
        records=tuple(Record(*each) for each in value) if kind == "records" else (),
        offsets=tuple(((topic, partition), offset) for topic, partition, offset in value)
        if kind in ("committing", "committed", "commit_failed")
        else (),
        text=value if kind == "failed" else told.get("text", ""),
    )


@contextmanager
def own_host(make: Callable[[], Host]) -> Iterator[Host]:
    """A host for one test, which may kill it."""
    host = make()
    try:
        yield host
    finally:
        host.stop()
