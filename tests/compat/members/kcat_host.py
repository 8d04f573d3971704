"""kcat's balanced consumer (`-G`): a process per member, whose assignments are read from what it prints.

It commits by itself, prints records as JSON on its standard output and rebalances on its standard error. The two are
read by two threads, so that the order between a record and a rebalance is not known; within each it is.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from typing import Any

from tests.compat import cache
from tests.compat.members.host import Event, Host, Member, Record
from tests.compat.members.spec import Spec

_REBALANCED = re.compile(r"% Group .* rebalanced.*?(assign|revoke).*?: (.*\[\d+\].*)")
_PLACE = re.compile(r"(\S+) \[(\d+)\]")


class KcatHost(Host):
    """Looks like a host; each member is a process of its own."""

    def __init__(self) -> None:
        self._kcat = cache.tool("kcat", "Debian: apt-get install kcat")
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []
        self.members = {}
        self.killed_at = None

    def is_alive(self) -> bool:
        return True

    def join(self, spec: Spec, name: str | None = None) -> Member:
        name = name or f"m{next(self._numbers)}"
        member = self.members[name] = Member(self, name, spec)
        settings = {
            "client.id": name,
            "auto.offset.reset": spec.reset,
            "session.timeout.ms": spec.session_ms,
            "heartbeat.interval.ms": spec.heartbeat_ms,
            "max.poll.interval.ms": spec.max_poll_ms,
            "fetch.wait.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 300,
        }
        if spec.assignor is not None:
            settings["partition.assignment.strategy"] = spec.assignor
        if spec.instance is not None:
            settings["group.instance.id"] = spec.instance
        options = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
        topics = [spec.pattern] if spec.pattern is not None else list(spec.topics)
        command = [self._kcat, "-b", spec.bootstrap, "-J", "-u", *options, "-G", spec.group, *topics]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._processes[name] = process
        for read in (self._read_records, self._read_rebalances):
            thread = threading.Thread(target=read, args=(member, process), daemon=True)
            thread.start()
            self._threads.append(thread)
        return member

    def _read_records(self, member: Member, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                told = json.loads(line)
                record = Record(told["topic"], told["partition"], told["offset"], told["payload"])
                member.hear(Event(member.name, time.time(), "records", records=(record,)))

    def _read_rebalances(self, member: Member, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                if (found := _REBALANCED.match(line)) is not None:
                    places = tuple((topic, int(partition)) for topic, partition in _PLACE.findall(found[2]))
                    member.hear(Event(member.name, time.time(), f"{found[1].removesuffix('e')}ed", places))
        process.wait()
        if member.is_in and self.killed_at is None:
            member.hear(Event(member.name, time.time(), "left"))

    def send(self, **command: Any) -> None:
        """A member can be told to leave; an interrupt is how kcat's users do it."""
        assert command["op"] == "leave", f"kcat cannot {command['op']}"
        self._processes[command["member"]].send_signal(signal.SIGINT)

    def _end(self) -> None:
        for process in self._processes.values():
            process.wait()
        for thread in self._threads:
            thread.join()

    def _kill_processes(self) -> None:
        for process in self._processes.values():
            process.kill()
